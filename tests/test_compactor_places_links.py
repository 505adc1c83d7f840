"""Links of every kind in a tier's place: symbolic ones are followed wherever they lead, hard ones are parted by nobody."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, HookedDisk, everywhere, lay, request, tree
from tests.compactor_places import NOW, compacted, doctor_says, other_file_system, parted, refused_untouched

QUARTER = "dream-sparks-archive-2026-Q2.md"


@pytest.mark.parametrize("swaps", [True, False], ids=["swap", "replace"])
def test_links_to_another_file_system_are_followed(pool: Pool, swaps: bool) -> None:  # noqa: FBT001 - a table's column
    """Both links stay links; what is written lies beside the targets, and nothing crosses between file systems."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with other_file_system(pool.memory_dir) as store:
        for path in (pool.active, pool.archive):
            (store / path.name).write_bytes(path.read_bytes())
            path.unlink()
            path.symlink_to(store / path.name)
        disk = HookedDisk(swaps=swaps)
        compact(request(pool), disk)
        assert pool.active.readlink() == store / pool.active_file
        assert pool.archive.readlink() == store / pool.archive_file
        assert (store / pool.active_file).read_bytes() == MIXED_AFTER
        assert everywhere(pool) == before
        made = {path.parent for step, path in disk.steps if step == "write_new"}
        assert made == {store, pool.private_dir}, "the new text beside its target, the journal at home"
        assert {p.name for p in store.iterdir()} == {pool.active_file, pool.archive_file, ".coldspark"}
        assert {p.name for p in (store / ".coldspark").iterdir()} == {"replaced"}
        assert doctor_says(pool) == []


def test_a_late_append_behind_a_link_to_another_file_system_comes_over(pool: Pool) -> None:
    """The replaced file stays on its own file system, where a program that has it open goes on writing."""
    lay(pool, archive=None)
    with other_file_system(pool.memory_dir) as store:
        (store / "real.md").write_bytes(MIXED)
        pool.active.unlink()
        pool.active.symlink_to(store / "real.md")
        with (store / "real.md").open("ab") as writer:
            compact(request(pool), Disk())
            writer.write(b"\n\n### [dream] Late (2026-06-15)\n")
            writer.flush()
            assert any("another program wrote to a file after it had been replaced" in w for w in doctor_says(pool, "warning"))
            compact(request(pool), Disk())
        assert pool.active.read_bytes() == MIXED_AFTER + b"\n\n### [dream] Late (2026-06-15)\n"


def test_a_linked_archive_on_another_file_system_is_split_there(pool: Pool) -> None:
    """The link stays; the quarter's file is a new one in the memory folder, and no entry is lost or doubled."""
    lay(pool, archive=None)
    with other_file_system(pool.memory_dir) as store:
        (store / "cold.md").write_bytes(OLD_ARCHIVE)
        pool.archive.symlink_to(store / "cold.md")
        split(pool, NOW, Disk())
        assert pool.archive.is_symlink()
        archived = [(p.file, p.entry.title) for p in read_pool(pool).entries if p.tier == "archive"]
        assert archived == [(pool.memory_dir / QUARTER, "Long archived")]


@pytest.mark.parametrize("name", ["active", "archive"])
@pytest.mark.parametrize("target", ["nowhere/gone.md", "{itself}"], ids=["dangling", "loop"])
def test_a_link_that_leads_nowhere_is_refused(pool: Pool, name: str, target: str) -> None:
    """A target that is not there now may come back with its disk: nothing is created in its place, or moved towards it."""
    lay(pool, archive=OLD_ARCHIVE)
    path = pool.active if name == "active" else pool.archive
    path.unlink()
    path.symlink_to(target.format(itself=path.name))
    found = refused_untouched(pool, compacted, path)
    assert found.code == 3
    if name == "archive":
        assert refused_untouched(pool, parted, path).code == 3


@pytest.mark.parametrize("name", ["active", "archive"])
def test_a_link_to_a_folder_is_refused(pool: Pool, tmp_path: Path, name: str) -> None:
    """A folder is no log, by whatever name it is reached."""
    lay(pool, archive=OLD_ARCHIVE)
    path = pool.active if name == "active" else pool.archive
    path.unlink()
    (tmp_path / "folder").mkdir()
    path.symlink_to(tmp_path / "folder")
    refused_untouched(pool, compacted, path)


