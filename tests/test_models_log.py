"""Parsing loses nothing and never raises, and every span, line and offset agrees with the bytes."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.log import Log, Prose, batches, parse
from models.markdown import Lines
from tests.samples import HEADER, KILN, TIDE, ledger, log
from tests.strategies import any_bytes, markdown

ARCHIVE = b"""\
# Dream Sparks Archive

## Archived 2026-05-01 \xe2\x80\x94 2 entries (date range: 2026-04-01 to 2026-04-02)

### [dream] One (2026-04-01)
**Signal:** faint

### [dream] Two (2026-04-02)
**Signal:** faint

## Archived 2026-06-01 \xe2\x80\x94 1 entries (date range: 2026-05-01 to 2026-05-01)

### [dream] Three (2026-05-01)
**Signal:** faint
"""


def messages(read: Log) -> list[tuple[int, str]]:
    """Every warning with its line."""
    return [(w.line, w.message) for w in read.warnings]


@given(any_bytes, st.booleans())
def test_any_bytes_render_back_to_themselves(data: bytes, archive: bool) -> None:  # noqa: FBT001 - Hypothesis fills it in
    """The spans, joined, are the file."""
    assert parse(data, archive=archive).render() == data


@given(any_bytes, st.booleans())
def test_spans_follow_one_another_without_a_gap(data: bytes, archive: bool) -> None:  # noqa: FBT001 - as above
    """Every span begins where the one before it ends, and none is empty."""
    at = 0
    for span in parse(data, archive=archive).spans:
        assert span.start == at
        assert span.raw
        at += len(span.raw)
    assert at == len(data)


@given(any_bytes, st.booleans())
def test_offsets_and_lines_of_every_entry_agree_with_the_bytes(data: bytes, archive: bool) -> None:  # noqa: FBT001 - as above
    """`start`, `end`, `line` and `line_end` lead to the entry's text in the file."""
    for entry in parse(data, archive=archive).entries:
        assert data[entry.start : entry.end] == entry.text
        assert entry.line == data.count(b"\n", 0, entry.start) + 1
        assert entry.line_end == data.count(b"\n", 0, entry.end) + 1
        assert entry.text.lstrip(b" ").startswith(b"###")
        assert not entry.text.endswith(b"\n")
        assert not entry.gap.strip(b" \t\r\n")


@given(any_bytes, st.booleans())
def test_everything_can_be_asked_of_any_entry(data: bytes, archive: bool) -> None:  # noqa: FBT001 - as above
    """Nothing raises, whatever the bytes, and all text is fit for JSON."""
    read = parse(data, archive=archive)
    lines = data.count(b"\n") + 1
    for warning in read.warnings:
        assert 1 <= warning.line <= lines
        assert warning.message.encode()
    for entry in read.entries:
        shown = [entry.title, entry.kind, entry.signal or "", *entry.tags, *entry.fields, *entry.fields.values()]
        if entry.verdict:
            shown += [entry.verdict.word, entry.verdict.reason]
        assert all(text.encode() is not None for text in shown)
        assert len(entry.content_id) == 16
        assert len(entry.version) == 64
        assert entry.line <= entry.line_end <= lines


@given(any_bytes)
def test_fields_lie_behind_the_heading_in_order(data: bytes) -> None:
    """Field spans never overlap, and the last one reaches the end of the entry."""
    for entry in parse(data).entries:
        at = len(entry.text.partition(b"\n")[0].decode("utf-8", "surrogateescape"))
        for _, label, value, end in entry.field_spans:
            assert at <= label < value <= end
            at = end
        if entry.field_spans:
            assert at == len(entry.text.decode("utf-8", "surrogateescape"))


@given(markdown, markdown)
def test_a_line_appended_to_a_file_changes_no_entry_before_the_last(data: bytes, more: bytes) -> None:
    """Where no fence or comment is open, entries that a heading has ended stay as they are."""
    before = parse(data)
    if any("never closed" in w.message for w in before.warnings) or data.startswith((b"---", b"\xef\xbb\xbf---")):
        return
    after = parse(data + b"\n" + more).entries
    assert [e.text for e in after][: max(0, len(before.entries) - 1)] == [e.text for e in before.entries][:-1]


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n\n", b"\r\n", b"\r\n\r\n", b"\n \t\n", b"\n\r\n\n"])
def test_blank_lines_behind_an_entry_are_its_gap(end: bytes) -> None:
    """The text stops at its last visible line; the rest is kept as the gap."""
    (entry,) = parse(KILN.rstrip(b"\n") + end).entries
    assert (entry.text, entry.gap) == (KILN.rstrip(b"\n"), end)


