"""The seal: whether a folder is as it was when it was closed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.seal import Seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, and one below."""
    folder = tmp_path / "chroma"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").write_bytes(b"one")
    (folder / "deep" / "b").write_bytes(b"two")
    return folder


def test_a_seal_holds_until_it_is_taken_off(folder: Path) -> None:
    """Put on it holds, for another process too; taken off it does not, however often."""
    seal = Seal(folder)
    assert not seal.holds
    seal.put()
    assert (seal.holds, Seal(folder).holds) == (True, True)
    seal.take_off()
    seal.take_off()
    assert not seal.holds


def shrink(folder: Path) -> None:
    """Cuts a file, its times as before."""
    path = folder / "deep" / "b"
    stat = path.stat()
    path.write_bytes(b"x")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def exchange(folder: Path) -> None:
    """Puts another file of the same bytes and times in one's place."""
    path = folder / "a"
    stat = path.stat()
    (folder / "new").write_bytes(path.read_bytes())
    os.utime(folder / "new", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    os.replace(folder / "new", path)


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "new").write_bytes(b""),
        lambda folder: (folder / "deep" / "b").unlink(),
        lambda folder: (folder / "a").write_bytes(b"eno"),
        shrink,
        exchange,
        lambda folder: folder.with_name("chroma.seal").write_bytes(b"\xff\x00"),
        lambda folder: folder.with_name("chroma.seal").write_bytes(b""),
        lambda folder: os.replace(folder, folder.with_name("gone")),
    ],
    ids=["new file", "file gone", "rewritten", "cut short", "exchanged", "garbled seal", "empty seal", "folder gone"],
)
def test_any_change_breaks_the_seal(folder: Path, change: Callable[[Path], object]) -> None:
    """Whatever was done to a file, or to the seal itself, shows."""
    Seal(folder).put()
    change(folder)
    assert not Seal(folder).holds


def test_a_folder_that_is_gone_gets_no_seal(folder: Path) -> None:
    """There is nothing to seal, and no file is left where the folder was."""
    seal = Seal(folder.with_name("none"))
    seal.put()
    assert not seal.path.exists()
