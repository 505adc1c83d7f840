"""All files of a pool at one moment: shards, unfinished moves, and ids of twins that no move changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.log import parse
from models.memory_file import FileState
from models.pool import Pool
from models.snapshot import PoolSnapshot, TierFile, numbered, read_pool
from tests.samples import HEADER, KILN, TIDE, delve, log

RETAGGED = KILN.replace(b"[ext-signal]", b"[expired]")


def batch(day: str, *entries: bytes) -> bytes:
    """A batch of *entries*."""
    heading = f"## Archived {day} — {len(entries)} entries (date range: 2026-05-04 to 2026-05-04)\n\n"
    return heading.encode() + log(*entries) + b"\n"


def lay(pool: Pool, active: bytes, archive: bytes | None = None, **shards: bytes) -> None:
    """Writes these files; a shard is named `Q2_2026`."""
    pool.active.write_bytes(active)
    if archive is not None:
        pool.archive.write_bytes(archive)
    for name, data in shards.items():
        quarter, _, year = name.partition("_")
        (pool.memory_dir / f"dream-sparks-archive-{year}-{quarter}.md").write_bytes(data)


def suffixes(pool: Pool) -> list[tuple[str, str]]:
    """(file's stem behind the archive's name, or `active`; number behind the id) of every entry."""
    found = []
    for placed in read_pool(pool).entries:
        place = "active" if placed.tier == "active" else placed.file.stem.removeprefix("dream-sparks-archive")
        found.append((place, placed.id.removeprefix(placed.entry.content_id)))
    return found


def test_shards_belong_to_the_archive_behind_its_first_file(pool: Pool) -> None:
    """Entries come in the order active, archive, shards by quarter, each with its file and lines there."""
    lay(
        pool,
        HEADER + TIDE,
        batch("2026-05-01", KILN),
        Q3_2026=batch("2026-07-01", delve("C", "2026-01-01")),
        Q4_2025=delve("B", "2026-01-01"),
    )
    found = read_pool(pool)
    rows = [(p.tier, p.file.name, p.entry.title, p.entry.line) for p in found.entries]
    assert rows == [
        ("active", "dream-sparks.md", "Tide tables and cron jitter", 9),
        ("archive", "dream-sparks-archive.md", "Kiln cooling and staged eviction", 3),
        ("archive", "dream-sparks-archive-2025-Q4.md", "B", 1),
        ("archive", "dream-sparks-archive-2026-Q3.md", "C", 3),
    ]
    assert (found.problems, found.pending, found.copies) == ((), None, ())


def test_twins_are_numbered_by_the_day_of_their_batch(pool: Pool) -> None:
    """The oldest batch has the plain id, in whichever file it lies; entries in no batch come before all, the active file last."""
    lay(pool, KILN, batch("2026-08-01", KILN) + KILN, Q1_2026=batch("2026-02-01", KILN), Q2_2026=KILN)
    expected = [("active", "-5"), ("", "-3"), ("", "-4"), ("-2026-Q1", "-2"), ("-2026-Q2", "")]
    assert suffixes(pool) == expected


def test_a_batch_out_of_order_keeps_its_twins_numbers_when_it_moves(pool: Pool) -> None:
    """Ids do not depend on whether a batch is in the archive or in its quarter's file."""
    old, new = batch("2026-01-05", KILN), batch("2026-07-05", RETAGGED)
    lay(pool, b"", new + old)
    before = {p.id: p.entry.text for p in read_pool(pool).entries}
    lay(pool, b"", b"", Q1_2026=old, Q3_2026=new)
    assert {p.id: p.entry.text for p in read_pool(pool).entries} == before


def test_an_archived_twin_takes_the_next_number_and_those_behind_it_keep_theirs(pool: Pool) -> None:
    """Moving the first of the active twins to a new shard leaves every id as it was."""
    lay(pool, log(KILN, RETAGGED, TIDE), batch("2026-05-20", KILN))
    before = {p.id: p.entry.text for p in read_pool(pool).entries}
    lay(pool, log(RETAGGED, TIDE), batch("2026-05-20", KILN), Q2_2026=batch("2026-06-01", KILN))
    assert {p.id: p.entry.text for p in read_pool(pool).entries} == before


@pytest.mark.parametrize(("number", "name"), [(1, "abc"), (2, "abc-2"), (10, "abc-10")])
def test_numbers(number: int, name: str) -> None:
    """The first twin has the plain id."""
    assert numbered("abc", number) == name


