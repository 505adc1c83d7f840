"""Who may read the sparks stays as it was: modes, owners, access lists, attributes, at every step of a run."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from models.pool import Pool
from tests.compactor_disks import OLD_ARCHIVE, HookedDisk, lay, request
from tests.compactor_places import NOW, compacted, doctor_says, refused_untouched

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
SHARD = "dream-sparks-archive-2026-Q2.md"
NOBODY = 0xFFFFFFFF
USER_OBJ, USER, GROUP_OBJ, MASK, OTHER = 1, 2, 4, 16, 32  # acl_tag_t in linux/posix_acl.h
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def access_list(group: int, other: int = 0, *, reader: int = 1003) -> bytes:
    """An access list in the kernel's own form, which lets user *reader* read."""
    rows = [(USER_OBJ, 6, NOBODY), (USER, 4, reader), (GROUP_OBJ, group, NOBODY), (MASK, 4, NOBODY), (OTHER, other, NOBODY)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)


def attribute(path: Path, name: str, value: bytes) -> None:
    """Sets an extended attribute; skips where the file system has none."""
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            pytest.skip(f"no {name} on this file system")
        raise


def attributes(path: Path) -> dict[str, bytes]:
    """Every extended attribute of a file."""
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """Nothing is private merely because of the umask."""
    old = os.umask(0)
    yield
    os.umask(old)


class WatchedDisk(HookedDisk):
    """Looks after every step at who may read what in the memory folder; `seen` is every mode bit beyond the owner's."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.seen: dict[str, int] = {}

    def after(self, step: str, path: Path) -> None:
        """Looks."""
        for file in self.folder.rglob("*"):
            bits = file.lstat().st_mode & 0o077
            if bits:
                self.seen[str(file.relative_to(self.folder))] = self.seen.get(str(file.relative_to(self.folder)), 0) | bits


def test_at_no_step_may_others_read_a_private_memory(pool: Pool) -> None:
    """Temporary files, snapshots, journals and lists of a memory with mode 0600 have no bit for anybody else, not for a moment."""
    lay(pool, archive=OLD_ARCHIVE)
    for path in (pool.active, pool.archive):
        path.chmod(0o600)
    disk = WatchedDisk(pool.memory_dir)
    compact(request(pool), disk)
    split(pool, NOW, disk)
    assert disk.seen == {}


@pytest.mark.parametrize(("mode", "bits"), [(0o640, 0o040), (0o660, 0o060), (0o644, 0o044)])
def test_at_no_step_may_more_read_than_before(pool: Pool, mode: int, bits: int) -> None:
    """No file has a bit that the tiers do not have."""
    lay(pool, archive=OLD_ARCHIVE)
    for path in (pool.active, pool.archive):
        path.chmod(mode)
    disk = WatchedDisk(pool.memory_dir)
    compact(request(pool), disk)
    split(pool, NOW, disk)
    assert set(disk.seen.values()) <= {bits}
    assert all(path.stat().st_mode & 0o7777 == mode for path in (pool.active, pool.archive, pool.memory_dir / SHARD))


def test_each_tier_keeps_its_own_mode(pool: Pool) -> None:
    """A private archive beside an open active file stays private, and so do the shards that come of it."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.chmod(0o644)
    pool.archive.chmod(0o600)
    compact(request(pool), Disk())
    split(pool, NOW, Disk())
    assert pool.active.stat().st_mode & 0o7777 == 0o644
    assert (pool.archive.stat().st_mode & 0o7777, (pool.memory_dir / SHARD).stat().st_mode & 0o7777) == (0o600, 0o600)
    kept = [p for p in pool.private_dir.rglob("*") if p.is_file() and "replaced-archive" in str(p)]
    assert [p.stat().st_mode & 0o7777 for p in kept] == [0o600]


@AS_ROOT
@pytest.mark.parametrize(("mode", "owner"), [(0o640, (0, 1002)), (0o640, (1001, 1002)), (0o600, (1001, 1001)), (0o2640, (1001, 1002))])
def test_a_run_by_root_leaves_owner_and_group(pool: Pool, mode: int, owner: tuple[int, int]) -> None:
    """The new active file, a new archive and a new shard belong to whom the old files belonged."""
    lay(pool, archive=None)
    os.chown(pool.active, *owner)
    pool.active.chmod(mode)
    compact(request(pool), Disk())
    split(pool, NOW, Disk())
    for path in (pool.active, pool.archive, pool.memory_dir / SHARD):
        found = path.stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (*owner, mode), path


def test_access_lists_and_attributes_stay_on_the_new_active_file(pool: Pool) -> None:
    """The replaced file's list, its mode and its user attributes are those of the file in its place."""
    lay(pool, archive=None)
    pool.active.chmod(0o600)
    attribute(pool.active, "user.reviewed", b"2026-05-04 \xff")
    attribute(pool.active, ACCESS, access_list(group=0))
    before, mode = attributes(pool.active), pool.active.stat().st_mode
    compact(request(pool), Disk())
    assert attributes(pool.active) == before
    assert pool.active.stat().st_mode == mode
    assert attributes(pool.archive).get(ACCESS) == before[ACCESS], "a new archive takes after it"


