"""The installed service with the real model: one life from `index` and `serve` to SIGTERM."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from models.settings import Settings
from service.owner import Address, address_file, find, published
from tests.samples import HEADER, KILN, TIDE, ledger, log
from tests.service_support import COMMAND, run, settings_for, until

HEALTHY_SECONDS = 0.5
QUERY = "evicting a cache in steps"


@dataclass
class Life:
    """A service process and what the tests saw of it."""

    settings: Settings
    folders: list[str]
    process: subprocess.Popen[str]
    address: Address
    indexed: dict[str, Any]

    def get(self, path: str) -> tuple[int, dict[str, Any]]:
        """Asks the service, which must answer with an object."""
        connection = http.client.HTTPConnection(urlsplit(self.address.url).netloc, timeout=30)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


def folders_of(settings: Settings) -> list[str]:
    """The flags that name the folders of *settings*."""
    return [f"--memory-dir={settings.memory_dir}", f"--state-dir={settings.state_dir}"]


def started(settings: Settings) -> subprocess.Popen[str]:
    """A service on a free port, whose address is published."""
    process = subprocess.Popen([COMMAND, "serve", "--port", "0", *folders_of(settings)], text=True, stderr=subprocess.PIPE)
    until(lambda: find(settings.state_dir) is not None or process.poll() is not None, 60)
    assert process.poll() is None
    return process


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """A pool indexed by the command, then served."""
    settings = settings_for(tmp_path_factory.mktemp("served"), HEADER + log(KILN, TIDE))
    folders = folders_of(settings)
    indexed = run("index", "--json", *folders)
    assert (indexed.returncode, indexed.stderr) == (0, "")
    process = started(settings)
    address = find(settings.state_dir)
    assert address is not None
    served = Life(settings, folders, process, address, json.loads(indexed.stdout))
    try:
        until(lambda: served.get("/readyz")[0] == 200, 60)
        yield served
    finally:
        process.kill()
        process.communicate()


def test_index_tells_what_it_did(life: Life) -> None:
    """The command indexes both entries and embeds their passages with the real model."""
    assert life.indexed["status"] == "ok"
    assert life.indexed["entries"] == {"active": 2, "archive": 0}
    assert life.indexed["added"] == 2
    assert life.indexed["embedded"] == life.indexed["passages"] >= 2


def test_address_is_published_for_its_owner_alone(life: Life) -> None:
    """The address file has mode 0600, the service's own process id, and a token."""
    assert address_file(life.settings.state_dir).stat().st_mode & 0o777 == 0o600
    assert life.address.pid == life.process.pid
    assert len(life.address.token) >= 24


def test_recall_goes_through_the_service_without_heavy_imports(life: Life) -> None:
    """With a service running, the command answers from it and imports no model and no index library."""
    script = (
        "import json, sys\nfrom service.cli import cli\n"
        "cli(['recall', *sys.argv[1:]], standalone_mode=False)\n"
        "heavy = {'torch', 'sentence_transformers', 'transformers', 'chromadb', 'fastapi', 'numpy'} & set(sys.modules)\n"
        "print(json.dumps(sorted(heavy)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, QUERY, "--json", *life.folders], capture_output=True, text=True, check=True,
        cwd=Path(__file__).parents[1],
    )  # fmt: skip
    answer, heavy = done.stdout.splitlines()
    assert json.loads(heavy) == []
    found = json.loads(answer)
    assert found["degraded"] is None
    assert found["hits"][0]["title"] == "Kiln cooling and staged eviction"
    assert found["hits"][0]["text"] == KILN.decode().rstrip("\n")


def test_related_and_sync_go_through_the_service(life: Life) -> None:
    """`related` and `index` are answered by the process that owns the index."""
    entry = json.loads(run("entries", "--json", *life.folders).stdout)["entries"][0]["id"]
    related = run("related", entry[:9], "--json", *life.folders)
    assert (related.returncode, related.stderr) == (0, "")
    assert json.loads(related.stdout)["hits"][0]["title"] == "Tide tables and cron jitter"
    again = json.loads(run("index", "--json", *life.folders).stdout)
    assert (again["status"], again["embedded"], again["added"]) == ("ok", 0, 0)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["related", "ffffffffffffffffffff"], 3), (["recall", "kiln", "--pool", "nope"], 3)],
)
def test_failures_keep_their_exit_code_behind_the_service(life: Life, arguments: list[str], code: int) -> None:
    """A failure that the service answers ends the command as it would without one."""
    done = run(*arguments, *life.folders)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == 1


