"""Archive batches, byte for byte: rendering, appending behind any old archive, proving and undoing."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from compactor import batch as batches
from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import BatchRecord
from models.entry import Entry
from models.errors import RefusedError
from models.log import parse
from models.pool import Pool
from tests.compactor_disks import entries_of, request
from tests.samples import KILN, TIDE, delve, log

TODAY = dt.date(2026, 6, 15)
HEADING = "## Archived 2026-06-15 — 2 entries (date range: 2026-05-04 to 2026-05-05)\n".encode()
ONE = "## Archived 2026-06-15 — 1 entries (date range: 2026-05-04 to 2026-05-04)\n".encode()


def entries(data: bytes) -> list[Entry]:
    """The entries of *data*."""
    return list(parse(data).entries)


def test_a_first_batch_begins_with_the_archives_title() -> None:
    """A new archive has its title, then the batch: one blank line between all blocks, one line end at the end."""
    expected = b"# Dream Sparks Archive\n\n" + HEADING + b"\n" + KILN + b"\n" + TIDE
    assert batches.render(entries(log(KILN, TIDE)), TODAY, None) == expected
    assert batches.render(entries(log(KILN, TIDE)), TODAY, b"") == expected


@pytest.mark.parametrize(
    ("archive", "joint"),
    [
        (b"old", b"\n\n"),
        (b"old\n", b"\n"),
        (b"old\n\n", b""),
        (b"old\r\n", b"\n"),
        (b"old\r\n\r\n", b""),
        (b"old\n\n\n\n", b""),
        (b"\xef\xbb\xbf", b"\n\n"),
    ],
)
def test_a_later_batch_stands_one_blank_line_off(archive: bytes, joint: bytes) -> None:
    """Whatever the archive ends with, its bytes stay and the heading begins a line behind a blank one."""
    assert batches.render(entries(KILN), TODAY, archive) == joint + ONE + b"\n" + KILN


@pytest.mark.parametrize("tail", [b"", b"\n", b"\n\n\n", b"\n  \n\t\n"], ids=["no-newline", "newline", "blanks", "spaces"])
def test_trailing_blank_lines_are_no_part_of_an_entry(tail: bytes) -> None:
    """An entry moves with one line end, however many blank lines followed it."""
    text = KILN.rstrip(b"\n")
    assert batches.render(entries(text + tail), TODAY, b"x\n\n") == ONE + b"\n" + text + b"\n"


def test_a_crlf_entry_keeps_its_line_ends() -> None:
    """The blank line before it and its own last line end are CRLF as well; its neighbours stay LF."""
    windows = KILN.replace(b"\n", b"\r\n")
    assert batches.render(entries(windows + b"\r\n" + TIDE), TODAY, b"x\n\n") == HEADING + b"\r\n" + windows + b"\n" + TIDE


def test_text_is_verbatim() -> None:
    """Odd spaces, tabs, unknown fields, NUL and bytes that are not UTF-8 reach the archive unchanged."""
    odd = b"### [delve] Odd (2026-05-04)\n**Mood:** wry  \n\tsnake_case *stars*\x00\xff\xfe\xe2\x80\xa8\n\n\n**Signal:** faint  "
    assert batches.render(entries(odd), TODAY, b"x\n\n") == ONE + b"\n" + odd + b"\n"


@pytest.mark.parametrize("archive", [b"# Dream Sparks Archive\n\n" + KILN.rstrip(b"\n"), b"", None])
def test_eleven_rounds_keep_exactly_one_blank_line(pool: Pool, archive: bytes | None) -> None:
    """Round after round the old bytes are a strict prefix, and one blank line stands between any two blocks."""
    if archive is not None:
        pool.archive.write_bytes(archive)
    before = archive or b""
    for n in range(11):
        pool.active.write_bytes(delve("Stays", "2026-05-01", "absorb -- x") + b"\n" + delve(f"Round {n}", "2026-05-01"))
        assert compact(request(pool), Disk()).archived == 1
        after = pool.archive.read_bytes()
        assert after.startswith(before)
        assert len(after) > len(before)
        before = after
    assert b"\n\n\n" not in before
    lines = before.split(b"\n")
    headings = [n for n, line in enumerate(lines) if line.startswith(b"#") and n > 0]
    assert len(headings) >= 22
    assert all(lines[n - 1] == b"" and lines[n - 2] != b"" for n in headings)
    assert before.endswith(b"examined\n")


def test_eleven_crlf_rounds_keep_exactly_one_blank_line(pool: Pool) -> None:
    """The same with entries that have Windows line ends."""
    for n in range(11):
        pool.active.write_bytes(delve(f"Round {n}", "2026-05-01").replace(b"\n", b"\r\n"))
        compact(request(pool), Disk())
    data = pool.archive.read_bytes().replace(b"\r\n", b"\n")
    assert b"\n\n\n" not in data
    assert data.count(b"\n\n##") == 22
    assert entries_of(pool.archive) == [delve(f"Round {n}", "2026-05-01").replace(b"\n", b"\r\n")[:-2] for n in range(11)]


def active_with(archive: Path, *texts: bytes) -> Path:
    """An active file beside *archive* that still holds these entries."""
    path = archive.with_name("active.md")
    path.write_bytes(log(*texts))
    return path


@pytest.fixture
def appended(tmp_path: Path) -> tuple[Path, BatchRecord, list[Entry]]:
    """An old archive with a batch of two behind it."""
    path = tmp_path / "archive.md"
    path.write_bytes(b"old\n")
    moving = entries(log(KILN, TIDE))
    data = batches.render(moving, TODAY, b"old\n")
    batch = batches.record(path, b"old\n", data, moving, TODAY)
    batches.append(Disk(), batch, data, like=path)
    return path, batch, moving


def test_a_batch_reads_back(appended: tuple[Path, BatchRecord, list[Entry]]) -> None:
    """What was appended is found whole."""
    path, batch, moving = appended
    batches.verify(batch, moving)
    assert batches.is_whole(batch)
    assert path.read_bytes() == b"old\n\n" + HEADING + b"\n" + KILN + b"\n" + TIDE


@pytest.mark.parametrize("harm", ["cut", "flipped"])
def test_a_batch_that_reads_back_differently_is_refused(appended: tuple[Path, BatchRecord, list[Entry]], harm: str) -> None:
    """One byte less or another is noticed."""
    path, batch, moving = appended
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1], "flipped": data[:-2] + b"?\n"}[harm])
    with pytest.raises(RefusedError) as caught:
        batches.verify(batch, moving)
    assert str(caught.value) == (
        f"Refused to touch {path}: the batch just written does not read back as it was written. The active file is untouched."
    )


def test_a_torn_batch_is_not_whole(appended: tuple[Path, BatchRecord, list[Entry]]) -> None:
    """A batch that is cut short, or whose file is gone, is not whole."""
    path, batch, _ = appended
    path.write_bytes(path.read_bytes()[:-1])
    assert not batches.is_whole(batch)
    path.unlink()
    assert not batches.is_whole(batch)


@pytest.mark.parametrize("left", [0, 1, 50, None])
def test_undoing_leaves_the_old_bytes(appended: tuple[Path, BatchRecord, list[Entry]], left: int | None) -> None:
    """Whatever part of the batch arrived, exactly the old archive remains."""
    path, batch, _ = appended
    path.write_bytes(path.read_bytes()[: None if left is None else batch.offset + left])
    batches.undo(Disk(), batch, batches.rebuilding(batch, active_with(path, KILN, TIDE)))
    assert path.read_bytes() == b"old\n"


def test_undoing_a_torn_batch_needs_its_entries(appended: tuple[Path, BatchRecord, list[Entry]]) -> None:
    """When the entries have left the active file as well, nobody can tell a torn batch from other text, and nothing is cut."""
    path, batch, _ = appended
    torn = path.read_bytes()[:-9]
    path.write_bytes(torn)
    with pytest.raises(RefusedError, match="nobody can tell how much of an unfinished batch is in the archive"):
        batches.undo(Disk(), batch, batches.rebuilding(batch, active_with(path, KILN)))
    assert path.read_bytes() == torn


def test_text_behind_a_whole_batch_is_no_harm(appended: tuple[Path, BatchRecord, list[Entry]]) -> None:
    """What another program appends behind the batch, or right in front of it, does not hide it."""
    path, batch, moving = appended
    whole = path.read_bytes()
    for data in (whole + b"more\n", whole[: batch.offset] + b"more\n" + whole[batch.offset :]):
        path.write_bytes(data)
        batches.verify(batch, moving)
        assert batches.is_whole(batch)


def test_undoing_the_first_batch_removes_the_archive(tmp_path: Path) -> None:
    """An archive that did not exist before does not exist afterwards; undoing twice is no failure."""
    path = tmp_path / "archive.md"
    moving = entries(KILN)
    data = batches.render(moving, TODAY, None)
    batch = batches.record(path, None, data, moving, TODAY)
    like = tmp_path / "active.md"
    like.write_bytes(b"")
    batches.append(Disk(), batch, data, like=like)
    batches.undo(Disk(), batch, batches.rebuilding(batch, like))
    assert not path.exists()
    batches.undo(Disk(), batch, batches.rebuilding(batch, like))


def test_an_archive_that_shrank_is_not_cut(appended: tuple[Path, BatchRecord, list[Entry]]) -> None:
    """When old bytes are missing nothing is cut, and the person is told."""
    path, batch, _ = appended
    path.write_bytes(b"ol")
    with pytest.raises(RefusedError) as caught:
        batches.undo(Disk(), batch, batches.rebuilding(batch, active_with(path, KILN, TIDE)))
    assert "the archive was cut short during an unfinished run" in str(caught.value)
    assert path.read_bytes() == b"ol"


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        (b"plain text", True),
        (HEADING, True),
        (b"```\n" + HEADING + b"\n### [delve] Not an entry (2026-01-01)\n```\n", False),
        (b"see `## Archived ` there", True),
    ],
    ids=["plain", "bare", "fenced", "inline"],
)
def test_an_entry_that_an_archive_would_cut_is_told_apart(body: bytes, alone: bool) -> None:  # noqa: FBT001 - a table's column
    """A batch heading inside a fence would end the entry early in an archive."""
    e = entries(b"### [delve] Quotes (2026-05-04)\n" + body)[0]
    assert batches.holds_alone(e, TODAY) is alone
