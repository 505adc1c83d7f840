"""Pools far larger than the usual: nothing is lost on the way to ten thousand entries and past it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from compactor.compact import compact, dry_run
from compactor.durable import Disk
from compactor.split import split
from compactor.survey import SHARD_AFTER
from compactor.verify import verify_archive
from examples import make_pool
from models.log import parse
from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_archives import SETTINGS, TITLE, batch, known, over_all_files, shards_of
from tests.compactor_disks import NOON, everywhere, request
from tests.samples import HEADER, delve

TINY = b"### [delve] %d (2026-01-01)\n**Verdict:** release -- x\n"


def archive_of(count: int, day: str = "2026-03-01") -> bytes:
    """An archive with *count* tiny entries in one batch."""
    heading = f"## Archived {day} — {count} entries (date range: 2026-01-01 to 2026-01-01)\n\n".encode()
    return TITLE + b"\n" + heading + b"\n".join(TINY % n for n in range(count))


def test_ten_thousand_generated_entries_are_conserved(tmp_path: Path) -> None:
    """Sixty times the pool that broke a reader: all entries are there, byte for byte, and the archive is proven."""
    make_pool.build(tmp_path, 60)
    pool = Pool("default", tmp_path / "memory", tmp_path / "knowledge")
    before = everywhere(pool)
    result = compact(request(pool), Disk())
    assert before.total() >= 10_080
    assert everywhere(pool) == before
    assert result.archived + result.kept == 10_080
    assert result.archive.entries == result.archived > 5_000
    split(pool, SETTINGS, Disk())
    assert over_all_files(pool) == before
    assert list(shards_of(pool)) == ["2026-Q2"]
    assert (verify_archive(pool).status, verify_archive(pool).proven) == ("verified", 1)


def test_fifty_thousand_tiny_entries_are_conserved(pool: Pool) -> None:
    """They go to the archive in one batch, in their order, and none is lost."""
    entries = [TINY % n for n in range(50_000)]
    pool.active.write_bytes(HEADER + b"\n".join(entries) + b"\n" + delve("Stays", "2026-06-14"))
    result = compact(request(pool), Disk())
    assert (result.archived, result.kept, result.archive.entries) == (50_000, 1, 50_000)
    assert [e.text + b"\n" for e in parse(pool.archive.read_bytes(), archive=True).entries] == entries


def test_an_entry_of_five_megabytes_moves_whole(pool: Pool) -> None:
    """Size alone is no reason to touch an entry."""
    huge = delve("Huge", "2026-01-01") + (b"A line of an overlong connection, with \xff and \xe2\x80\xa8 in it.\r\n" * 90_000)
    assert len(huge) > 5_000_000
    pool.active.write_bytes(HEADER + huge)
    assert compact(request(pool), Disk()).archived == 1
    split(pool, SETTINGS, Disk())
    assert list(over_all_files(pool)) == [huge.removesuffix(b"\r\n")]


@pytest.mark.parametrize(
    ("count", "target"), [(SHARD_AFTER, "dream-sparks-archive.md"), (SHARD_AFTER + 1, "dream-sparks-archive-2026-Q2.md")]
)
def test_past_ten_thousand_entries_batches_go_to_the_quarter_of_the_day(pool: Pool, count: int, target: str) -> None:
    """The first file takes batches until it has passed the number; the plan names the same file."""
    old = archive_of(count)
    pool.archive.write_bytes(old)
    pool.active.write_bytes(HEADER + delve("Moves", "2026-05-01"))
    before = over_all_files(pool)
    planned = dry_run(request(pool))
    result = compact(request(pool), Disk())
    assert Path(planned.archive.file).name == Path(result.archive.file).name == target
    assert (planned.archive.entries, result.archive.entries) == (count, count + 1)
    assert result.archive.bytes == sum(p.stat().st_size for p in pool.archive_files())
    assert over_all_files(pool) == before
    if target != pool.archive_file:
        assert pool.archive.read_bytes() == old
        assert shards_of(pool) == {"2026-Q2": TITLE + b"\n" + batch("2026-06-15", delve("Moves", "2026-05-01"))}


def test_once_there_is_a_shard_batches_go_to_shards(pool: Pool) -> None:
    """Each run's batch goes to the quarter of its own day, however small the first file is; ids stay as they were."""
    pool.archive.write_bytes(TITLE)
    (pool.memory_dir / "dream-sparks-archive-2025-Q1.md").write_bytes(TITLE)
    pool.active.write_bytes(HEADER)
    for number, month in enumerate((3, 4, 6, 7, 12)):
        with pool.active.open("ab") as file:
            file.write(b"\n" + delve("Twin", "2026-01-01") + b"\n" + delve(f"Number {number}", "2026-01-02"))
        before = known(pool)
        assert compact(request(pool, now=NOON.replace(month=month)), Disk()).archived == 2
        assert known(pool) == before
    assert Counter({name: len(parse(data, archive=True).entries) for name, data in shards_of(pool).items()}) == {
        "2025-Q1": 0, "2026-Q1": 2, "2026-Q2": 4, "2026-Q3": 2, "2026-Q4": 2,
    }  # fmt: skip
    assert pool.archive.read_bytes() == TITLE
    assert (verify_archive(pool).status, verify_archive(pool).proven) == ("verified", 5)


def test_a_new_shard_takes_after_the_archive(pool: Pool) -> None:
    """It has the archive's mode, and the active file's where there is no archive."""
    pool.active.write_bytes(HEADER + delve("One", "2026-01-01"))
    pool.active.chmod(0o604)
    (pool.memory_dir / "dream-sparks-archive-2025-Q1.md").write_bytes(TITLE)
    compact(request(pool, now=NOON.replace(month=3)), Disk())
    pool.archive.write_bytes(TITLE)
    pool.archive.chmod(0o640)
    with pool.active.open("ab") as file:
        file.write(b"\n" + delve("Two", "2026-01-01"))
    compact(request(pool), Disk())
    modes = {p.stem[-7:]: p.stat().st_mode & 0o777 for p in pool.archive_files()}
    assert (modes["2026-Q1"], modes["2026-Q2"]) == (0o604, 0o640)


def test_every_reader_sees_entries_in_shards(pool: Pool) -> None:
    """Entries in the first file, in a shard and in the active file are one memory, each with its tier and batch."""
    pool.active.write_bytes(HEADER + delve("Active", "2026-06-14"))
    pool.archive.write_bytes(archive_of(2))
    (pool.memory_dir / "dream-sparks-archive-2026-Q2.md").write_bytes(TITLE + b"\n" + batch("2026-05-05", delve("Shard", "2026-01-01")))
    rows = [(p.tier, p.entry.title, str(p.entry.batch_date)) for p in read_pool(pool).entries]
    assert rows == [
        ("active", "Active", "None"), ("archive", "0", "2026-03-01"), ("archive", "1", "2026-03-01"), ("archive", "Shard", "2026-05-05"),
    ]  # fmt: skip
