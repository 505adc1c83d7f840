"""Seals every test off from this machine's environment and home folder, and builds pools in temporary folders."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from indexer.embedder import Embedder, find_embedder
from models.pool import Pool
from models.settings import BUNDLED_MODEL
from tests.compactor_processes import NO_SWAP, Whole


def pytest_configure() -> None:
    """Temporary folders lie in memory where there is room: most tests wait for nothing but the disk's fsync."""
    memory = Path("/dev/shm")  # noqa: S108 - pytest makes a private folder there
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * 1024**3:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.fixture(autouse=True)
def _sealed(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each test has an empty home and no COLDSPARK_ settings."""
    home = tmp_path_factory.mktemp("home")
    for name in [n for n in os.environ if n.startswith(("COLDSPARK", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """An empty pool with both folders."""
    (tmp_path / "memory").mkdir()
    (tmp_path / "knowledge" / "sparks").mkdir(parents=True)
    return Pool("default", tmp_path / "memory", tmp_path / "knowledge")


@pytest.fixture(scope="session")
def model() -> Embedder:
    """The real bundled model, loaded once."""
    embedder = find_embedder(BUNDLED_MODEL)
    embedder.load()
    return embedder


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An undisturbed compaction where two files can change names."""
    return Whole.seen(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """One where they cannot."""
    return Whole.seen(tmp_path_factory.mktemp("linked"), NO_SWAP)
