"""What the tests of `service` share: an application over fakes that is ready to answer, and the installed command."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from indexer.embedder import Embedder
from models.settings import Settings
from service.app import create_app
from service.local import LocalBackend
from service.runtime import Runtime
from tests.fakes import FakeEmbedder

COMMAND = Path(sys.executable).with_name("coldspark")
PROBLEM = "application/problem+json"


def settings_for(folder: Path, active: bytes = b"", archive: bytes | None = None, **more: Any) -> Settings:
    """Settings for a new pool under *folder*, whose files hold these bytes; the clock stands at noon of 2026-05-20."""
    memory = folder / "memory"
    (folder / "knowledge" / "sparks").mkdir(parents=True)
    memory.mkdir()
    (memory / "dream-sparks.md").write_bytes(active)
    if archive is not None:
        (memory / "dream-sparks-archive.md").write_bytes(archive)
    values = {"memory_dir": memory, "knowledge_dir": folder / "knowledge", "state_dir": folder / "state", "now": "2026-05-20T12:00:00Z"}
    return Settings.model_validate({**values, **more})


def client_over(settings: Settings, embedder: Embedder | None = None, token: str | None = None) -> TestClient:
    """A client of a new application; its `with` block runs the application's life."""
    runtime = Runtime(settings, LocalBackend(settings, embedder=embedder or FakeEmbedder()))
    app = create_app(runtime, token or "unasked", required=token is not None)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@contextmanager
def ready(settings: Settings, embedder: Embedder | None = None) -> Iterator[TestClient]:
    """A client of an application that has finished its first sync."""
    with client_over(settings, embedder) as client:
        until(lambda: client.get("/readyz").status_code == 200)
        yield client


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Waits for *condition*; fails when it does not come true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.02)


def run(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed command as a person would."""
    return subprocess.run(
        [COMMAND, *arguments], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=120
    )


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every path under *folder* with its mode, modification time and bytes."""
    found = sorted(p for p in folder.rglob("*"))
    return {str(p): (p.stat().st_mode, p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else b"") for p in found}
