"""Two installed services with the real model on one Chroma server: they share, and neither needs a restart."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from models.settings import Settings
from service.owner import find
from tests.chroma_servers import Server, running
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import COMMAND, settings_for, until


@dataclass
class Machine:
    """One machine's service, which may be killed and started again."""

    settings: Settings
    url: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Runs it, and waits until its address is published."""
        folders = [f"--memory-dir={self.settings.memory_dir}", f"--state-dir={self.settings.state_dir}"]
        environ = {**os.environ, "COLDSPARK_CHROMA_URL": self.url}
        self.process = subprocess.Popen([COMMAND, "serve", "--port", "0", *folders], stderr=subprocess.DEVNULL, env=environ)
        pid = self.process.pid
        until(lambda: (address := find(self.settings.state_dir)) is not None and address.pid == pid, 60)

    def kill(self) -> None:
        """Kills it without a chance to clean up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def is_ready(self) -> bool:
        """Whether it answers in full."""
        return self._call("GET", "/readyz")[0] == 200

    def ask(self, query: str) -> dict[str, Any]:
        """One question, which must be answered."""
        status, found = self._call("POST", "/v1/recall", json={"query": query, "limit": 2, "text": "none"})
        assert status == 200, found
        return found

    def finds(self, title: str) -> bool:
        """Whether the first hit in full is the entry of this title."""
        found = self.ask(title)
        return found["degraded"] is None and bool(found["hits"]) and found["hits"][0]["title"] == title

    def _call(self, method: str, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        address = find(self.settings.state_dir)
        assert address is not None
        answer = httpx.request(method, address.url + path, timeout=30, **body)
        return answer.status_code, answer.json()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of our own."""
    (tmp_path / "server").mkdir()
    with running(tmp_path / "server") as server:
        yield server


def test_two_services_share_a_server_through_everything(server: Server, tmp_path: Path) -> None:
    """Both find what is appended; one is killed, the server is killed, emptied: questions are always answered, and all heals."""
    one = Machine(settings_for(tmp_path / "pool", HEADER + log(KILN, TIDE), ledger("release -- stale")), server.url)
    two = Machine(one.settings.model_copy(update={"state_dir": tmp_path / "two"}), server.url)
    machines = (one, two)
    active = one.settings.all_pools()[0].active
    try:
        for machine in machines:
            machine.start()
        until(lambda: all(m.is_ready() for m in machines), 90)
        append(active, "Amber and old harbours")
        until(lambda: all(m.finds("Amber and old harbours") for m in machines), 30)
        one.kill()
        append(active, "Bees that dance at noon")
        until(lambda: two.finds("Bees that dance at noon"), 30)
        one.start()
        until(lambda: one.is_ready() and one.finds("Bees that dance at noon"), 90)
        server.kill()
        until(lambda: all(m.ask("kiln")["mode"] == "lexical" for m in machines), 60)
        assert all(len(m.ask("kiln")["hits"]) == 2 and server.url in m.ask("kiln")["degraded"] for m in machines)
        server.start()
        server.lose_all()
        until(lambda: all(m.is_ready() and m.finds("Bees that dance at noon") for m in machines), 150)
    finally:
        for machine in machines:
            machine.kill()


def append(path: Path, title: str) -> None:
    """As the user's skills do."""
    with path.open("ab") as file:
        file.write(b"\n" + delve(title, "2026-05-10"))
