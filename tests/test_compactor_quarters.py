"""Batches by quarter, as pure functions over an archive's bytes."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor import batch as batches
from compactor import quarters
from compactor.journal import BatchRecord
from models.errors import RefusedError
from models.log import parse
from models.pool import quarter
from tests.compactor_archives import ARCHIVE, AUTUMN, LATE, LEFT, MARCH, SPRING, TITLE, WINTER, batch
from tests.samples import KILN
from tests.strategies import any_bytes, line_ends, lines

HEADING = "## Archived {} — 1 entries (date range: 2026-01-01 to 2026-01-01)"
headings = st.dates(dt.date(2025, 12, 1), dt.date(2026, 5, 1)).map(lambda day: b"\n" + HEADING.format(day).encode() + b"\n")
archives = st.lists(st.one_of(headings, st.tuples(lines, line_ends).map(b"".join)), max_size=25).map(b"".join)


def days(data: bytes) -> list[str]:
    """The day of every segment."""
    return [s.day.isoformat() for s in quarters.segments(data)]


def test_a_segment_reaches_from_a_heading_to_the_next() -> None:
    """Segments are the archive's batches with all that stands behind their entries."""
    found = [ARCHIVE[s.start : s.end] for s in quarters.segments(ARCHIVE)]
    assert found == [WINTER + b"\n", SPRING + b"\n", MARCH + b"\n", AUTUMN + b"\n", LATE]
    assert days(ARCHIVE) == ["2026-01-20", "2026-05-02", "2026-03-31", "2025-10-01", "2026-06-30"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (TITLE, []),
        (HEADING.format("2026-02-29").encode(), []),  # no such day
        (HEADING.format("2024-02-29").encode(), ["2024-02-29"]),
        (HEADING.format("2026-01-01").encode() + b" \t\r\n", ["2026-01-01"]),
        (b" " + HEADING.format("2026-01-01").encode(), []),  # indented: text of what stands before it
        (b"#" + HEADING.format("2026-01-01").encode(), []),
        (b"## Archived 2026-01-01\n", []),
        (HEADING.format("2026-01-01").replace("—", "-").encode(), []),
        (b"```\n" + HEADING.format("2026-01-01").encode() + b"\n```\n", []),
        (b"```\n" + HEADING.format("2026-01-01").encode() + b"\n", ["2026-01-01"]),  # a fence nobody closes hides nothing
        (b"<!--\n" + HEADING.format("2026-01-01").encode() + b"\n", ["2026-01-01"]),
        (HEADING.format("2026-01-01").encode() + b"\n" + HEADING.format("2026-13-01").encode(), ["2026-01-01"]),
    ],
)
def test_what_begins_a_segment(text: bytes, expected: list[str]) -> None:
    """A batch's heading in its exact form, with a day of the calendar, outside of fences."""
    assert days(text) == expected


@settings(deadline=None)
@given(st.one_of(archives, any_bytes))
def test_segments_and_the_text_in_front_are_the_archive(data: bytes) -> None:
    """Segments follow each other without a gap up to the last byte, and each begins with its heading."""
    found = list(quarters.segments(data))
    assert all(a.end == b.start for a, b in pairwise(found))
    assert not found or found[-1].end == len(data)
    assert all(data[s.start : s.end].startswith(f"## Archived {s.day}".encode()) for s in found)


@settings(deadline=None)
@given(archives)
def test_taking_quarters_out_conserves_every_byte(data: bytes) -> None:
    """What stays and what goes are slices of the archive, in its order; together they are all of it."""
    for name in {quarter(s.day) for s in quarters.segments(data)}:
        found = quarters.of_quarter(data, name)
        assert all(quarter(s.day) == name for s in found)
        stays = quarters.rest(data, found)
        assert len(stays) + sum(s.end - s.start for s in found) == len(data)
        assert quarters.of_quarter(stays, name) == []
        for segment in found:
            stays = stays[: segment.start] + data[segment.start : segment.end] + stays[segment.start :]
        assert stays == data


@settings(deadline=None)
@given(archives, st.sampled_from([None, b"", TITLE, TITLE + b"\nold", b"old\r\n", b"old\n\n"]))
def test_what_goes_to_a_shard_is_verbatim(data: bytes, shard: bytes | None) -> None:
    """Between the segments there are line feeds alone, and in front of the first of a new file its title."""
    for name in {quarter(s.day) for s in quarters.segments(data)}:
        found = quarters.of_quarter(data, name)
        left = quarters.render(data, found, shard)
        for segment in found:
            before, text, left = left.partition(data[segment.start : segment.end])
            assert text
            assert before.removeprefix(TITLE).strip(b"\n") == b""
        assert left == b""


