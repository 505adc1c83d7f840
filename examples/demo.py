"""The tour that `make demo` gives: a spark file that broke its reader, compacted, indexed, and asked three questions."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from examples.make_pool import TODAY, build

COMMAND = str(Path(sys.executable).with_name("coldspark"))
QUESTIONS = (
    "which side of a store pays for keeping things cold?",
    "documentation that forgets what nobody walks any more",
    "keep the most flexible person free for the unknown emergency",
)
LIMIT_KB, LIMIT_TOKENS = 256, 25_000


class Tour:
    """A throwaway pool and the commands run over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.flags = ["--memory-dir", str(folder / "memory"), "--state-dir", str(folder / "state")]

    def run(self, *args: str, shown: str | None = None) -> None:
        """Shows the command as a person would type it, then runs it."""
        print(f"\n  $ coldspark {shown or shlex.join(args)}")
        subprocess.run([COMMAND, args[0], *self.flags, *args[1:]], check=True)

    def status(self) -> dict[str, Any]:
        """The pool's sizes."""
        out = subprocess.run([COMMAND, "status", *self.flags, "--json"], check=True, capture_output=True)
        pool: dict[str, Any] = json.loads(out.stdout)["pools"][0]
        return pool


def heading(number: int, text: str) -> None:
    """One stop of the tour."""
    print(f"\n{number}. {text}", flush=True)


def sizes(label: str, pool: dict[str, Any]) -> str:
    """One row of the table of sizes."""
    active, kb = pool["active"], pool["active"]["bytes"] / 1024
    fits = "loads" if kb < LIMIT_KB else "refuses it"
    return f"   {label:<8}{active['lines']:>8,}{kb:>8,.0f} KB{active['entries']:>9}   {fits}"


def main() -> None:
    """Walks through the whole of it."""
    began = time.monotonic()
    tour = Tour(Path(tempfile.mkdtemp(prefix="coldspark-demo-")))
    build(tour.folder)
    heading(1, f"Thirteen days of sparks have outgrown the agent that reads them ({tour.folder})")
    before = tour.status()
    table = [f"\n   {'':<8}{'lines':>8}{'size':>11}{'entries':>9}   Read tool ({LIMIT_KB} KB)", sizes("before", before)]
    print("\n".join(table), flush=True)

    heading(2, "Compact: examined and expired sparks move to the archive, byte for byte")
    tour.run("compact", "--today", str(TODAY))
    print("\n".join([*table, sizes("after", tour.status())]), flush=True)

    heading(3, "Index both tiers, so that what is cold stays within recall")
    tour.run("index")

    heading(4, "Ask the archive: the service answers by meaning, not by matching words")
    service = subprocess.Popen([COMMAND, "serve", *tour.flags, "--port", "0"], stderr=subprocess.DEVNULL)
    try:
        url = wait_until_ready(tour.folder / "state", service)
        for question in QUESTIONS:
            tour.run("recall", question, "--tier", "archive", "--limit", "2", shown=f'recall "{question}" --tier archive --limit 2')
        ask_over_http(url, QUESTIONS[0])
    finally:
        service.terminate()
        service.wait(20)

    heading(5, f"That was all, in {time.monotonic() - began:.0f} s. To go on with this pool:")
    flags = " ".join(shlex.quote(f) for f in tour.flags)
    print(
        f"\n   .venv/bin/coldspark serve {flags}\n   then open http://127.0.0.1:8765/docs, or ask: .venv/bin/coldspark recall '…' {flags}"
    )
    print("   For your own memory: .venv/bin/coldspark init --memory-dir ~/.claude/projects/<project>/memory\n")


def wait_until_ready(state: Path, service: subprocess.Popen[bytes]) -> str:
    """The service's address, once it answers in full."""
    for _ in range(600):
        if service.poll() is not None:
            sys.exit("The service ended before it was ready; run `coldspark serve` by hand to see why.")
        try:
            url: str = json.loads((state / "service.json").read_text())["url"]
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return url
        except (OSError, ValueError, urllib.error.URLError):
            time.sleep(0.2)
    sys.exit("The service was not ready within two minutes.")


def ask_over_http(url: str, question: str) -> None:
    """The same question, as a program asks it."""
    body = {"query": question, "limit": 1, "text": "none", "filters": {"tier": ["archive"]}}
    print(f"\n  $ curl {url}/v1/recall -H 'content-type: application/json' -d '{json.dumps(body)}'")
    request = urllib.request.Request(f"{url}/v1/recall", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        hit = json.load(answer)["hits"][0]
    kept = {name: hit[name] for name in ("id", "score", "tier", "line_start", "batch_date", "title", "verdict")}
    print("  " + json.dumps({"hits": [kept]}, ensure_ascii=False) + "   (shortened)", flush=True)


if __name__ == "__main__":
    main()
