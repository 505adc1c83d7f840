"""Bytes of a spark log into prose and entries, without losing one: the joined spans are the file."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from models.entry import Entry, Warned
from models.heading import heading_text, parse_heading
from models.markdown import Block, Lines, blocks
from models.text import BOM, decode, readable

BATCH_HEADING = re.compile(
    rb"^## Archived (\d{4}-\d{2}-\d{2}) \xe2\x80\x94 (\d+) entries \(date range: (\S+) to (\S+)\)[ \t]*\r?$", re.MULTILINE
)
_ANY_BATCH = re.compile(rb"## Archived (\d{4}-\d{2}-\d{2})")
# The common form of an entry's heading: a tag that is neither a link nor the first of two touching brackets.
_TAGGED = re.compile(rb"### +\[[\w-]+\](?![(\[])")


@dataclass(frozen=True, slots=True)
class Prose:
    """Everything that is not an entry; `start` is its byte offset."""

    raw: bytes = field(repr=False)
    start: int

    @property
    def size(self) -> int:
        """Bytes of the span."""
        return len(self.raw)

    @property
    def newlines(self) -> int:
        """Line feeds in the span."""
        return self.raw.count(b"\n")


@dataclass(frozen=True)
class Log:
    """A parsed file: its spans in order, and what looked wrong."""

    spans: tuple[Prose | Entry, ...]
    layout_warnings: tuple[Warned, ...] = ()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, in file order."""
        return tuple(s for s in self.spans if isinstance(s, Entry))

    @cached_property
    def size(self) -> int:
        """Bytes of the file."""
        return sum(s.size for s in self.spans)

    @cached_property
    def newlines(self) -> int:
        """Line feeds in the file."""
        return sum(s.newlines for s in self.spans)

    @property
    def warnings(self) -> list[Warned]:
        """Everything that looks wrong in the file, by line."""
        found = [*self.layout_warnings, *(w for e in self.entries for w in e.warnings)]
        return sorted(found, key=lambda w: w.line)

    def render(self) -> bytes:
        """The file again, byte for byte."""
        return b"".join(s.raw for s in self.spans)


def parse(data: bytes, *, archive: bool = False) -> Log:
    """Reads a whole file; total: any bytes give a Log, and `parse(data).render() == data`.

    In an *archive*, a code fence that one entry leaves open ends at the next batch heading, so that a later batch
    cannot be drawn into it.
    """
    reader = _Reader(data)
    for block in blocks(data, BATCH_HEADING if archive else None):
        reader.take(block)
    return reader.finish()


class _Reader:
    """Cuts the file at its headings, in one pass."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.spans: list[Prose | Entry] = []
        self.warnings: list[Warned] = []
        self.own: list[Warned] = []
        self.lines = Lines(data)
        self.at = 0
        self.in_entry = False  # whether an entry begins at `at`
        self.batch: dt.date | None = None

    def take(self, block: Block) -> None:
        """Handles one heading or hidden range."""
        if block.level == 0:
            self._hidden(block)
        elif block.level <= 3 and block.closed:
            self._heading(block)
        elif block.level == 3:
            self._warn(
                block.start,
                "this line looks like an entry's heading but is none: it takes `###` at the line's start and a plain space",
            )

    def finish(self) -> Log:
        """Closes the last span."""
        self._cut(len(self.data))
        return Log(tuple(self.spans), tuple(self.warnings))

    def _heading(self, block: Block) -> None:
        start = block.start or (len(BOM) if self.data.startswith(BOM) else 0)
        self._cut(start)
        if block.level == 3 and (_TAGGED.match(self.data, start) or _begins_entry(self.data[start : block.end])):
            self.in_entry = True
            if not block.plain_space:
                self._warn(start, "the space after ### is not a plain one; the line is read as a heading all the same")
        elif block.level == 3:
            self._warn(start, "the heading has no [tag], so it is kept as prose")
        elif m := _ANY_BATCH.match(self.data, start):
            self.batch = _date(m[1].decode())

    def _hidden(self, block: Block) -> None:
        inside = self.data[block.start : block.end]
        what = "comment" if inside.lstrip(b" ").startswith((b"<!--", BOM + b"<!--")) else "code fence"
        if not block.closed:
            self._warn(block.start, f"this {what} is never closed; entries after it are read as usual")
        elif self.in_entry:
            for m in re.finditer(rb"\n### \[", inside):
                line = self.lines.at(block.start)
                self._warn(block.start + m.end(), f"this heading lies in the {what} of line {line}, so it is no entry of its own")

    def _cut(self, end: int) -> None:
        """Ends the current span at byte *end*."""
        if end == self.at and not self.in_entry:
            return
        raw = self.data[self.at : end]
        if self.in_entry:
            tail = _trailing_blank(raw)
            self.spans.append(Entry(raw[:tail], raw[tail:], self.at, self.lines, self.batch, tuple(self.own)))
        else:
            self.spans.append(Prose(raw, self.at))
        self.in_entry, self.own, self.at = False, [], end

    def _warn(self, at: int, message: str) -> None:
        (self.own if self.in_entry else self.warnings).append(Warned(self.lines.at(at), message))


def _trailing_blank(raw: bytes) -> int:
    """Where the entry's last line that is not blank ends."""
    newline = raw.find(b"\n", len(raw.rstrip(b" \t\r\n")))
    end = len(raw) if newline < 0 else newline
    return end - 1 if raw[end - 1 : end] == b"\r" else end


def _begins_entry(line: bytes) -> bool:
    """Whether a level-3 heading begins with a tag or annotation."""
    text = heading_text(line)
    if not text.startswith("["):
        return False
    heading = parse_heading(text)
    return bool(heading.tags or heading.annotations)


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def batches(data: bytes) -> Iterator[tuple[int, str]]:
    """(byte offset, heading text) of every batch in an archive, in order."""
    for block in blocks(data, BATCH_HEADING):
        if block.level == 2 and (m := BATCH_HEADING.match(data, block.start)):
            yield m.start(), readable(decode(m[0]).strip())
