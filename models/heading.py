"""The first line of an entry: its tags, annotations, title and date."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from models.text import BOM, decode

TYPE_TAGS = frozenset({"dream", "daydream", "delve", "research"})
# Marks that the ecosystem's tools add to a heading after the fact, without a colon.
STATUS_MARKS = frozenset({"expired", "consumed", "dead", "noise", "prior-work"})

_NAME = re.compile(r"[A-Za-z][\w-]*")
_FIRST_MARK = re.compile(r"\[([\w-]+)\](?![(\[])\s*")
_STAMP = r"(\((\d{4})-(\d{1,2})-(\d{1,2})(?:[ T]+(\d{1,2}):(\d{1,2})(?::\d{1,2})?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\))"
_DATE = re.compile(_STAMP)
# The common form: tags that are no links, a title without brackets, a stamp. Possessive, so that no oddity takes quadratic time.
_PLAIN_HEADING = re.compile(r"((?:\[[\w-]++\](?![(\[])\s*+)++)([^\[\]]*)" + _STAMP)
_PLAIN_TAG = re.compile(r"[\w-]+")


class Heading(NamedTuple):
    """The parts of an entry's first line."""

    tags: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...]
    title: str
    date: dt.date | None
    time: str | None
    stamp: str
    suffix: str
    problem: str | None
    marks: frozenset[str]  # tags and names of annotations, casefolded

    def has(self, mark: str) -> bool:
        """Whether a tag or annotation of this name (any case) stands in the heading."""
        return mark in self.marks


def heading_text(line: bytes) -> str:
    """The text of a level-3 heading's line behind its hashes, without odd spaces around it or closing hashes."""
    text = decode(line.removeprefix(BOM).lstrip(b" ")[3:]).strip().strip("\u200b\ufeff\u2060").strip()
    return re.sub(r"[ \t]+#+$", "", text) if text.endswith("#") else text


def parse_heading(line: str) -> Heading:
    """Reads `[tag]… title (date) suffix`; never raises, whatever the text.

    `[name: value]` is an annotation wherever it stands; a bare status mark counts in front, and around the date.
    """
    text = line.strip()
    if m := _PLAIN_HEADING.fullmatch(text):
        tags, title, *stamp = m.groups()
        return _heading(_PLAIN_TAG.findall(tags), [], " ".join(title.split()), stamp, "")
    return _marked_heading(text)


def _marked_heading(text: str) -> Heading:
    """Any heading, with annotations and status marks wherever they stand."""
    tags, notes, rest = _marked(text)
    dates = list(_DATE.finditer(rest))
    before, after = (rest[: dates[-1].start()], rest[dates[-1].end() :]) if dates else (rest, "")
    title, suffix = _strip_marks(before, tags, lead=False), _strip_marks(after, tags, lead=True)
    return _heading(tags, notes, title, dates[-1].groups() if dates else None, suffix)


def _heading(tags: list[str], notes: list[tuple[str, str]], title: str, stamp: Sequence[str | Any] | None, suffix: str) -> Heading:
    """*stamp* is what _STAMP captured."""
    date, time, problem = _read_stamp(stamp) if stamp else (None, None, "the heading has no (YYYY-MM-DD) date")
    marks = frozenset(map(str.casefold, [*tags, *(name for name, _ in notes)] if notes else tags))
    return Heading(tuple(tags), tuple(notes), title, date, time, stamp[0] if stamp else "", suffix, problem, marks)


def _marked(text: str) -> tuple[list[str], list[tuple[str, str]], str]:
    """Tags, annotations and the rest of a heading's text."""
    tags: list[str] = []
    notes: list[tuple[str, str]] = []
    groups = bracket_groups(text)
    leading = at = 0
    while leading < len(groups) and not text[at : groups[leading][0]].strip() and _is_tag(text, groups[leading]):
        start, at = groups[leading]
        leading += 1
        _file_group(text[start + 1 : at - 1].strip(), tags, notes)
    return tags, notes, _without_annotations(text, at, groups[leading:], notes)


def bracket_groups(text: str) -> list[tuple[int, int]]:
    """(start, end) of the outermost pairs of square brackets, in order; one without a partner is plain text."""
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for m in re.finditer(r"[\[\]]", text):
        if m[0] == "[":
            opened.append(m.start())
        elif opened:
            pairs.append((opened.pop(), m.end()))
    outermost: list[tuple[int, int]] = []
    for start, end in sorted(pairs):
        if not outermost or start >= outermost[-1][1]:
            outermost.append((start, end))
    return outermost


def _is_tag(text: str, group: tuple[int, int]) -> bool:
    """Whether a bracket group is a tag or annotation: not empty, and not the text of a Markdown link."""
    start, end = group
    inner = text[start + 1 : end - 1].strip().casefold()
    known = inner in TYPE_TAGS or inner in STATUS_MARKS or inner.startswith("swarm-") or inner == "ext-signal"
    return bool(inner) and not _is_link(text, end) and (text[end : end + 1] != "[" or known or ":" in inner)


def _is_link(text: str, end: int) -> bool:
    """Whether the brackets that end at *end* belong to `[text](target)`; a date behind them is no target."""
    return text[end : end + 1] == "(" and not _DATE.match(text, end)


def _file_group(text: str, tags: list[str], notes: list[tuple[str, str]]) -> None:
    name, colon, value = text.partition(":")
    if colon and name.strip():
        notes.append((name.strip(), value.strip()))
    else:
        tags.append(text)


def _without_annotations(text: str, at: int, groups: list[tuple[int, int]], notes: list[tuple[str, str]]) -> str:
    """*text* from *at* on, less its `[name: value]` groups, which are noted."""
    kept: list[str] = []
    for start, end in groups:
        name, colon, value = text[start + 1 : end - 1].partition(":")
        if colon and _NAME.fullmatch(name.strip()) and not _is_link(text, end):
            notes.append((name.strip(), value.strip()))
            kept.append(text[at:start])
            at = end
    return " ".join([*kept, text[at:]])


def _strip_marks(text: str, tags: list[str], *, lead: bool) -> str:
    """Takes bare status marks off the text's end, and with *lead* off its beginning, and folds its spaces."""
    text = text.strip()
    at, end = 0, len(text)
    while lead and (m := _FIRST_MARK.match(text, at)) and m[1].casefold() in STATUS_MARKS:
        tags.append(m[1])
        at = m.end()
    while text.endswith("]", at, end) and (opened := text.rfind("[", at, end)) >= 0:
        mark = text[opened + 1 : end - 1]
        if mark.casefold() not in STATUS_MARKS:
            break
        tags.append(mark)
        end = opened
        while end > at and text[end - 1].isspace():
            end -= 1
    return " ".join(text[at:end].split())


def _read_stamp(captured: Sequence[str | Any]) -> tuple[dt.date | None, str | None, str | None]:
    stamp, year, month, day, hour, minute = captured
    try:
        date = dt.date(int(year), int(month), int(day))
    except ValueError:
        return None, None, f"{stamp} is no date of the calendar"
    if hour is None:
        return date, None, None
    try:
        return date, dt.time(int(hour), int(minute)).isoformat("minutes"), None
    except ValueError:
        return date, None, f"{hour}:{minute} is no time of day"
