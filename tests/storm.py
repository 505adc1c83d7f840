"""Everything at once: clients, appends, nightly runs and a service that is killed; every answer is checked.

`python -m tests.storm SECONDS KILLS` runs it by hand.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from indexer.overview import read_only
from models.query import RecallRequest
from models.settings import Settings
from service.local import LocalBackend
from service.owner import living
from tests.samples import HEADER, log
from tests.service_support import COMMAND, settings_for

_TEXT = "kiln tide ledger orchard lantern queue cache glacier loom anchor harbour signal bridge filter garden mirror engine archive storm"
WORDS = _TEXT.split()
_ALLOWED = frozenset({0, 4, 6})
_QUESTIONS = 20
_PATIENCE_SECONDS = 600  # a machine in a storm is slow


@dataclass
class Seen:
    """What happened, counted; `wrong` must stay empty."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)


class Storm:
    """One pool, one state folder, and all that goes on around them."""

    def __init__(self, folder: Path, seed: int = 1) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.seen = Seen()
        self.number = 0
        self.settings = settings_for(folder, HEADER + log(*(self._spark() for _ in range(60))))
        self.stopping = threading.Event()
        self.service: subprocess.Popen[bytes] | None = None

    @property
    def flags(self) -> list[str]:
        """The flags that name its folders."""
        return [f"--memory-dir={self.settings.memory_dir}", f"--state-dir={self.settings.state_dir}"]

    def _spark(self) -> bytes:
        """A new entry, known before it stands in the file."""
        self.number += 1
        day = f"2026-0{self.random.randint(1, 5)}-{self.random.randint(1, 28):02d}"
        verdict = self.random.choice(["absorb -- fits", "park -- later", "release -- examined"])
        idea = " ".join(self.random.choices(WORDS, k=25))
        head = f"### [delve] Spark {self.number} {idea[:20].strip()} ({day})"
        text = f"{head}\n**Source:** {idea[20:60]}\n**Core pattern:** {idea}\n**Verdict:** {verdict}\n"
        self.seen.texts.add(text.rstrip("\n"))
        return text.encode()

    # What goes on

    def run(self, seconds: float, kills: int) -> Seen:
        """Lets it rage for so long, then compares the index with one that was built in peace."""
        self._command("index")
        work: list[Callable[[random.Random], None]] = [
            *[self._ask_service] * 5, *[self._get_entry] * 2, *[self._ask_command] * 2, self._index, self._append, self._nightly,
        ]  # fmt: skip
        threads = [threading.Thread(target=self._repeat, args=[job, n]) for n, job in enumerate(work)]
        self._start()
        for thread in threads:
            thread.start()
        for _ in range(kills):
            self.stopping.wait(seconds / (kills + 1))
            self._kill()
            self._start()
        self.stopping.wait(seconds / (kills + 1))
        self.stopping.set()
        for thread in threads:
            thread.join()
        self._kill()
        self._compare()
        return self.seen

    def _repeat(self, job: Callable[[random.Random], None], seed: int) -> None:
        chance = random.Random(seed)
        while not self.stopping.is_set():
            try:
                job(chance)
            except (OSError, http.client.HTTPException):
                self.seen.counts["connections lost"] += 1
                self.stopping.wait(0.2)

    def _start(self) -> None:
        """A service, which may have to wait until a command lets go of the index."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with (self.folder / "serve.log").open("ab") as file:
                self.service = subprocess.Popen([COMMAND, "serve", "--port", "0", *self.flags], stdout=file, stderr=file)
            while self.service.poll() is None:
                address = living(self.settings.state_dir)
                if address and address.pid == self.service.pid:
                    self.seen.counts["services"] += 1
                    return
                time.sleep(0.05)
            if self.service.returncode not in _ALLOWED:
                self.seen.wrong.append(f"serve ended with code {self.service.returncode}")
                return

    def _kill(self) -> None:
        if self.service is not None:
            self.service.kill()
            self.service.wait()
            self.seen.counts["kills"] += 1

    def _append(self, chance: random.Random) -> None:
        with self.settings.all_pools()[0].active.open("ab") as file:
            file.write(b"\n" + self._spark())
        self.seen.counts["appends"] += 1
        self.stopping.wait(chance.uniform(0.1, 1))

    def _nightly(self, chance: random.Random) -> None:
        day = 1 + self.seen.counts["nights"]
        self._command("compact", "--force", f"--today=2026-{6 + day // 28:02d}-{1 + day % 28:02d}")
        self._command("index")
        self.seen.counts["nights"] += 1
        self.stopping.wait(chance.uniform(0.5, 2))

    def _index(self, chance: random.Random) -> None:
        self._command("index")
        self.stopping.wait(chance.uniform(0.5, 3))

    def _ask_command(self, chance: random.Random) -> None:
        done = self._command("recall", " ".join(chance.choices(WORDS, k=3)), "--json")
        if done.returncode == 0:
            self._check(json.loads(done.stdout))

    def _ask_service(self, chance: random.Random) -> None:
        status, body = self._call("POST", "/v1/recall", {"query": " ".join(chance.choices(WORDS, k=chance.randint(1, 30)))})
        if status == 200:
            self._check(body)

    def _get_entry(self, chance: random.Random) -> None:
        if not self.seen.ids:
            self.stopping.wait(0.2)
            return
        status, body = self._call("GET", f"/v1/entries/{chance.choice(sorted(self.seen.ids))}")
        if status == 200 and body["text"] not in self.seen.texts:
            self.seen.wrong.append(f"entry with another text: {body['text'][:80]}")

    def _command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([COMMAND, *arguments, *self.flags], capture_output=True, text=True, check=False, timeout=_PATIENCE_SECONDS)
        self.seen.counts[f"{arguments[0]} {done.returncode}"] += 1
        if done.returncode not in _ALLOWED:
            self.seen.wrong.append(f"{arguments[0]} ended with code {done.returncode}: {done.stderr[-300:]}")
        return done

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        address = living(self.settings.state_dir)
        if address is None:
            raise ConnectionRefusedError
        connection = http.client.HTTPConnection(urlsplit(address.url).netloc, timeout=60)
        try:
            headers = {"Content-Type": "application/json"} if body else {}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            status, answer = response.status, json.loads(response.read())
        finally:
            connection.close()
        self.seen.counts[f"http {status}"] += 1
        if status not in (200, 404, 503):
            self.seen.wrong.append(f"{path} answered {status}: {answer}")
        return status, answer

    def _check(self, answer: dict[str, Any]) -> None:
        for hit in answer["hits"]:
            self.seen.counts["hits"] += 1
            self.seen.ids.add(hit["id"])
            if hit["text"] not in self.seen.texts:
                self.seen.wrong.append(f"hit with another text: {hit['text'][:80]}")
        if len({h["id"] for h in answer["hits"]}) != len(answer["hits"]):
            self.seen.wrong.append("an entry answered twice")

    # Afterwards

    def _compare(self) -> None:
        self._command("index")
        clean = self.settings.model_copy(update={"state_dir": self.folder / "clean"})
        subprocess.run([COMMAND, "index", self.flags[0], f"--state-dir={clean.state_dir}"], check=True, capture_output=True, timeout=600)
        ours, theirs = content(self.settings.state_dir), content(clean.state_dir)
        if ours != theirs:
            self.seen.wrong.append(f"the index differs from a clean one: {len(ours - theirs)} surplus, {len(theirs - ours)} lacking")
        self.seen.counts["entries at the end"] = len(ours)
        if len(ours) != len(self.seen.texts):
            self.seen.wrong.append(f"{len(self.seen.texts)} entries were written, {len(ours)} are indexed")
        if (a := answers(self.settings)) != (b := answers(clean)):
            self.seen.wrong.append(f"{sum(x != y for x, y in zip(a, b, strict=True))} of {_QUESTIONS} questions are answered otherwise")


def content(state_dir: Path) -> set[tuple[object, ...]]:
    """Every entry with its tier and its number of passages."""
    with closing(read_only(state_dir)) as db:
        db.row_factory = sqlite3.Row
        counts = Counter(row["row"] for row in db.execute("SELECT row FROM passage"))
        return {(row["tier"], row["id"], counts[row["row"]]) for row in db.execute("SELECT * FROM entry")}


def answers(settings: Settings) -> list[list[tuple[str, float]]]:
    """Ids and scores of the answers to some questions."""
    backend = LocalBackend(settings)
    chance = random.Random(7)
    try:
        asked = [RecallRequest(query=" ".join(chance.choices(WORDS, k=4)), limit=5) for _ in range(_QUESTIONS)]
        return [sorted((h.id, round(h.score, 2)) for h in backend.recall(q).hits) for q in asked]
    finally:
        backend.close()


def main() -> None:
    """Runs for so many seconds with so many kills, and prints what was seen."""
    seconds, kills = float(sys.argv[1]), int(sys.argv[2])
    for name in [n for n in os.environ if n.startswith("COLDSPARK")]:
        del os.environ[name]
    folder = Path(tempfile.mkdtemp(prefix="storm-"))
    seen = Storm(folder).run(seconds, kills)
    for name, count in sorted(seen.counts.items()):
        sys.stdout.write(f"{name:24}{count:8}\n")
    sys.stdout.write(f"in {folder}; wrong: {len(seen.wrong)}\n" + "".join(f"  {w}\n" for w in seen.wrong[:40]))
    sys.exit(bool(seen.wrong))


if __name__ == "__main__":
    main()
