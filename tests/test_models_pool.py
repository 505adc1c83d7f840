"""A pool's files, and ids that survive moves between them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from models.errors import MissingFileError
from models.pool import Pool, quarter
from models.snapshot import PoolSnapshot, read_pool
from tests.samples import HEADER, KILN, TIDE, delve, log

BATCH = b"## Archived 2026-06-01 \xe2\x80\x94 1 entries (date range: 2026-05-04 to 2026-05-04)\n\n"


def snapshot(pool: Pool, active: bytes | None, archive: bytes | None = None) -> PoolSnapshot:
    """Reads *pool* with these bytes in its files."""
    for path, data in ((pool.active, active), (pool.archive, archive)):
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)
    return read_pool(pool)


def ids(read: PoolSnapshot) -> list[tuple[str, str]]:
    """(tier, suffix of the id) of every entry."""
    return [(e.tier, e.id.removeprefix(e.entry.content_id)) for e in read.entries]


def test_entries_of_both_tiers_know_where_they_lie(pool: Pool) -> None:
    """Active entries come first, each with its pool, tier, file and id."""
    read = snapshot(pool, HEADER + KILN, b"# Dream Sparks Archive\n\n" + BATCH + TIDE)
    assert [(e.pool, e.tier, e.file, e.entry.title) for e in read.entries] == [
        ("default", "active", pool.active, "Kiln cooling and staged eviction"),
        ("default", "archive", pool.archive, "Tide tables and cron jitter"),
    ]
    assert [e.id for e in read.entries] == [e.entry.content_id for e in read.entries]
    assert read.problems == ()


def test_twins_are_numbered_from_the_archive_on(pool: Pool) -> None:
    """The first twin in the archive has the plain id, whatever the order of listing."""
    assert ids(snapshot(pool, log(KILN, TIDE, KILN))) == [("active", ""), ("active", ""), ("active", "-2")]
    assert ids(snapshot(pool, log(KILN, KILN), BATCH + KILN)) == [("active", "-2"), ("active", "-3"), ("archive", "")]


def test_the_move_of_a_twin_renumbers_none(pool: Pool) -> None:
    """The same ids exist before and after."""
    before = {e.id for e in snapshot(pool, log(KILN, KILN, TIDE)).entries}
    after = {e.id for e in snapshot(pool, log(KILN, TIDE), BATCH + KILN).entries}
    assert before == after


def test_twins_may_differ_in_their_tags(pool: Pool) -> None:
    """Re-tagged copies share title, date and body, so they are numbered too."""
    retagged = KILN.replace(b"[ext-signal]", b"[expired]")
    assert ids(snapshot(pool, log(KILN, retagged))) == [("active", ""), ("active", "-2")]


@pytest.mark.parametrize(
    ("archive_file", "names"),
    [
        ("dream-sparks-archive.md", ["dream-sparks-archive.md", "dream-sparks-archive-2025-Q4.md", "dream-sparks-archive-2026-Q1.md"]),
        ("old.sparks.md", ["old.sparks.md", "old.sparks-2026-Q1.md"]),
        ("archive", ["archive", "archive-2026-Q1"]),
    ],
)
def test_shards_of_the_archive_are_found_in_order(tmp_path: Path, archive_file: str, names: list[str]) -> None:
    """The first file comes first, then the quarters; names that merely look alike are no shards."""
    others = [
        "dream-sparks-archive-2026-Q5.md",
        "dream-sparks-archive-2026-Q1.md.tmp",
        "dream-sparks-archive-2026-Q1 (1).md",
        "oldXsparks-2026-Q1.md",
    ]
    for name in [*reversed(names), *others]:
        (tmp_path / name).touch()
    assert [p.name for p in Pool("p", tmp_path, archive_file=archive_file).archive_files()] == names


def test_conflict_copies_are_not_read(pool: Pool) -> None:
    """Only the pool's own files count; what sync services leave beside them does not."""
    names = [
        "dream-sparks (conflicted copy 2026-05-04).md",
        "dream-sparks.sync-conflict-20260504-021000-ABCDEF7.md",
        "dream-sparks 2.md",
        "dream-sparks.md.tmp",
    ]
    for name in names:
        (pool.memory_dir / name).write_bytes(TIDE)
    assert [f.path for f in snapshot(pool, KILN).files] == [pool.active]


