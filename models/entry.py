"""One entry of a spark log: its bytes, and what can be read from them."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from models.heading import TYPE_TAGS, Heading, heading_text, parse_heading
from models.markdown import Lines, fenced_ranges, may_hide
from models.text import decode, is_utf8, readable

VERDICTS = ("absorb", "park", "release")
SIGNALS = ("resonant", "faint", "noise")

# A line feed in front, not `^`, lets `re` hop from line to line.
_FIELD = re.compile(r"\n(?:[-*+][ \t]+)?\*\*([^*\n:]{1,60}?)[ \t]*(?::\*\*|\*\*[ \t]*:)[ \t]*")
_VERDICT_LABEL = re.compile(rb"\n(?:[-*+][ \t]+)?\*\*[^*\n:]*verdict", re.IGNORECASE)
_VERDICT = re.compile(rf"({'|'.join(VERDICTS)})[ \t]*(?:(?:-{{2,3}}|[—–])\s*(.*))?", re.IGNORECASE | re.DOTALL)  # noqa: RUF001 - dashes people type
# Blanks that no verdict follows are matched too, with no group: left alone, they would be tried again from each of their lines.
_MENTION = re.compile(r"^[\s>*_+-]*+(verdict\b)?|\*\*(verdict\b)", re.MULTILINE | re.IGNORECASE)
_BLANKS = " \t\r\n"  # an odd space is kept: a word that matches only without it is no verdict
_WORD = re.compile(r"[^\W\d_]+")


FieldSpan = tuple[str, int, int, int]
"""Name, and as character offsets in the decoded text: label start, value start, value end."""


@dataclass(frozen=True, slots=True)
class Warned:
    """Something that looks wrong, and where (line numbers count from 1)."""

    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A delve's examined outcome."""

    word: str
    reason: str


def _field_spans(text: str, fences: list[tuple[int, int]]) -> tuple[FieldSpan, ...]:
    """The fields below the first line of *text*, outside its *fences*."""
    found = [m for m in _FIELD.finditer(text) if not _lies_in(fences, m.start() + 1)]
    ends = [*(m.start() + 1 for m in found[1:]), len(text)]
    return tuple((m[1].strip(), m.start() + 1, m.end(), end) for m, end in zip(found, ends, strict=False))


def _values(text: str, spans: tuple[FieldSpan, ...], name: str) -> list[str]:
    return [text[s:e].replace("\r\n", "\n").strip(_BLANKS) for n, _, s, e in spans if n.casefold() == name]