def move(pool: Pool, source: Path, file: Path, offset: int, size: int, *versions: str) -> None:
    """Leaves the journal of an unfinished move."""
    batch = {"file": file.name, "offset": offset, "size": size, "versions": versions}
    pool.private_dir.mkdir(exist_ok=True)
    (pool.private_dir / "journal.json").write_text(json.dumps({"format": 2, "source": source.name, "batch": batch}))


def test_what_an_unfinished_move_has_copied_counts_where_it_came_from(pool: Pool) -> None:
    """Copies in the archive do not show while the active file holds their originals, and ids stay."""
    old, added = batch("2026-05-20", TIDE), b"\n" + batch("2026-06-15", KILN, TIDE)
    lay(pool, log(KILN, TIDE), old)
    before = [(p.id, p.tier, p.entry.text) for p in read_pool(pool).entries]
    versions = [e.version for e in parse(log(KILN, TIDE)).entries]
    move(pool, pool.active, pool.archive, len(old), len(added), *versions)
    for size in range(len(added) + 1):
        pool.archive.write_bytes(old + added[:size])
        assert [(p.id, p.tier, p.entry.text) for p in read_pool(pool).entries] == before, size
    pool.active.write_bytes(b"")
    assert [(p.tier, p.entry.text) for p in read_pool(pool).entries] == [("archive", text.rstrip()) for text in (TIDE, KILN, TIDE)]


def test_copies_in_a_shard_count_in_the_archive(pool: Pool) -> None:
    """The same holds between the archive and a new shard, also when both are reached through links."""
    archived = batch("2026-04-20", KILN, KILN)
    lay(pool, TIDE, archived, Q2_2026=archived[:-20])
    elsewhere = pool.memory_dir.parent / "elsewhere.md"
    pool.archive.rename(elsewhere)
    pool.archive.symlink_to(elsewhere)
    shard = pool.memory_dir / "dream-sparks-archive-2026-Q2.md"
    (version, _) = (e.version for e in parse(archived, archive=True).entries)
    move(pool, pool.archive, shard, 0, len(archived), version, version)
    journal = pool.private_dir / "journal.json"
    journal.write_text(journal.read_text().replace(f'"{pool.archive.name}"', json.dumps(str(elsewhere.resolve()))))
    assert suffixes(pool) == [("active", ""), ("", ""), ("", "-2")]
    shard.write_bytes(archived)
    assert suffixes(pool) == [("active", ""), ("", ""), ("", "-2")]
    elsewhere.write_bytes(b"")
    assert suffixes(pool) == [("active", ""), ("-2026-Q2", ""), ("-2026-Q2", "-2")]


def test_the_archive_shows_when_the_source_of_a_move_cannot_be_read(pool: Pool) -> None:
    """With the active file gone, its copies are all there is, so they count."""
    lay(pool, KILN, batch("2026-06-15", KILN))
    (version,) = (e.version for e in parse(KILN).entries)
    move(pool, pool.active, pool.archive, 0, pool.archive.stat().st_size, version)
    pool.active.unlink()
    found = read_pool(pool)
    assert [p.entry.text for p in found.entries] == [KILN.rstrip()]
    assert [str(p).partition(" ")[0] for p in found.problems] == ["The"]


@settings(deadline=None)
@given(
    st.permutations([("2026-01-05", KILN), ("2026-02-05", RETAGGED), ("2026-05-05", KILN + b"**x:** y\n"), ("2026-08-05", RETAGGED)]),
    st.data(),
)
def test_ids_are_the_same_however_batches_lie_in_files(batches: list[tuple[str, bytes]], data: st.DataObject) -> None:
    """Batches of different days may lie in any order in any files of the archive."""
    files: list[bytes] = [b"", b"", b""]
    for day, text in batches:
        files[data.draw(st.integers(0, 2))] += batch(day, text)
    pool, state = Pool("default", Path("m")), FileState(0, 0, 0, 0)
    names = ["dream-sparks-archive.md", "dream-sparks-archive-2026-Q1.md", "dream-sparks-archive-2026-Q2.md"]
    tiers = tuple(TierFile("archive", Path("m") / name, text, state) for name, text in zip(names, files, strict=True))
    placed = PoolSnapshot(pool, tiers).entries
    plain = PoolSnapshot(pool, (TierFile("archive", Path("m"), b"".join(batch(*row) for row in sorted(batches)), state),)).entries
    assert {p.id: p.entry.text for p in placed} == {p.id: p.entry.text for p in plain}
