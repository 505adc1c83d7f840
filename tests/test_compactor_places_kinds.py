"""Folders, pipes, sockets and devices where a file ought to be: nothing hangs, nothing is written, and the place is named."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, everywhere, lay, tree
from tests.compactor_places import Failure, compacted, doctor_says, other_file_system, parted, refused_untouched

SHARD = "dream-sparks-archive-2026-Q2.md"

pytestmark = pytest.mark.timeout(6)  # a pipe that is opened for reading waits for ever


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's whole address is 108 bytes at most
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make devices")
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")


def _link_to_device(path: Path) -> None:
    path.symlink_to("/dev/null")


KINDS = pytest.mark.parametrize("make", [_folder, _pipe, _socket, _device, _link_to_device])


@KINDS
def test_no_regular_file_in_the_active_tiers_place(pool: Pool, make: Callable[[Path], None]) -> None:
    """It is neither read as an empty log nor replaced."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.unlink()
    make(pool.active)
    refused_untouched(pool, compacted, pool.active)


@KINDS
@pytest.mark.parametrize("act", [compacted, parted])
def test_no_regular_file_in_the_archives_place(pool: Pool, make: Callable[[Path], None], act: Callable[[Pool], Failure]) -> None:
    """Nothing is appended to it, whatever would come of that."""
    lay(pool, archive=None)
    make(pool.archive)
    refused_untouched(pool, act, pool.archive)


@KINDS
@pytest.mark.parametrize("act", [compacted, parted])
def test_no_regular_file_in_a_shards_place(pool: Pool, make: Callable[[Path], None], act: Callable[[Pool], Failure]) -> None:
    """The quarter's file is looked at like the archive itself."""
    lay(pool, archive=OLD_ARCHIVE)
    make(pool.memory_dir / SHARD)
    refused_untouched(pool, act, pool.memory_dir / SHARD)


@KINDS
def test_a_reader_names_it_and_reads_the_rest(pool: Pool, make: Callable[[Path], None]) -> None:
    """The other tier's entries are there; what cannot be read is a problem, not an empty tier."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.unlink()
    make(pool.active)
    read = read_pool(pool)
    assert [getattr(problem, "path", None) for problem in read.problems] == [pool.active]
    assert [placed.tier for placed in read.entries] == ["archive"]


@KINDS
@pytest.mark.parametrize("name", ["journal.json", "lock", "batches.jsonl", "replaced"])
def test_no_regular_file_in_the_private_folder(pool: Pool, make: Callable[[Path], None], name: str) -> None:
    """The run is refused with the tiers as they were, and `doctor` says why."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    make(pool.private_dir / name)
    if name == "replaced" and make is _folder:  # that is what belongs there
        assert compacted(pool).code == 0
        return
    assert any(str(pool.private_dir / name) in sentence for sentence in doctor_says(pool))
    found = compacted(pool)
    assert found.code in (3, 5), found
    assert str(pool.private_dir / name) in found.says
    assert (pool.active.read_bytes(), pool.archive.read_bytes()) == (MIXED, OLD_ARCHIVE)


@pytest.mark.parametrize("make", [_pipe, _socket, _device, lambda path: path.write_bytes(b"x"), lambda path: path.symlink_to("gone")])
@pytest.mark.parametrize("act", [compacted, parted])
def test_no_folder_in_the_private_folders_place(pool: Pool, make: Callable[[Path], None], act: Callable[[Pool], Failure]) -> None:
    """Somebody else's file of that name is not touched, and both `compact` and `doctor` name it."""
    lay(pool, archive=OLD_ARCHIVE)
    make(pool.private_dir)
    refused_untouched(pool, act, pool.private_dir)


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", ["lock", "batches.jsonl", "journal.json", "journal.tmp"])
def test_a_private_file_that_is_a_tier_by_another_name(pool: Pool, name: str, link: Callable[[Path, Path], None]) -> None:
    """Lock, lists and journal are never written through a link into a memory file: no entry is lost, no foreign byte added."""
    before = lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    link(pool.private_dir / name, pool.archive)
    found = compacted(pool)
    assert found.code in (0, 3, 5)
    assert everywhere(pool) == before
    data = pool.archive.read_bytes()
    assert data.startswith(OLD_ARCHIVE)
    assert b'"sha256"' not in data
    assert pool.active.read_bytes() == (MIXED_AFTER if found.code == 0 else MIXED)


@pytest.mark.parametrize("name", ["1-0.5.0123456789abcdef.md", "1.conflict.md"])
def test_a_pipe_among_the_replaced_files(pool: Pool, name: str) -> None:
    """What is no file cannot hold late text, and holds nobody up."""
    before = lay(pool, archive=OLD_ARCHIVE)
    (pool.private_dir / "replaced").mkdir(parents=True)
    os.mkfifo(pool.private_dir / "replaced" / name)
    doctor_says(pool)
    assert compacted(pool).code in (0, 3, 5)
    assert everywhere(pool) == before


@KINDS
def test_a_look_alike_that_is_no_file_is_named_and_not_opened(pool: Pool, make: Callable[[Path], None]) -> None:
    """A pipe named like a conflict copy holds up neither `compact` nor `doctor`."""
    lay(pool, archive=None)
    copy = pool.memory_dir / "dream-sparks (1).md"
    make(copy)
    before = tree(copy.parent)[str(copy)]
    assert sum(str(copy) in sentence for sentence in doctor_says(pool, "warning")) == 1
    assert compacted(pool).code == 0
    assert tree(copy.parent)[str(copy)] == before


def test_a_private_folder_on_another_file_system_is_refused_before_any_write(pool: Pool) -> None:
    """A link that leads there is found even while nothing lies in it, since no replaced file could be moved to it."""
    lay(pool, archive=OLD_ARCHIVE)
    with other_file_system(pool.memory_dir) as folder:
        pool.private_dir.symlink_to(folder)
        for act in (compacted, parted):
            assert refused_untouched(pool, act, pool.private_dir).code == 5
        assert list(folder.iterdir()) == []