def _lies_in(ranges: list[tuple[int, int]], at: int) -> bool:
    """Whether *at* lies in one of the *ranges*, which stand in order."""
    before = bisect_right(ranges, at, key=itemgetter(0))
    return before > 0 and at < ranges[before - 1][1]


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry as it stands in a file, equal to itself alone: to compare or hash all its bytes would take long.

    `text` runs from the heading to the last line that is not blank, without that line's end; `gap` is what
    follows it up to the next block. `start` is the byte offset of `text` in the file whose line numbers `lines` knows,
    `batch_date` the date of the archive batch it lies in, if any.
    """

    text: bytes = field(repr=False)
    gap: bytes = field(repr=False)
    start: int
    lines: Lines = field(repr=False)
    batch_date: dt.date | None = None
    layout_warnings: tuple[Warned, ...] = ()

    @property
    def raw(self) -> bytes:
        """Every byte of the entry's span."""
        return self.text + self.gap

    @property
    def size(self) -> int:
        """Bytes of the entry's span."""
        return len(self.text) + len(self.gap)

    @property
    def newlines(self) -> int:
        """Line feeds in the entry's span."""
        return self.text.count(b"\n") + self.gap.count(b"\n")

    @cached_property
    def heading(self) -> Heading:
        """The parts of the first line."""
        return parse_heading(heading_text(self.text.partition(b"\n")[0]))

    @property
    def end(self) -> int:
        """Byte offset behind the last byte of `text`."""
        return self.start + len(self.text)

    @cached_property
    def line(self) -> int:
        """The line on which `text` begins, from 1."""
        return self.lines.at(self.start)

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

    @cached_property
    def kind(self) -> str:
        """The first known type tag, else the first tag, in lower case."""
        tags = [t.casefold() for t in self.heading.tags]
        known = (t for t in tags if t in TYPE_TAGS or t.startswith("swarm-"))
        return readable(next(known, tags[0] if tags else ""))

    @property
    def body(self) -> bytes:
        """`text` behind the heading's line."""
        return self.text.partition(b"\n")[2]

    @cached_property
    def content_id(self) -> str:
        """16 hex digits from title, date and body alone, so that moves and re-tagging keep it."""
        h = self.heading
        head = f"{h.title}\0{h.stamp}\0{h.suffix}".encode("utf-8", "surrogateescape")
        return hashlib.sha256(head + b"\0" + self.body).hexdigest()[:16]

    @cached_property
    def version(self) -> str:
        """sha256 of all the entry's bytes, in hex."""
        return hashlib.sha256(self.text).hexdigest()

    @cached_property
    def field_spans(self) -> tuple[FieldSpan, ...]:
        """(name, label start, value start, value end) of every field, as character offsets in the decoded text."""
        text = decode(self.text)
        return _field_spans(text, self._fences(text))

    def _fences(self, text: str) -> list[tuple[int, int]]:
        """`fenced_ranges` of the entry, given its decoded text."""
        return fenced_ranges(text) if may_hide(self.text) else []

    @cached_property
    def fields(self) -> dict[str, str]:
        """Field values by name as first written; a repeated field's values are joined by line breaks."""
        text = decode(self.text)
        out: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for name, _, start, end in self.field_spans:
            key = names.setdefault(name.casefold(), readable(name))
            out.setdefault(key, []).append(readable(text[start:end].replace("\r\n", "\n").strip(_BLANKS)))
        return {key: "\n".join(values) for key, values in out.items()}

    def values(self, name: str) -> list[str]:
        """Every value of the field *name* (any case), in order."""
        return _values(decode(self.text), self.field_spans, name)

    @cached_property
    def verdict(self) -> Verdict | None:
        """A delve's verdict: the last one written, since a log only grows; None unless its form is exact."""
        if self.kind != "delve":
            return None
        m = _VERDICT.fullmatch(self._verdicts[-1]) if self._verdicts else None
        return Verdict(m[1].casefold(), readable((m[2] or "").strip())) if m else None

    @cached_property
    def _verdicts(self) -> list[str]:
        """`values("verdict")`. Compaction asks it of every delve, so no more is decoded than what lies behind the first label."""
        if may_hide(self.text):
            return self.values("verdict")
        label = _VERDICT_LABEL.search(self.text)
        text = decode(self.text[label.start() :]) if label else ""
        return _values(text, _field_spans(text, []), "verdict")

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
        verdicts = self._verdicts if self.kind == "delve" else []
        if verdicts and self.verdict is None:
            out.append(Warned(self._line_of("verdict"), f"the verdict {readable(verdicts[-1])!r} is not absorb, park or release"))
        elif len({v.split()[0].casefold() for v in verdicts if v.strip()}) > 1:
            out.append(Warned(self._line_of("verdict"), "the entry has several verdicts; the last one counts"))
        if not is_utf8(self.text):
            out.append(Warned(self.line, "the entry has bytes that are not UTF-8; they are kept as they are"))
        return tuple(out)

    def _unread_verdict(self) -> int | None:
        """The line of something like a verdict in a delve that has none."""
        if self.kind != "delve" or self._verdicts:
            return None
        text = decode(self.text)
        fences = self._fences(text)
        found = (m for m in _MENTION.finditer(text, text.find("\n") + 1 or len(text)) if m.lastindex)
        mention = next((m for m in found if not _lies_in(fences, m.start())), None)
        return None if mention is None else self.line + text[: mention.end()].count("\n")

    def _line_of(self, name: str) -> int:
        starts = [label for n, label, _, _ in self.field_spans if n.casefold() == name]
        return self.line + decode(self.text)[: starts[-1]].count("\n")