def test_a_missing_memory_folder_is_named(tmp_path: Path) -> None:
    """The error says which folder."""
    with pytest.raises(MissingFileError) as caught:
        read_pool(Pool("p", tmp_path / "gone"))
    assert str(caught.value) == (
        f"The memory folder {tmp_path / 'gone'} does not exist: check the path, or name another folder with --memory-dir."
    )


def test_a_missing_active_file_is_a_problem_and_a_missing_archive_is_none(pool: Pool) -> None:
    """The archive is born with the first move; the active file ought to be there."""
    read = snapshot(pool, None)
    assert [str(p) for p in read.problems] == [
        f"The active file {pool.active} does not exist: check the path, or name another folder with --memory-dir."
    ]
    assert snapshot(pool, KILN).problems == ()


def test_an_unreadable_archive_is_a_problem_and_hides_no_other_file(pool: Pool) -> None:
    """What cannot be read is named, never taken as empty; the active entries are there."""
    pool.archive.mkdir()
    pool.active.write_bytes(KILN)
    read = read_pool(pool)
    assert [str(p) for p in read.problems] == [
        f"The archive file {pool.archive} cannot be read (Is a directory): make it readable and run again."
    ]
    assert ids(read) == [("active", "")]


@pytest.mark.parametrize("target", ["nowhere.md", "dream-sparks-archive.md"], ids=["dangling", "loop"])
def test_an_archive_link_that_leads_nowhere_is_a_problem(pool: Pool, target: str) -> None:
    """A link is there, so its entries are out of reach for now, not gone."""
    pool.active.write_bytes(KILN)
    pool.archive.symlink_to(target)
    assert [getattr(p, "path", None) for p in read_pool(pool).problems] == [pool.archive]


def test_links_to_the_files_are_followed(pool: Pool, tmp_path: Path) -> None:
    """Entries of a linked file are those of its target, under the link's name."""
    (tmp_path / "store.md").write_bytes(KILN)
    pool.active.symlink_to(tmp_path / "store.md")
    assert [(e.file, e.entry.text) for e in read_pool(pool).entries] == [(pool.active, KILN.rstrip(b"\n"))]


def test_a_file_remembers_its_bytes_and_its_tier(pool: Pool) -> None:
    """The bytes are the file's, and the archive is parsed as an archive."""
    archive = BATCH + b"### [dream] Open (2026-01-01)\n```\n\n" + BATCH + delve("Next", "2026-05-04") + b"```\n"
    read = snapshot(pool, KILN, archive)
    assert [(f.tier, f.data) for f in read.files] == [("active", KILN), ("archive", archive)]
    assert [e.title for e in read.tier("archive")[0].log.entries] == ["Open", "Next"]


@pytest.mark.parametrize(
    ("day", "name"),
    [("2026-01-01", "2026-Q1"), ("2026-03-31", "2026-Q1"), ("2026-04-01", "2026-Q2"), ("2026-09-30", "2026-Q3"), ("2026-12-31", "2026-Q4"),
     ("0987-10-01", "0987-Q4")],
)  # fmt: skip
def test_a_quarter_is_three_calendar_months(tmp_path: Path, day: str, name: str) -> None:
    """Years have four digits, so that names sort in the order of time, and a shard's name is one that is found again."""
    when = dt.date.fromisoformat(day)
    pool = Pool("p", tmp_path)
    assert quarter(when) == name
    assert pool.shard(when) == tmp_path / f"dream-sparks-archive-{name}.md"
    pool.shard(when).touch()
    assert pool.archive_files() == [pool.shard(when)]


def test_evicted_archive_files_are_listed(tmp_path: Path) -> None:
    """A stub stands for its file; both together are one file, and stubs of other files are none."""
    names = ["dream-sparks-archive.md", "dream-sparks-archive-2026-Q1.md", "dream-sparks-archive-2026-Q2.md"]
    for name in (f".{names[0]}.icloud", f".{names[1]}.icloud", names[2], f".{names[2]}.icloud", ".notes.md.icloud", f"{names[0]}.icloud"):
        (tmp_path / name).touch()
    assert [p.name for p in Pool("p", tmp_path).archive_files()] == names


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "missing"])
def test_a_pool_without_a_folder_has_no_files(tmp_path: Path, is_file: bool) -> None:  # noqa: FBT001 - a table's column
    """Listing is never an error; reading is."""
    if is_file:
        (tmp_path / "memory").touch()
    pool = Pool("p", tmp_path / "memory")
    assert (pool.archive_files(), pool.copies()) == ([], [])