def test_health_is_quick_while_questions_are_embedded(life: Life) -> None:
    """With ten long questions at the real model, health answers within half a second."""
    long = " ".join(["cooling a kiln in steps avoids cracks"] * 30)

    def ask(_number: int) -> int:
        connection = http.client.HTTPConnection(urlsplit(life.address.url).netloc, timeout=60)
        try:
            connection.request("POST", "/v1/recall", json.dumps({"query": long}), {"Content-Type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as threads:
        asked = [threads.submit(ask, n) for n in range(20)]
        checks = 0
        while not all(f.done() for f in asked):
            began = time.monotonic()
            assert life.get("/healthz")[0] == 200
            assert time.monotonic() - began < HEALTHY_SECONDS
            checks += 1
    assert [f.result() for f in asked] == [200] * 20
    assert checks > 3


def test_status_names_the_service(life: Life) -> None:
    """`status` shows where the service answers and what it has indexed."""
    found = json.loads(run("status", "--json", *life.folders).stdout)
    assert found["service"] == life.address.url
    assert found["index"]["entries"]["active"] >= 2


def test_second_service_is_told_of_the_first(life: Life) -> None:
    """A second `serve` over the same index ends as busy without waiting for it, and names the first one's address and process."""
    second = run("serve", "--port", "0", *life.folders)
    assert (second.returncode, second.stdout) == (4, "")
    assert second.stderr == (
        f"coldspark: A service with this state folder answers already at {life.address.url} (process {life.process.pid}):"
        " use it, or end it first.\n"
    )
    assert find(life.settings.state_dir) == life.address


def test_taken_port_is_one_sentence(life: Life, tmp_path: Path) -> None:
    """A port that somebody else listens on ends the command with a hint at another."""
    other = settings_for(tmp_path, log(KILN))
    port = str(urlsplit(life.address.url).port)
    done = run("serve", "--port", port, *folders_of(other))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        f"coldspark: The setting port (127.0.0.1:{port}) cannot be used: Address already in use; name another with --port."
        " Correct it there and run again.\n"
    )
    assert not address_file(other.state_dir).exists()


def test_address_left_by_a_dead_service_leads_to_no_other_index(life: Life, tmp_path: Path) -> None:
    """An old address at which another folder's service now answers is not taken for one's own."""
    other = settings_for(tmp_path, log(TIDE))
    other.state_dir.mkdir()
    with published(other.state_dir, Address(life.address.url, "token of the dead", 1, life.address.version, ())):
        done = run("recall", QUERY, "--json", *folders_of(other))
    assert "Kiln" not in done.stdout
    assert done.returncode == 3


def test_service_of_another_memory_answers_for_no_other(life: Life, tmp_path: Path) -> None:
    """A memory folder named by flag is not silently exchanged for the one that the service serves."""
    other = settings_for(tmp_path, log(TIDE))
    done = run("recall", QUERY, "--json", f"--memory-dir={other.memory_dir}", f"--state-dir={life.settings.state_dir}")
    hits = json.loads(done.stdout)["hits"] if done.returncode == 0 else []
    assert [h["title"] for h in hits if not h["file"].startswith(str(other.memory_dir))] == []


def test_change_of_the_file_is_served(life: Life) -> None:
    """An entry that somebody appends is found within seconds, by nobody's doing."""
    active = life.settings.all_pools()[0].active
    with active.open("ab") as file:
        file.write(b"\n" + ledger("park -- later"))
    until(lambda: life.get("/v1/status")[1]["index"]["entries"]["active"] == 3, 30)
    hits = json.loads(run("recall", "two writers fork a ledger", "--json", *life.folders).stdout)["hits"]
    assert (hits[0]["title"], hits[0]["verdict"]) == ("Ledger forks", "park")


def test_sigterm_ends_the_service_cleanly(life: Life) -> None:
    """With a connection held open, SIGTERM ends it in time with code 0; lock, address and port are free, and the index answers."""
    parts = urlsplit(life.address.url)
    assert parts.port is not None
    kept = http.client.HTTPConnection(parts.netloc, timeout=10)
    kept.request("GET", "/healthz")
    kept.getresponse().read()
    life.process.send_signal(signal.SIGTERM)
    try:
        code = life.process.wait(10)
    finally:
        kept.close()
    assert code == 0
    assert not address_file(life.settings.state_dir).exists()
    with socket.create_server(("127.0.0.1", parts.port)):
        pass
    found = run("recall", QUERY, "--json", *life.folders)
    assert (found.returncode, found.stderr) == (0, "")
    answer = json.loads(found.stdout)
    assert answer["hits"][0]["title"] == "Kiln cooling and staged eviction"
    assert (answer["degraded"], answer["stale"]) == (None, None)


def test_signal_during_the_model_load_ends_it(tmp_path: Path) -> None:
    """A service that is told to end while its model loads ends in time with code 0 and leaves no address behind."""
    settings = settings_for(tmp_path, log(KILN))
    process = started(settings)
    address = find(settings.state_dir)
    assert address is not None
    until(lambda: _listens(address))
    process.send_signal(signal.SIGTERM)
    try:
        code = process.wait(10)
    finally:
        process.kill()
        process.communicate()
    assert code == 0
    assert not address_file(settings.state_dir).exists()


def _listens(address: Address) -> bool:
    try:
        connection = http.client.HTTPConnection(urlsplit(address.url).netloc, timeout=1)
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
