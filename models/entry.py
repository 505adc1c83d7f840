"""One entry of a spark log: its bytes, and what can be read from them."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property

from models.markdown import fenced_ranges

TYPE_TAGS = frozenset({"dream", "daydream", "delve", "research"})
VERDICTS = ("absorb", "park", "release")
SIGNALS = ("resonant", "faint", "noise")
# Marks that the ecosystem's tools add to a heading after the fact, without a colon.
STATUS_MARKS = frozenset({"expired", "consumed", "dead", "noise", "prior-work"})

_NAME = re.compile(r"[A-Za-z][\w-]*")
_FIRST_MARK = re.compile(r"\[([\w-]+)\](?![(\[])\s*")
_LAST_MARK = re.compile(r"\[([\w-]+)\]$")
_DATE = re.compile(r"\((\d{4})-(\d{1,2})-(\d{1,2})(?:[ T]+(\d{1,2}):(\d{1,2})(?::\d{1,2})?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\)")
_FIELD = re.compile(r"^(?:[-*+][ \t]+)?\*\*([^*\n:]{1,60}?)[ \t]*(?::\*\*|\*\*[ \t]*:)[ \t]*", re.MULTILINE)
_VERDICT = re.compile(rf"({'|'.join(VERDICTS)})[ \t]*(?:(?:-{{2,3}}|[—–])\s*(.*))?", re.IGNORECASE | re.DOTALL)  # noqa: RUF001 - dashes people type
_MENTION = re.compile(r"(?:^[\s>*_+-]*|\*\*)verdict\b", re.MULTILINE | re.IGNORECASE)
_BLANKS = " \t\r\n"  # an odd space is kept: a word that matches only without it is no verdict
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that looks wrong, and where (line numbers count from 1)."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Heading:
    """The parts of an entry's first line."""

    tags: tuple[str, ...]
    annotations: tuple[tuple[str, str], ...]
    title: str
    date: dt.date | None
    time: str | None
    stamp: str
    suffix: str
    problem: str | None

    def has(self, mark: str) -> bool:
        """Whether a tag or annotation of this name (any case) stands in the heading."""
        return any(t.casefold() == mark for t in self.tags) or any(n.casefold() == mark for n, _ in self.annotations)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A delve's examined outcome."""

    word: str
    reason: str


def decode(data: bytes) -> str:
    """Text that encodes back to exactly *data*, whatever the bytes."""
    return data.decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """*text* with undecodable bytes shown as U+FFFD, fit for JSON."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def is_utf8(data: bytes) -> bool:
    """Whether *data* is valid UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parse_heading(line: str) -> Heading:
    """Reads `[tag]… title (date) suffix`; never raises, whatever the text.

    `[name: value]` is an annotation wherever it stands; a bare status mark counts in front, and around the date.
    """
    tags: list[str] = []
    notes: list[tuple[str, str]] = []
    text = line.strip()
    groups = bracket_groups(text)
    at = 0
    while groups and not text[at : groups[0][0]].strip() and _is_tag(text, groups[0]):
        start, at = groups.pop(0)
        _file_group(text[start + 1 : at - 1].strip(), tags, notes)
    rest = _without_annotations(text, at, groups, notes)
    dates = list(_DATE.finditer(rest))
    before, after = (rest[: dates[-1].start()], rest[dates[-1].end() :]) if dates else (rest, "")
    title, suffix = _strip_marks(before, tags, lead=False), _strip_marks(after, tags, lead=True)
    date, time, problem = _read_stamp(dates[-1]) if dates else (None, None, "the heading has no (YYYY-MM-DD) date")
    return Heading(tuple(tags), tuple(notes), title, date, time, dates[-1][0] if dates else "", suffix, problem)


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
    while lead and (m := _FIRST_MARK.match(text)) and m[1].casefold() in STATUS_MARKS:
        tags.append(m[1])
        text = text[m.end() :]
    while (m := _LAST_MARK.search(text)) and m[1].casefold() in STATUS_MARKS:
        tags.append(m[1])
        text = text[: m.start()].rstrip()
    return " ".join(text.split())


def _read_stamp(m: re.Match[str]) -> tuple[dt.date | None, str | None, str | None]:
    try:
        date = dt.date(int(m[1]), int(m[2]), int(m[3]))
    except ValueError:
        return None, None, f"{m[0]} is no date of the calendar"
    if m[4] is None:
        return date, None, None
    try:
        return date, dt.time(int(m[4]), int(m[5])).strftime("%H:%M"), None
    except ValueError:
        return date, None, f"{m[4]}:{m[5]} is no time of day"


