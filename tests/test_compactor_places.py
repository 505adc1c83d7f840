"""Where the tiers may lie: symbolic links are followed, modes and owners kept, and what cannot be is refused before a write."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from models.errors import ColdsparkError, MissingFileError, RefusedError
from models.pool import Pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, everywhere, lay, request, tree

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_a_symbolic_link_stays_one(pool: Pool, tmp_path: Path) -> None:
    """The file that the active link leads to is replaced beside itself; both links stay links."""
    before = lay(pool, archive=OLD_ARCHIVE)
    store = tmp_path / "store"
    store.mkdir()
    for path in (pool.active, pool.archive):
        path.rename(store / path.name)
        path.symlink_to(Path("..") / "store" / path.name)
    compact(request(pool), Disk())
    assert pool.active.is_symlink()
    assert pool.archive.is_symlink()
    assert (store / pool.active_file).read_bytes() == MIXED_AFTER
    assert not (store / pool.active_file).is_symlink()
    assert everywhere(pool) == before
    assert {p.name for p in store.iterdir()} == {pool.active_file, pool.archive_file, ".coldspark"}


def test_a_linked_active_file_leaves_a_new_archive_beside_the_link(pool: Pool, tmp_path: Path) -> None:
    """The archive is created in the memory folder, wherever the active file really lies."""
    lay(pool, archive=None)
    (tmp_path / "store").mkdir()
    pool.active.rename(tmp_path / "store" / "real.md")
    pool.active.symlink_to(tmp_path / "store" / "real.md")
    compact(request(pool), Disk())
    assert pool.archive.is_file()
    assert (tmp_path / "store" / "real.md").read_bytes() == MIXED_AFTER


def test_a_linked_memory_folder_is_followed(pool: Pool, tmp_path: Path) -> None:
    """The whole folder may be a link."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.memory_dir.rename(tmp_path / "real")
    pool.memory_dir.symlink_to(tmp_path / "real")
    compact(request(pool), Disk())
    assert pool.memory_dir.is_symlink()
    assert pool.active.read_bytes() == MIXED_AFTER


def test_modes_are_kept(pool: Pool) -> None:
    """Both tiers keep their modes, and the kept copy is readable by no more users than its source."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.chmod(0o640)
    pool.archive.chmod(0o600)
    compact(request(pool), Disk())
    assert pool.active.stat().st_mode & 0o7777 == 0o640
    assert pool.archive.stat().st_mode & 0o7777 == 0o600
    private = pool.memory_dir / ".coldspark"
    assert all(p.stat().st_mode & 0o077 == 0 for p in (private, private / "lock", private / "batches.jsonl", private / "replaced"))
    assert all(p.stat().st_mode & 0o7777 == 0o640 for p in (private / "replaced").iterdir())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_new_archive_takes_after_the_active_file(pool: Pool, mode: int) -> None:
    """Whoever may read the sparks may read them in the archive, and nobody else."""
    lay(pool, archive=None)
    pool.active.chmod(mode)
    compact(request(pool), Disk())
    assert pool.archive.stat().st_mode & 0o7777 == mode


@AS_ROOT
def test_owners_are_kept(pool: Pool) -> None:
    """A run by root leaves the files with their owner and group."""
    lay(pool, archive=None)
    os.chown(pool.active, 1001, 1002)
    compact(request(pool), Disk())
    for path in (pool.active, pool.archive):
        assert (path.stat().st_uid, path.stat().st_gid) == (1001, 1002)


def _hard_link(pool: Pool) -> None:
    os.link(pool.active, pool.memory_dir / "other-name.md")


def _dangling_archive(pool: Pool) -> None:
    pool.archive.unlink()
    pool.archive.symlink_to(pool.memory_dir / "nowhere" / "archive.md")


def _dangling_active(pool: Pool) -> None:
    pool.active.unlink()
    pool.active.symlink_to(pool.memory_dir / "nowhere" / "active.md")


def _folder_for_archive(pool: Pool) -> None:
    pool.archive.unlink()
    pool.archive.mkdir()


def _folder_for_active(pool: Pool) -> None:
    pool.active.unlink()
    pool.active.mkdir()


def _missing_active(pool: Pool) -> None:
    pool.active.unlink()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_hard_link, "it has 2 hard links, and a replacement would part them. Remove the other names"),
        (_dangling_archive, "nowhere/archive.md does not exist"),
        (_dangling_active, "does not exist"),
        (_folder_for_archive, "cannot be read (Is a directory)"),
        (_folder_for_active, "cannot be read (Is a directory)"),
        (_missing_active, "The active file"),
    ],
)
def test_what_cannot_be_replaced_safely_is_refused_before_any_write(pool: Pool, spoil: Callable[[Pool], None], message: str) -> None:
    """The run names the place and what to do; nothing is created, changed or touched."""
    lay(pool, archive=OLD_ARCHIVE)
    spoil(pool)
    before = tree(pool.memory_dir)
    with pytest.raises(ColdsparkError) as caught:
        compact(request(pool), Disk())
    assert message in str(caught.value)
    assert isinstance(caught.value, RefusedError) or caught.value.exit_code == 3
    assert tree(pool.memory_dir) == before


def test_a_missing_memory_folder_is_named(tmp_path: Path) -> None:
    """A folder that is not there is an error, and is not created."""
    with pytest.raises(MissingFileError) as caught:
        compact(request(Pool("default", tmp_path / "nowhere")), Disk())
    assert str(caught.value) == (
        f"The memory folder {tmp_path / 'nowhere'} does not exist: check the path, or name another folder with --memory-dir."
    )
    assert not (tmp_path / "nowhere").exists()


def test_a_hard_linked_archive_is_appended_to(pool: Pool) -> None:
    """The archive is never replaced, so its other names stay its own."""
    lay(pool, archive=OLD_ARCHIVE)
    other = pool.memory_dir.parent / "other.md"
    os.link(pool.archive, other)
    compact(request(pool), Disk())
    assert other.read_bytes() == pool.archive.read_bytes()
    assert other.read_bytes().startswith(OLD_ARCHIVE)


@pytest.mark.parametrize("name", ["R&D <lab> it's 100%done", "深夜 notes\u2028here", "trailing. ", "\udcff\udcfe bytes"])
def test_odd_folder_names_are_no_hindrance(tmp_path: Path, name: str) -> None:
    """The journal holds whatever name the folder has, even one that is not UTF-8."""
    pool = Pool("default", tmp_path / name)
    pool.memory_dir.mkdir()
    pool.active.write_bytes(MIXED)
    assert compact(request(pool), Disk()).archived == 5
    assert pool.active.read_bytes() == MIXED_AFTER


def test_other_file_names_are_settings(tmp_path: Path) -> None:
    """The tiers may have other names, in a folder with look-alikes that are left alone."""
    pool = Pool("default", tmp_path, active_file="clutch.md", archive_file="cold.md")
    pool.active.write_bytes(MIXED)
    alike = {"dream-sparks.md", "clutch 2.md", "clutch.md.tmp", "clutch (conflicted copy 2026-05-04).md"}
    for name in alike:
        (tmp_path / name).write_bytes(MIXED)
    compact(request(pool), Disk())
    assert pool.active.read_bytes() == MIXED_AFTER
    assert pool.archive.exists()
    assert all((tmp_path / name).read_bytes() == MIXED for name in alike)
