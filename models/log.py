"""Bytes of a spark log into prose and entries, without losing one: the joined spans are the file."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from models.entry import Entry, Heading, Warned, decode, parse_heading, readable
from models.markdown import Block, blocks

BATCH_HEADING = re.compile(
    rb"^## Archived (\d{4}-\d{2}-\d{2}) \xe2\x80\x94 (\d+) entries \(date range: (\S+) to (\S+)\)[ \t]*\r?$", re.MULTILINE
)
_ANY_BATCH = re.compile(rb"## Archived (\d{4}-\d{2}-\d{2})")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Prose:
    """Everything that is not an entry; `start` is its byte offset."""

    raw: bytes = field(repr=False)
    start: int


@dataclass(frozen=True)
class Log:
    """A parsed file: its spans in order, and what looked wrong."""

    spans: tuple[Prose | Entry, ...]
    layout_warnings: tuple[Warned, ...] = ()

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, in file order."""
        return tuple(s for s in self.spans if isinstance(s, Entry))

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
        self.open: tuple[int, int, Heading] | None = None  # start, line and heading of the entry being read
        self.at = self.line_at = 0
        self.line = 1
        self.batch: dt.date | None = None

    def take(self, block: Block) -> None:
        """Handles one heading or hidden range."""
        if block.level == 0:
            self._hidden(block)
        elif block.level <= 3 and block.closed:
            self._heading(block)
        elif block.level == 3:
            self._warn(
                self._line_of(block.start),
                "this line looks like an entry's heading but is none: it takes `###` at the line's start and a plain space",
            )

    def finish(self) -> Log:
        """Closes the last span."""
        self._cut(len(self.data))
        return Log(tuple(self.spans), tuple(self.warnings))

    def _heading(self, block: Block) -> None:
        start = block.start + (len(_BOM) if block.start == 0 and self.data.startswith(_BOM) else 0)
        text = self.data[start : block.end].removeprefix(_BOM).lstrip(b" ")[block.level :]
        self._cut(start)
        heading = _entry_heading(text) if block.level == 3 else None
        if heading is not None:
            line = self._line_of(start)
            self.open = (start, line, heading)
            if not block.plain_space:
                self._warn(line, "the space after ### is not a plain one; the line is read as a heading all the same")
        elif block.level == 3:
            self._warn(self._line_of(start), "the heading has no [tag], so it is kept as prose")
        elif m := _ANY_BATCH.match(self.data, start):
            self.batch = _date(m[1].decode())

    def _hidden(self, block: Block) -> None:
        line = self._line_of(block.start)
        what = "comment" if self.data[block.start : block.end].lstrip(b" ").startswith((b"<!--", _BOM + b"<!--")) else "code fence"
        if not block.closed:
            self._warn(line, f"this {what} is never closed; entries after it are read as usual")
            return
        inside = self.data[block.start : block.end]
        for offset, text in enumerate(inside.split(b"\n")):
            if text.startswith(b"### [") and self.open is not None:
                self._warn(line + offset, f"this heading lies in the {what} of line {line}, so it is no entry of its own")

    def _cut(self, end: int) -> None:
        """Ends the current span at byte *end*."""
        if end == self.at and self.open is None:
            return
        raw = self.data[self.at : end]
        if self.open is None:
            self.spans.append(Prose(raw, self.at))
        else:
            start, line, heading = self.open
            tail = _trailing_blank(raw)
            entry = Entry(raw[:tail], raw[tail:], start, line, heading, self.batch, tuple(self.own))
            self.spans.append(entry)
        self.open, self.own, self.at = None, [], end

    def _warn(self, line: int, message: str) -> None:
        (self.own if self.open else self.warnings).append(Warned(line, message))

    def _line_of(self, offset: int) -> int:
        """The line of byte *offset*; offsets must not go backwards."""
        self.line += self.data.count(b"\n", self.line_at, offset)
        self.line_at = max(self.line_at, offset)
        return self.line


def _trailing_blank(raw: bytes) -> int:
    """Where the entry's last line that is not blank ends."""
    end = len(raw)
    while True:
        cut = raw.rfind(b"\n", 0, end)
        if cut < 0 or raw[cut + 1 : end].strip(b" \t\r"):
            break
        end = cut
    if raw[end - 1 : end] == b"\r":
        end -= 1
    return end


def _heading_text(text: bytes) -> str:
    """The heading's text behind its hashes, without odd spaces around it or closing hashes."""
    line = decode(text).strip().strip("\u200b\ufeff\u2060").strip()
    return re.sub(r"[ \t]+#+$", "", line)


def _entry_heading(text: bytes) -> Heading | None:
    """The parts of a level-3 heading that begins with a tag; None of any other."""
    line = _heading_text(text)
    if not line.startswith("["):
        return None
    heading = parse_heading(line)
    return heading if heading.tags or heading.annotations else None


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