@dataclass(frozen=True)
class Entry:
    """An entry as it stands in a file.

    `text` runs from the heading to the last line that is not blank, without that line's end; `gap` is what
    follows it up to the next block. `start` is the byte offset of `text` in the file, `line` its first line (from 1),
    `batch_date` the date of the archive batch it lies in, if any.
    """

    text: bytes = field(repr=False)
    gap: bytes = field(repr=False)
    start: int
    line: int
    heading: Heading
    batch_date: dt.date | None = None
    layout_warnings: tuple[Warned, ...] = ()

    @property
    def raw(self) -> bytes:
        """Every byte of the entry's span."""
        return self.text + self.gap

    @property
    def end(self) -> int:
        """Byte offset behind the last byte of `text`."""
        return self.start + len(self.text)

    @cached_property
    def line_end(self) -> int:
        """The line on which `text` ends."""
        return self.line + self.text.count(b"\n")

    @property
    def title(self) -> str:
        """The heading without tags, annotations and date."""
        return readable(self.heading.title)

    @property
    def date(self) -> dt.date | None:
        """The calendar day in the heading, as written."""
        return self.heading.date

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags as written, in order."""
        return tuple(readable(t) for t in self.heading.tags)

    @property
    def kind(self) -> str:
        """The first known type tag, else the first tag, in lower case."""
        tags = [t.casefold() for t in self.heading.tags]
        known = (t for t in tags if t in TYPE_TAGS or t.startswith("swarm-"))
        return readable(next(known, tags[0] if tags else ""))

    @cached_property
    def body(self) -> bytes:
        """`text` behind the heading's line."""
        return self.text.partition(b"\n")[2]

    @cached_property
    def content_id(self) -> str:
        """16 hex digits from title, date and body alone, so that moves and re-tagging keep it."""
        h = self.heading
        parts = (h.title, h.stamp, h.suffix)
        head = b"\0".join(p.encode("utf-8", "surrogateescape") for p in parts)
        return hashlib.sha256(head + b"\0" + self.body).hexdigest()[:16]

    @cached_property
    def version(self) -> str:
        """sha256 of all the entry's bytes, in hex."""
        return hashlib.sha256(self.text).hexdigest()

    @cached_property
    def field_spans(self) -> tuple[tuple[str, int, int, int], ...]:
        """(name, label start, value start, value end) of every field, as character offsets in the decoded text."""
        text = decode(self.text)
        fences = fenced_ranges(text)
        first = text.find("\n") + 1 or len(text)
        found = [m for m in _FIELD.finditer(text, first) if not any(a <= m.start() < b for a, b in fences)]
        ends = [*(m.start() for m in found[1:]), len(text)]
        return tuple((m[1].strip(), m.start(), m.end(), end) for m, end in zip(found, ends, strict=False))

    @cached_property
    def fields(self) -> dict[str, str]:
        """Field values by name as first written; a repeated field's values are joined by line breaks."""
        text = decode(self.text)
        out: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, _, start, end in self.field_spans:
            value = readable(text[start:end].replace("\r\n", "\n").strip(_BLANKS))
            key = names.setdefault(name.casefold(), readable(name))
            out[key] = f"{out[key]}\n{value}" if key in out else value
        return out

    def values(self, name: str) -> list[str]:
        """Every value of the field *name* (any case), in order."""
        text = decode(self.text)
        return [text[s:e].replace("\r\n", "\n").strip(_BLANKS) for n, _, s, e in self.field_spans if n.casefold() == name]

    @cached_property
    def verdict(self) -> Verdict | None:
        """A delve's verdict: the last one written, since a log only grows; None unless its form is exact."""
        if self.kind != "delve":
            return None
        for value in reversed(self.values("verdict")):
            if m := _VERDICT.fullmatch(value):
                return Verdict(m[1].casefold(), readable((m[2] or "").strip()))
            return None
        return None

    @cached_property
    def signal(self) -> str | None:
        """The signal's strength in lower case, or the field's own words when it is none of the known ones."""
        values = self.values("signal")
        if not values or not values[-1]:
            return None
        word = _WORD.match(values[-1])
        known = word and word[0].casefold() in SIGNALS
        return word[0].casefold() if word and known else readable(values[-1].casefold())

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """What looks wrong in this entry."""
        out = list(self.layout_warnings)
        if self.heading.problem:
            undated = "; the entry is never archived for its age" if self.date is None else ""
            out.append(Warned(self.line, self.heading.problem + undated))
        if (mention := self._unread_verdict()) is not None:
            out.append(Warned(mention, "this line speaks of a verdict but is no `**Verdict:**` field, so it does not count"))
        verdicts = self.values("verdict") if self.kind == "delve" else []
        if verdicts and self.verdict is None:
            out.append(Warned(self._line_of("verdict"), f"the verdict {readable(verdicts[-1])!r} is not absorb, park or release"))
        elif len({v.split()[0].casefold() for v in verdicts if v}) > 1:
            out.append(Warned(self._line_of("verdict"), "the entry has several verdicts; the last one counts"))
        if not is_utf8(self.text):
            out.append(Warned(self.line, "the entry has bytes that are not UTF-8; they are kept as they are"))
        return tuple(out)

    def _unread_verdict(self) -> int | None:
        """The line of something like a verdict in a delve that has none."""
        if self.kind != "delve" or self.values("verdict"):
            return None
        text = decode(self.text)
        fences = fenced_ranges(text)
        found = _MENTION.finditer(text, text.find("\n") + 1 or len(text))
        outside = (m for m in found if not any(a <= m.start() < b for a, b in fences))
        mention = next(outside, None)
        return None if mention is None else self.line + text[: mention.end()].count("\n")

    def _line_of(self, name: str) -> int:
        starts = [label for n, label, _, _ in self.field_spans if n.casefold() == name]
        return self.line + decode(self.text)[: starts[-1]].count("\n")