@pytest.mark.parametrize("last", [b"two trailing spaces  ", b"\ta tab before", b"\xc2\xa0", b"\x0c", b"\xff", b"\x00"])
def test_every_byte_of_the_last_line_belongs_to_the_text(last: bytes) -> None:
    """Spaces behind words and characters that merely look blank are text."""
    (entry,) = parse(KILN + last + b"\n\n").entries
    assert entry.text == KILN + last


def test_prose_stays_in_its_place() -> None:
    """Headers, group headings and headings without a tag are prose between the entries."""
    data = HEADER + KILN + b"\n## Night\n\nwords\n\n" + TIDE + b"\n### Notes\n\nwords\n"
    read = parse(data)
    assert [(e.start, e.raw) for e in read.entries] == [(len(HEADER), KILN + b"\n"), (data.index(TIDE), TIDE + b"\n")]
    prose = b"|".join(s.raw for s in read.spans if isinstance(s, Prose))
    assert prose.replace(b"|", b"") == HEADER + b"## Night\n\nwords\n\n" + b"### Notes\n\nwords\n"


def test_a_format_example_in_a_comment_is_prose() -> None:
    """The comment at the head of a file is no entry and stays byte for byte."""
    comment = b"<!-- how to write one:\n### [dream] [ext-signal] <title> (YYYY-MM-DD HH:MM)\n**Signal:** noise\n-->\n\n"
    prose, entry = parse(comment + KILN).spans
    assert prose.raw == comment
    assert entry.raw == KILN
    assert messages(parse(comment + KILN)) == []


def test_line_ends_may_differ_within_one_file() -> None:
    """Entries keep their own line ends, and no value has a carriage return."""
    data = log(KILN.replace(b"\n", b"\r\n"), TIDE, ledger("release -- done").replace(b"\n", b"\r\n"))
    read = parse(data)
    assert [e.text.count(b"\r\n") for e in read.entries] == [5, 0, 6]
    assert not any("\r" in value for e in read.entries for value in e.fields.values())
    assert read.entries[2].verdict is not None
    assert read.render() == data


def test_what_looks_wrong_in_one_entry_is_warned_about_and_costs_no_other() -> None:
    """Impossible and missing dates, a missing signal and an unknown kind leave six entries, with lines for each warning."""
    no_signal = KILN.replace(b"**Signal:** resonant\n", b"").replace(b"Kiln", b"Oven")
    data = log(
        KILN, TIDE.replace(b"2026-05-05 02:10", b"2026-02-30 25:61"), ledger("park -- ok").replace(b" (2026-05-07)", b""),
        no_signal, b"### [muse] Unknown kind (2026-05-09)\nOne line.\n", ledger("park -- ok"),
    )  # fmt: skip
    read = parse(data)
    assert [e.date and e.date.isoformat() for e in read.entries] == ["2026-05-04", None, None, "2026-05-04", "2026-05-09", "2026-05-07"]
    assert [e.kind for e in read.entries] == ["dream", "dream", "delve", "dream", "muse", "delve"]
    assert read.entries[3].signal is None
    assert messages(read) == [
        (8, "(2026-02-30 25:61) is no date of the calendar; the entry is never archived for its age"),
        (15, "the heading has no (YYYY-MM-DD) date; the entry is never archived for its age"),
    ]
    assert read.render() == data


def test_a_heading_without_a_tag_is_warned_about() -> None:
    """Prose under a heading of level three is named by its line."""
    assert messages(parse(b"# T\n\n### Notes\nx\n")) == [(3, "the heading has no [tag], so it is kept as prose")]


def test_bytes_that_are_not_utf8_are_kept_and_warned_about() -> None:
    """The entry is read, its bytes are the file's, and what is shown has replacement characters."""
    read = parse(b"### [dream] Caf\xe9 (2026-01-02)\n**Mood:** \xff\n")
    (entry,) = read.entries
    assert (entry.title, entry.fields) == ("Caf\ufffd", {"Mood": "\ufffd"})
    assert messages(read) == [(1, "the entry has bytes that are not UTF-8; they are kept as they are")]


