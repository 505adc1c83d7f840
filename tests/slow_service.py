"""A real service process over a model that needs no loading and takes its time on request.

A file `slow-<what>` in the state folder holds the seconds that each call of `load`, `query`, `passages` or `cutting` takes.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from models.settings import Settings
from service.local import LocalBackend
from service.owner import Address, find
from service.runtime import Runtime
from tests.fakes import FakeEmbedder
from tests.service_support import until

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_HOME = Path(__file__).parents[1]


class Slow(FakeEmbedder):
    """Sleeps where it is told to, and leaves a file `at-<what>` when it does."""

    def __init__(self, state: Path) -> None:
        super().__init__()
        self.state = state

    def _sleep(self, what: str) -> None:
        wanted = self.state / f"slow-{what}"
        if wanted.exists():
            (self.state / f"at-{what}").touch()
            time.sleep(float(wanted.read_text()))

    def load(self) -> None:
        """Loads."""
        self._sleep("load")

    def embed_query(self, text: str) -> Vectors:
        """Embeds a question."""
        self._sleep("query")
        return super().embed_query(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeds passages."""
        self._sleep("passages")
        return super().embed_passages(texts)

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """Cuts."""
        self._sleep("cutting")
        return super().token_offsets(texts)


@dataclass(frozen=True, slots=True)
class SlowService:
    """The process, seen from outside."""

    settings: Settings
    process: subprocess.Popen[str]
    address: Address

    @property
    def netloc(self) -> str:
        """Host and port."""
        return urlsplit(self.address.url).netloc

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, timeout: float = 60) -> tuple[int, dict[str, Any]]:
        """One request."""
        connection = http.client.HTTPConnection(self.netloc, timeout=timeout)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"} if body else {}
            )
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def recall(self, query: str) -> tuple[int, dict[str, Any]]:
        """A recall."""
        return self.call("POST", "/v1/recall", {"query": query})

    def until_ready(self) -> None:
        """Waits for the first sync."""
        until(lambda: self.call("GET", "/readyz")[0] == 200, 60)

    def slow(self, what: str, seconds: float) -> None:
        """From now on *what* takes so long."""
        (self.settings.state_dir / f"slow-{what}").write_text(str(seconds))

    def until_at(self, what: str) -> None:
        """Waits until the service is at it."""
        until((self.settings.state_dir / f"at-{what}").exists)


@contextmanager
def slow_service(
    settings: Settings, error: int = subprocess.DEVNULL, slow: Mapping[str, float] = MappingProxyType({})
) -> Iterator[SlowService]:
    """Runs one for the `with` block; *slow* says what takes how many seconds from the start."""
    settings.state_dir.mkdir(exist_ok=True)
    for what, seconds in slow.items():
        (settings.state_dir / f"slow-{what}").write_text(str(seconds))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.slow_service"], stdin=subprocess.PIPE, stderr=error, stdout=subprocess.DEVNULL, text=True, cwd=_HOME
    )
    try:
        assert process.stdin is not None
        process.stdin.write(settings.model_copy(update={"port": 0}).model_dump_json(exclude_unset=True))
        process.stdin.close()
        until(lambda: find(settings.state_dir) is not None or process.poll() is not None, 60)
        address = find(settings.state_dir)
        assert address is not None
        service = SlowService(settings, process, address)
        until(lambda: _answers(service))
        yield service
    finally:
        process.kill()
        process.wait()


def _answers(service: SlowService) -> bool:
    try:
        return service.call("GET", "/healthz", timeout=2)[0] == 200
    except OSError:
        return False


def main() -> None:
    """Serves with the settings on standard input."""
    import logging

    from service.logfile import TerminalLog
    from service.server import serve

    settings = Settings.model_validate({**json.load(sys.stdin), "port": 0})
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[TerminalLog(sys.stderr)])
    serve(settings, runtime_of=lambda s: Runtime(s, LocalBackend(s, Slow(s.state_dir))))


if __name__ == "__main__":
    main()