def test_a_dangling_link_to_the_memory_folder_is_named(pool: Pool, tmp_path: Path) -> None:
    """A folder whose disk is not there is not created anew."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.memory_dir.rename(tmp_path / "away")
    pool.memory_dir.symlink_to(tmp_path / "gone")
    assert refused_untouched(pool, compacted, pool.memory_dir).code == 3
    assert not (tmp_path / "gone").exists()


def test_a_hard_linked_active_file_is_refused(pool: Pool) -> None:
    """A replacement would leave the other name with the old text; the sentence says how to find it."""
    lay(pool, archive=OLD_ARCHIVE)
    os.link(pool.active, pool.memory_dir.parent / "other.md")
    found = refused_untouched(pool, compacted, pool.active)
    assert found.code == 5
    assert found.says == (
        f"Refused to touch {pool.active}: it has 2 hard links, and a replacement would part them."
        " Remove the other names (`find -samefile` lists them) or make them symbolic links."
    )


def test_a_hard_linked_archive_is_not_split(pool: Pool) -> None:
    """A compaction only appends to it, a split would replace it."""
    lay(pool, archive=OLD_ARCHIVE)
    other = pool.memory_dir.parent / "other.md"
    os.link(pool.archive, other)
    before = tree(pool.memory_dir.parent)
    found = parted(pool)
    assert found.code == 5
    assert f"Refused to touch {pool.archive}: it has 2 hard links" in found.says
    assert tree(pool.memory_dir.parent) == before
    assert compacted(pool).code == 0
    assert other.read_bytes() == pool.archive.read_bytes()


def test_a_hard_linked_shard_is_appended_to(pool: Pool) -> None:
    """Batches are only ever added to a quarter's file, so its other names stay its own."""
    lay(pool, archive=OLD_ARCHIVE)
    shard, other = pool.memory_dir / QUARTER, pool.memory_dir.parent / "other.md"
    shard.write_bytes(b"# Dream Sparks Archive\n")
    os.link(shard, other)
    assert parted(pool).code == 0
    assert compacted(pool).code == 0
    assert other.read_bytes() == shard.read_bytes()
    assert len([p for p in read_pool(pool).entries if p.file == shard]) == 6


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_one_file_in_the_place_of_both_tiers_is_refused(pool: Pool, link: object) -> None:
    """What is archived would be appended to the very file that it is to leave."""
    lay(pool, archive=None)
    assert callable(link)
    link(pool.archive, pool.active)
    found = refused_untouched(pool, compacted, pool.active)
    assert found.code == 5


def test_a_shard_that_is_the_archive_by_another_name_is_refused(pool: Pool) -> None:
    """Its entries would count twice, and a batch split off would be taken out of the file it was brought to."""
    lay(pool, archive=OLD_ARCHIVE)
    (pool.memory_dir / QUARTER).symlink_to(pool.archive_file)
    assert refused_untouched(pool, parted, pool.memory_dir / QUARTER).code == 5
    assert refused_untouched(pool, compacted, pool.memory_dir / QUARTER).code == 5


def test_a_private_folder_on_another_file_system_is_refused_or_works(pool: Pool) -> None:
    """Replaced files cannot be kept across file systems: either nothing is written, or the run ends well; it never gets stuck."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with other_file_system(pool.memory_dir) as store:
        pool.private_dir.symlink_to(store)
        first, untouched = compacted(pool), pool.active.read_bytes() == MIXED and pool.archive.read_bytes() == OLD_ARCHIVE
        assert first.code == 0 or untouched, first
        assert everywhere(pool) == before
        assert not (store / "journal.json").exists()


def test_a_private_folder_that_is_a_link_is_followed(pool: Pool, tmp_path: Path) -> None:
    """On the same file system it may lie wherever the user likes."""
    before = lay(pool, archive=OLD_ARCHIVE)
    (tmp_path / "private").mkdir()
    pool.private_dir.symlink_to(tmp_path / "private")
    assert compacted(pool).code == 0
    assert everywhere(pool) == before
    assert pool.private_dir.is_symlink()
    assert (tmp_path / "private" / "lock").is_file()