def test_warnings_come_in_the_order_of_lines() -> None:
    """Warnings of the layout and of entries are sorted together."""
    read = parse(b"### [dream] A\n\n### Notes\n\n### [dream] B\n\n```\n")
    assert [w.line for w in read.warnings] == [1, 3, 5, 7]


def test_entries_of_an_archive_know_their_batch() -> None:
    """The batch's date is the one in the heading above the entry."""
    dates = [(e.title, e.batch_date) for e in parse(ARCHIVE, archive=True).entries]
    assert dates == [("One", dt.date(2026, 5, 1)), ("Two", dt.date(2026, 5, 1)), ("Three", dt.date(2026, 6, 1))]
    assert [e.batch_date for e in parse(KILN).entries] == [None]


@pytest.mark.parametrize(
    "heading", [b"## Archived 2026-02-30 \xe2\x80\x94 1 entries (date range: x to y)", b"## Archived soon", b"# Archived 2026-05-01"]
)
def test_a_batch_heading_without_a_usable_date_dates_nothing(heading: bytes) -> None:
    """Such entries have no batch date, and nothing raises."""
    assert [e.batch_date for e in parse(heading + b"\n\n" + KILN, archive=True).entries] == [None]


def test_batches_are_listed_in_order_with_their_offsets() -> None:
    """Only exact batch headings count, with LF or CRLF behind them, and none in a closed fence elsewhere."""
    found = list(batches(ARCHIVE))
    assert [ARCHIVE[at:].startswith(text.encode()) for at, text in found] == [True, True]
    assert [text[:22] for _, text in found] == ["## Archived 2026-05-01", "## Archived 2026-06-01"]
    assert [text for _, text in batches(ARCHIVE.replace(b"\n", b"\r\n"))] == [text for _, text in found]
    assert list(batches(ARCHIVE.replace(b"\xe2\x80\x94", b"-"))) == []


@pytest.mark.parametrize("data", [b"", b"\n", b"\r", b"\xef\xbb\xbf", b"\x00" * 9, b"# Dream Sparks\n"])
def test_a_file_without_entries_is_all_prose(data: bytes) -> None:
    """Empty and entry-free files have no entries and no warnings."""
    read = parse(data)
    assert (read.entries, read.warnings, read.render()) == ((), [], data)


def test_a_table_of_lines_answers_for_every_byte() -> None:
    """Lines count from 1, in any order of questions, up to the byte behind the last."""
    data = b"a\n\nb" * 2000
    lines = Lines(data)
    assert [lines.at(n) for n in range(len(data), -1, -7)] == [data.count(b"\n", 0, n) + 1 for n in range(len(data), -1, -7)]
    assert Lines(b"").at(0) == 1


@given(any_bytes)
def test_sizes_are_those_of_the_bytes(data: bytes) -> None:
    """Bytes and line feeds of every span, and so of the file, are counted without joining anything."""
    read = parse(data)
    assert (read.size, read.newlines) == (len(data), data.count(b"\n"))
    assert [(s.size, s.newlines) for s in read.spans] == [(len(s.raw), s.raw.count(b"\n")) for s in read.spans]


LARGE = {
    "one entry": KILN + b"some words\n" * 400_000,
    "blank lines": ledger("perhaps").replace(b"Verdict", b"Vote") + b"\n" * 1_000_000 + b"words",
    "tiny entries": b"### [d] t\n" * 50_000,
    "open fences": KILN + b"```x\n" * 200_000,
    "open comments": KILN + b"<!-- x\n" * 200_000,
    "closed fences and fields": KILN + b"```\n```\n**A:** x\n" * 60_000,
    "tags": b"### " + b"[d] " * 500_000 + b"(2026-01-01)\n",
    "spaces": b"### [d]" + b" " * 1_000_000 + b"[\n",
    "marks": b"### [d] t " + b"[dead] " * 100_000 + b"(2026-01-01) " + b"[dead] " * 100_000 + b"x\n",
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", LARGE)
def test_no_file_takes_more_than_linear_time(name: str) -> None:
    """Large files of odd shapes are read at once, with all that can be asked of their entries."""
    read = parse(LARGE[name])
    assert read.render() == LARGE[name]
    assert all(e.line_end >= e.line and len(e.fields) < 10 for e in read.entries)
    assert len(read.warnings) <= LARGE[name].count(b"\n") + 1
