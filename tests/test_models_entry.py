"""Headings: tags, annotations, titles and dates, as people and tools write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.heading import Heading, parse_heading
from models.log import parse
from models.text import decode, is_utf8, readable

NO_DATE = "the heading has no (YYYY-MM-DD) date"


Shape = tuple[tuple[str, ...], dict[str, str], str, str | None, str | None, str]


def shape(heading: Heading) -> Shape:
    """Tags, annotations, title, date, time and what follows the date."""
    h = heading
    return h.tags, dict(h.annotations), h.title, h.date.isoformat() if h.date else None, h.time, h.suffix


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("[dream] Plain (2026-04-07)", (("dream",), {}, "Plain", "2026-04-07", None, "")),
        ("[dream] [ext-signal] Two tags (2026-04-07 09:30)", (("dream", "ext-signal"), {}, "Two tags", "2026-04-07", "09:30", "")),
        ("[dream][ext-signal] No space (2026-04-07)", (("dream", "ext-signal"), {}, "No space", "2026-04-07", None, "")),
        ("[Dream]   Odd \t spaces   ( x )  (2026-04-07)", (("Dream",), {}, "Odd spaces ( x )", "2026-04-07", None, "")),
        ("[dream] May hold (parentheses): colons (2026-04-07)", (("dream",), {}, "May hold (parentheses): colons", "2026-04-07", None, "")),
        ("[dream] Copied (2025-01-01) later (2026-04-07)", (("dream",), {}, "Copied (2025-01-01) later", "2026-04-07", None, "")),
        ("[dream] Text after (2026-04-07) second pass", (("dream",), {}, "Text after", "2026-04-07", None, "second pass")),
        ("[dream] Short form (2026-4-7 9:05)", (("dream",), {}, "Short form", "2026-04-07", "09:05", "")),
        ("[dream] ISO (2026-04-07T09:30:15Z)", (("dream",), {}, "ISO", "2026-04-07", "09:30", "")),
        ("[dream] Zone (2026-04-07 23:30+02:00)", (("dream",), {}, "Zone", "2026-04-07", "23:30", "")),  # wall clock, never shifted
        ("[dream] Zulu (2026-04-07 09:30Z)", (("dream",), {}, "Zulu", "2026-04-07", "09:30", "")),
        ("[dream] West (2026-04-07T09:30-0500)", (("dream",), {}, "West", "2026-04-07", "09:30", "")),
        ("[dream] Fraction (2026-04-07 09:30.5)", (("dream",), {}, "Fraction", "2026-04-07", "09:30", "")),
        ("[dream] Midnight (2026-04-07 00:00)", (("dream",), {}, "Midnight", "2026-04-07", "00:00", "")),
        ("[dream] A [link](https://example.org) (2026-04-07)", (("dream",), {}, "A [link](https://example.org)", "2026-04-07", None, "")),
        ("[dream] a[0] and [x] (2026-04-07)", (("dream",), {}, "a[0] and [x]", "2026-04-07", None, "")),
        ("[dream] Nested [a [b]] (2026-04-07)", (("dream",), {}, "Nested [a [b]]", "2026-04-07", None, "")),
        ("[swarm-docs] 深夜 🦊 (2026-04-07)", (("swarm-docs",), {}, "深夜 🦊", "2026-04-07", None, "")),
        ("[dream] (2026-04-07)", (("dream",), {}, "", "2026-04-07", None, "")),
        ("[dream] No date", (("dream",), {}, "No date", None, None, "")),
        ("[dream]", (("dream",), {}, "", None, None, "")),
    ],
)
def test_a_heading_is_read_into_its_parts(line: str, parts: Shape) -> None:
    """Leading groups are tags, the last date parenthesis counts, the rest is title and suffix."""
    assert shape(parse_heading(line)) == parts


@pytest.mark.parametrize(
    ("stamp", "date", "time", "problem"),
    [
        ("(2026-02-30)", None, None, "(2026-02-30) is no date of the calendar"),
        ("(2026-02-30 25:61)", None, None, "(2026-02-30 25:61) is no date of the calendar"),
        ("(2026-13-01)", None, None, "(2026-13-01) is no date of the calendar"),
        ("(0000-01-01)", None, None, "(0000-01-01) is no date of the calendar"),
        ("(2025-02-29)", None, None, "(2025-02-29) is no date of the calendar"),
        ("(2024-02-29)", "2024-02-29", None, None),
        ("(2026-05-04 25:61)", "2026-05-04", None, "25:61 is no time of day"),
        ("(2026-05-04 24:00)", "2026-05-04", None, "24:00 is no time of day"),
        ("(YYYY-MM-DD HH:MM)", None, None, NO_DATE),
        ("(2026/05/04)", None, None, NO_DATE),
        ("(2026-05-04 evening)", None, None, NO_DATE),
        ("(26-05-04)", None, None, NO_DATE),
        ("2026-05-04", None, None, NO_DATE),
    ],
)
def test_dates_and_times_that_cannot_be_are_named(stamp: str, date: str | None, time: str | None, problem: str | None) -> None:
    """An impossible date is no date; an impossible time costs the time alone."""
    heading = parse_heading(f"[dream] Title {stamp}")
    assert (heading.date and heading.date.isoformat(), heading.time, heading.problem) == (date, time, problem)


def test_only_an_entry_without_a_date_is_promised_never_to_age() -> None:
    """An impossible time leaves the date, by which the entry does age."""
    (entry,) = parse(b"### [dream] A (2026-05-04 25:61)\n").entries
    assert entry.date is not None
    assert not any("never archived for its age" in w.message for w in entry.warnings)


MARKS = {
    "[expired]": (("delve", "expired"), {}),
    "[Consumed: 2026-04-09]": (("delve",), {"Consumed": "2026-04-09"}),
    "[DEAD: no longer true: see notes]": (("delve",), {"DEAD": "no longer true: see notes"}),
    "[DEAD: uses a[0] (twice)]": (("delve",), {"DEAD": "uses a[0] (twice)"}),
    "[DEAD: see [notes](https://example.org/a)]": (("delve",), {"DEAD": "see [notes](https://example.org/a)"}),
    "[DEAD: deep [a [b [c]]] brackets]": (("delve",), {"DEAD": "deep [a [b [c]]] brackets"}),
    "[DEAD: superseded by Ledger locks (2026-05-09)]": (("delve",), {"DEAD": "superseded by Ledger locks (2026-05-09)"}),
    "[consumed: session (2026-04-09 10:00)]": (("delve",), {"consumed": "session (2026-04-09 10:00)"}),
    "[prior-work]": (("delve", "prior-work"), {}),
}
PLACES = {
    "first": "{mark} [delve] Forks of [x] a ledger (2026-05-07) again",
    "behind the tags": "[delve] {mark} Forks of [x] a ledger (2026-05-07) again",
    "before the date": "[delve] Forks of [x] a ledger {mark} (2026-05-07) again",
    "right before the date": "[delve] Forks of [x] a ledger {mark}(2026-05-07) again",
    "right behind the date": "[delve] Forks of [x] a ledger (2026-05-07) {mark} again",
    "last": "[delve] Forks of [x] a ledger (2026-05-07) again {mark}",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mark", MARKS)
def test_marks_are_found_wherever_tools_put_them(mark: str, place: str) -> None:
    """A mark anywhere in the heading is read, and title, date and suffix are those of the heading without it."""
    tags, notes = MARKS[mark]
    heading = parse_heading(PLACES[place].format(mark=mark))
    assert set(heading.tags) == set(tags)
    assert (dict(heading.annotations), heading.title, heading.suffix) == (notes, "Forks of [x] a ledger", "again")
    assert heading.date is not None
    assert heading.date.isoformat() == "2026-05-07"
    assert heading.has(mark.strip("[]").partition(":")[0].casefold())


@pytest.mark.parametrize(
    "line",
    [
        "[1.2.3](https://example.org/1.2.3) (2024-01-01)",
        "[1.2.3][unreleased-link] (2024-01-01)",
        "[dream](https://example.org) (2024-01-01)",
        "[] nothing (2024-01-01)",
        "[ ] to do (2024-01-01)",
        "[open (2024-01-01)",
        "no tag (2024-01-01)",
        "",
    ],
)
def test_links_and_empty_brackets_are_no_tags(line: str) -> None:
    """Without a leading tag the heading begins no entry."""
    read = parse(f"### {line}\ntext\n".encode())
    assert read.entries == ()
    assert [w.message for w in read.warnings] == ["the heading has no [tag], so it is kept as prose"]


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ("[dream]", "dream"), ("[Dream]", "dream"), ("[DELVE]", "delve"), ("[daydream]", "daydream"), ("[swarm-docs]", "swarm-docs"),
        ("[expired] [dream]", "dream"), ("[ext-signal] [delve]", "delve"), ("[research] [dream]", "research"),
        ("[muse]", "muse"), ("[Muse] [other]", "muse"), ("[ext-signal]", "ext-signal"), ("[DEAD: x] [delve]", "delve"), ("[DEAD: x]", ""),
    ],
)  # fmt: skip
def test_the_kind_is_the_first_known_type_tag(tags: str, kind: str) -> None:
    """Else it is the first tag; always in lower case."""
    (entry,) = parse(f"### {tags} Title (2026-01-02)\n".encode()).entries
    assert entry.kind == kind


def test_closing_hashes_are_no_part_of_the_heading() -> None:
    """`### … ###` has the same title and id as without; `C#` keeps its own."""
    closed, plain, sharp = parse(b"### [dream] T (2026-01-02) ###\n### [dream] T (2026-01-02)\n### [dream] C#\n").entries
    assert (closed.title, closed.content_id) == (plain.title, plain.content_id)
    assert sharp.title == "C#"


@given(st.text())
def test_any_text_can_be_read_as_a_heading(line: str) -> None:
    """Nothing raises, and a date that is read stands in the stamp."""
    heading = parse_heading(line)
    assert (heading.date is None) <= (heading.problem is not None)
    assert heading.stamp in line


@given(st.from_regex(r"\(\d{4}-\d{1,2}-\d{1,2}([ T]+\d{1,2}:\d{1,2}(:\d{1,2})?(\.\d+)?(Z|[+-]\d\d:?\d\d)?)?\)", fullmatch=True))
def test_any_stamp_can_be_read(stamp: str) -> None:
    """Digits that are no date or time raise nothing, in any script."""
    heading = parse_heading(f"[dream] Title {stamp}")
    assert (heading.title, heading.stamp) == ("Title", stamp)
    assert (heading.date is None) <= (heading.problem is not None)


@given(st.text(alphabet="[]()ab: -2026"))
def test_any_brackets_can_be_read_as_a_heading(line: str) -> None:
    """Brackets in any disorder raise nothing, and no word character is lost between the parts."""
    heading = parse_heading(line)
    parts = [*heading.tags, *(n + v for n, v in heading.annotations), heading.title, heading.stamp, heading.suffix]
    letters = "ab026"
    assert sorted(c for c in "".join(parts) if c in letters) == sorted(c for c in line if c in letters)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("line", ["[" * 20_000, "[a: " * 20_000, "[a][" * 20_000, "(2026-01-01" * 20_000, "[[]" * 20_000])
def test_no_heading_takes_more_than_linear_time(line: str) -> None:
    """Long rows of brackets and dates are read at once."""
    assert parse_heading(line).date is None


@given(st.binary())
def test_decoding_loses_no_byte(data: bytes) -> None:
    """`decode` reverses, `readable` encodes, and `is_utf8` tells whether they differ."""
    text = decode(data)
    assert text.encode("utf-8", "surrogateescape") == data
    assert readable(text).encode() is not None
    assert is_utf8(data) == (readable(text) == text)
