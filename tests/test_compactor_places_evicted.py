"""Files that a cloud service has taken off the disk: they are there, but not here, and nothing is begun in their stead."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.compact import dry_run
from compactor.split import plan_split
from compactor.verify import verify_archive
from models.errors import EvictedFileError
from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, lay, request, tree
from tests.compactor_places import EVICT, Failure, compacted, doctor_says, ending, parted, refused_untouched, stub

SHARD = "dream-sparks-archive-2026-Q2.md"


def sentence(what: str, path: Path) -> str:
    """What is said of an evicted file, everywhere."""
    return (
        f"The {what} {path} is not on this machine, a cloud service keeps only a stub of it here: download it"
        " and tell the service to keep the folder on this machine, then run again."
    )


@EVICT
def test_an_evicted_active_file(pool: Pool, evict: Callable[[Path], None]) -> None:
    """It is not taken as missing or empty."""
    lay(pool, archive=OLD_ARCHIVE)
    evict(pool.active)
    assert refused_untouched(pool, compacted, pool.active) == (3, sentence("active file", pool.active))
    assert ending(lambda: dry_run(request(pool))) == (3, sentence("active file", pool.active))
    assert f"files: {sentence('active file', pool.active)}" in doctor_says(pool)


@EVICT
@pytest.mark.parametrize("name", ["dream-sparks-archive.md", SHARD])
@pytest.mark.parametrize("act", [compacted, parted])
def test_an_evicted_archive_file(pool: Pool, evict: Callable[[Path], None], name: str, act: Callable[[Pool], Failure]) -> None:
    """No second archive is begun beside its stub, by a compaction or a split."""
    lay(pool, archive=OLD_ARCHIVE)
    evict(pool.memory_dir / name)
    found = refused_untouched(pool, act, pool.memory_dir / name)
    assert found.code == 3
    assert "is not on this machine" in found.says


@EVICT
def test_the_only_archive_file_is_evicted(pool: Pool, evict: Callable[[Path], None]) -> None:
    """A split, its plan and the proof say so, rather than that there is nothing."""
    lay(pool, archive=OLD_ARCHIVE)
    evict(pool.archive)
    assert ending(lambda: plan_split(pool)) == (3, sentence("archive file", pool.archive))
    proof = verify_archive(pool)
    assert proof.status == "damaged"
    assert [p.message for p in proof.problems] == [sentence("archive file", pool.archive)]
    assert any(sentence("archive file", pool.archive) in told for told in doctor_says(pool))


@EVICT
def test_readers_take_it_as_a_problem_and_read_the_rest(pool: Pool, evict: Callable[[Path], None]) -> None:
    """What cannot be read hides no other file."""
    lay(pool, archive=OLD_ARCHIVE)
    evict(pool.active)
    read = read_pool(pool)
    assert [type(problem) for problem in read.problems] == [EvictedFileError]
    assert [placed.entry.title for placed in read.entries] == ["Long archived"]


def test_a_stub_beside_its_file_is_no_hindrance(pool: Pool) -> None:
    """A stub that was left behind when the file came back means nothing."""
    lay(pool, archive=OLD_ARCHIVE)
    for path in (pool.active, pool.archive):
        path.with_name(f".{path.name}.icloud").write_bytes(b"bplist00")
    assert compacted(pool).code == 0
    assert pool.active.read_bytes() == MIXED_AFTER
    assert doctor_says(pool) == []


def test_a_file_of_nul_bytes_that_are_really_there_is_none(pool: Pool) -> None:
    """Damage is not eviction: the bytes are text like any other, and stay."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.write_bytes(b"\0" * 6000)
    before = tree(pool.memory_dir)
    assert compacted(pool).code == 0
    assert tree(pool.memory_dir) == before


def test_a_log_with_a_hole_is_read_whole(pool: Pool) -> None:
    """NUL bytes without blocks within a text that has some are part of it."""
    lay(pool, archive=OLD_ARCHIVE)
    os.truncate(pool.active, len(MIXED) + 100_000)
    with pool.active.open("ab") as file:
        file.write(b"\n### [muse] Behind the hole (2026-06-14)\n")
    assert "Behind the hole" in [placed.entry.title for placed in read_pool(pool).entries]


def test_a_linked_tier_whose_target_is_evicted(pool: Pool, tmp_path: Path) -> None:
    """The stub lies beside the target, and the link is as good as dangling: nothing is begun in its place."""
    lay(pool, archive=OLD_ARCHIVE)
    (tmp_path / "cloud").mkdir()
    pool.archive.rename(tmp_path / "cloud" / "cold.md")
    pool.archive.symlink_to(tmp_path / "cloud" / "cold.md")
    stub(tmp_path / "cloud" / "cold.md")
    assert refused_untouched(pool, compacted, pool.archive).code == 3