def test_a_shard_takes_its_batches_one_blank_line_apart() -> None:
    """Exact bytes: a new file has the title; an old one is continued behind a blank line."""
    found = quarters.of_quarter(ARCHIVE, "2026-Q1")
    assert quarters.render(ARCHIVE, found, None) == TITLE + b"\n" + WINTER + b"\n" + MARCH + b"\n"
    assert quarters.render(ARCHIVE, found, b"old") == b"\n\n" + WINTER + b"\n" + MARCH + b"\n"
    last = quarters.of_quarter(ARCHIVE.rstrip(b"\n"), "2026-Q2")
    assert quarters.render(ARCHIVE.rstrip(b"\n"), last, b"x\n") == b"\n" + SPRING + b"\n" + LATE.rstrip(b"\n")
    assert quarters.rest(ARCHIVE, found) == LEFT + SPRING + b"\n" + AUTUMN + b"\n" + LATE
    assert quarters.rest(ARCHIVE, []) == ARCHIVE


@pytest.mark.parametrize(
    ("at", "inside"), [(0, False), (9, False), (10, True), (19, True), (20, False), (29, False), (30, True), (40, False)]
)
def test_whether_a_byte_lies_in_a_segment(at: int, *, inside: bool) -> None:
    """A segment holds its first byte and not the one behind its last."""
    day = dt.date(2026, 1, 1)
    assert quarters.lies_in([quarters.Segment(10, 20, day), quarters.Segment(30, 40, day)], at) is inside
    assert not quarters.lies_in([], at)


def written(folder: Path, archive: bytes, name: str, shard: bytes | None = None) -> BatchRecord:
    """Brings a quarter to its shard, and answers the record."""
    path = folder / f"{name}.md"
    found = quarters.of_quarter(archive, name)
    data = quarters.render(archive, found, shard)
    path.write_bytes((shard or b"") + data)
    entries = [e for e in parse(archive, archive=True).entries if quarters.lies_in(found, e.start)]
    return batches.record(path, shard, data, entries, found[0].day)


@pytest.mark.parametrize("shard", [None, TITLE + b"\nold"], ids=["new", "old"])
def test_the_archive_without_a_quarter(tmp_path: Path, shard: bytes | None) -> None:
    """The rewritten archive is the archive less those batches."""
    rewrite = quarters.without(written(tmp_path, ARCHIVE, "2026-Q2", shard), "2026-Q2")
    assert rewrite(ARCHIVE) == LEFT + WINTER + b"\n" + MARCH + b"\n" + AUTUMN + b"\n"


def test_an_archive_whose_other_quarters_grew_is_rewritten_with_them(tmp_path: Path) -> None:
    """Only the batches that move must be the same as before."""
    rewrite = quarters.without(written(tmp_path, ARCHIVE, "2025-Q4"), "2025-Q4")
    more = batch("2026-09-09", KILN)
    assert rewrite(ARCHIVE + b"\n" + more) == LEFT + WINTER + b"\n" + SPRING + b"\n" + MARCH + b"\n" + LATE + b"\n" + more


@pytest.mark.parametrize(
    "change",
    [lambda a: a + b"\n" + batch("2026-06-30", KILN), lambda a: a.replace(b"Spring", b"spring"), lambda _: LEFT, lambda a: a + b"x"],
    ids=["grown", "edited", "gone", "one-byte"],
)  # fmt: skip
def test_a_quarter_that_changed_meanwhile_stays(tmp_path: Path, change: object) -> None:
    """Batches that are no longer what was copied do not leave the archive."""
    assert callable(change)
    record = written(tmp_path, ARCHIVE, "2026-Q2")
    with pytest.raises(RefusedError) as caught:
        quarters.without(record, "2026-Q2")(change(ARCHIVE))
    assert str(caught.value) == (
        f"Refused to touch {record.file}: another program changed the archive's batches meanwhile. Nothing was moved; run again."
    )


def test_a_shards_batch_is_made_once_more_from_the_archive() -> None:
    """What a torn shard should have held can be told from the archive, also when that has grown; else it comes out different."""
    found = quarters.of_quarter(ARCHIVE, "2026-Q1")
    expected = quarters.render(ARCHIVE, found, b"old")
    ranges = tuple((s.start, s.end) for s in found)
    assert quarters.rebuilding(ranges, ARCHIVE)(b"old") == expected
    assert quarters.rebuilding(ranges, ARCHIVE + batch("2026-02-02", KILN))(b"old") == expected
    assert quarters.rebuilding(ranges, LEFT)(b"old") != expected