def test_an_access_list_of_the_archive_stays_through_a_split(pool: Pool) -> None:
    """The archive that is left and the quarter's new file have it both."""
    lay(pool, archive=OLD_ARCHIVE)
    attribute(pool.archive, ACCESS, access_list(group=4))
    before = attributes(pool.archive)
    split(pool, NOW, Disk())
    assert attributes(pool.archive) == before
    assert attributes(pool.memory_dir / SHARD) == before


@pytest.mark.parametrize("mode", [0o600, 0o640])
@pytest.mark.parametrize("archive", [OLD_ARCHIVE, None], ids=["old-archive", "new-archive"])
def test_a_default_list_of_the_folder_lets_no_more_readers_in(pool: Pool, mode: int, archive: bytes | None) -> None:
    """New files take after the old ones, not after what the folder gives new files by default."""
    lay(pool, archive=archive)
    for path in (pool.active, *pool.archive_files()):
        path.chmod(mode)
    attribute(pool.memory_dir, DEFAULT, access_list(group=4, other=4))
    compact(request(pool), Disk())
    split(pool, NOW, Disk())
    for path in (pool.active, pool.archive, pool.memory_dir / SHARD):
        assert attributes(path) == {}, path
        assert path.stat().st_mode & 0o7777 == mode, path


def test_a_default_list_of_the_folder_opens_nothing_private(pool: Pool) -> None:
    """Lock, lists and folders of Coldspark's own stay the owner's alone."""
    lay(pool, archive=OLD_ARCHIVE)
    for path in (pool.active, pool.archive):
        path.chmod(0o600)
    attribute(pool.memory_dir, DEFAULT, access_list(group=4, other=4))
    disk = WatchedDisk(pool.memory_dir)
    compact(request(pool), disk)
    split(pool, NOW, disk)
    assert disk.seen == {}


@contextmanager
def another_user(folder: Path) -> Iterator[None]:
    """Lets the block run as a user without rights of its own, who can reach *folder*."""
    ways = {way: way.stat().st_mode & 0o7777 for way in folder.parents}
    closed = {way: mode for way, mode in ways.items() if mode & 0o055 != 0o055}
    for way, mode in closed.items():
        way.chmod(mode | 0o055)
    try:
        os.seteuid(1003)
        yield
    finally:
        os.seteuid(0)
        for way, mode in closed.items():
            way.chmod(mode)


@AS_ROOT
def test_a_file_of_another_user_is_refused_to_who_is_not_root(pool: Pool) -> None:
    """A new file could not be given to its owner, so the owner is told to run."""
    lay(pool, archive=OLD_ARCHIVE)
    for path in (pool.memory_dir, pool.active, pool.archive):
        path.chmod(0o777)
    with another_user(pool.memory_dir):
        found, told = compacted(pool), doctor_says(pool)
    assert found.code == 5
    assert found.says == (
        f"Refused to touch {pool.active}: it belongs to uid 0, gid 0, which this user cannot give to a new file. Run as its owner."
    )
    assert told == [f"places: {found.says}"]
    assert not pool.private_dir.exists()


@AS_ROOT
@pytest.mark.parametrize("mode", [0o700, 0o744])
def test_a_folder_that_this_user_may_not_search_is_named(pool: Pool, mode: int) -> None:
    """A memory folder without the right to enter it ends in a sentence, for `compact` and for `doctor`."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.memory_dir.chmod(mode)
    with another_user(pool.memory_dir):
        found, told = compacted(pool), doctor_says(pool)
    assert found.code in (3, 5)
    assert str(pool.memory_dir) in found.says
    assert any(str(pool.memory_dir) in sentence for sentence in told)


@AS_ROOT
def test_a_private_folder_that_this_user_may_not_enter_is_named(pool: Pool) -> None:
    """One run by root leaves a private folder of root's; the user's own run says so."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir(mode=0o700)
    for path in (pool.memory_dir, pool.active, pool.archive):
        os.chown(path, 1003, os.getegid())
    with another_user(pool.memory_dir):
        found, told = compacted(pool), doctor_says(pool)
    assert found.code in (3, 5)
    assert str(pool.private_dir) in found.says
    assert any(str(pool.private_dir) in sentence for sentence in told)


@pytest.mark.parametrize("name", ["active", "archive", "folder"])
def test_a_read_only_place_is_refused(pool: Pool, name: str) -> None:
    """What this user may not write to is found before anything is written."""
    lay(pool, archive=OLD_ARCHIVE)
    path = {"active": pool.active, "archive": pool.archive, "folder": pool.memory_dir}[name]
    path.chmod(0o500 if path.is_dir() else 0o400)
    is_root = os.geteuid() == 0
    for mine in (pool.memory_dir, pool.active, pool.archive):
        os.chown(mine, 1003 if is_root else os.geteuid(), os.getegid())
    try:
        with another_user(pool.memory_dir) if is_root else nullcontext():
            assert refused_untouched(pool, compacted, path).code == 5
    finally:
        path.chmod(0o700)
