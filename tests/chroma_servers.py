"""A Chroma server of our own on loopback, that tests may kill and start again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    """A port on which nobody listens now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """One address; the server behind it comes and goes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Runs it, and waits until it answers."""
        beside = Path(sys.executable).with_name("chroma")
        command = str(beside) if beside.exists() else shutil.which("chroma")
        if command is None:
            pytest.skip("the chroma command is not installed")
        environ = {**os.environ, "ANONYMIZED_TELEMETRY": "False", "HOME": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [command, "run", "--path", str(self.data), "--host", "127.0.0.1", "--port", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "the Chroma server ended"
            with socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        pytest.fail("the Chroma server does not answer")

    def kill(self) -> None:
        """Kills it, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_all(self) -> None:
        """Kills it and starts it with nothing."""
        self.kill()
        shutil.rmtree(self.data)
        self.start()


@contextmanager
def running(folder: Path) -> Iterator[Server]:
    """A server for the `with` block."""
    server = Server(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
