"""Where Markdown blocks begin: headings outside code fences and HTML comments (CommonMark 0.31, sections 4.2, 4.5, 4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

_ODD = rb"(?:[ \t]|[\x80-\xff])"
_SPACE = rb"[ \t]|\r?$|\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe2\x81\x9f|\xe3\x80\x80|\xef\xbb\xbf"
_PLAIN_SPACE = (b" ", b"\t", b"", b"\r")
_HEADING = rb"(#{1,6})(?!#)(" + _SPACE + rb")?"
_FENCE = rb"(`{3,}(?=[^`\n]*$)|~{3,})"
_OPENING = rb"((?:\xef\xbb\xbf)? {0,3}(?:" + _HEADING + rb"|" + _FENCE + rb"|(<!--))|" + _ODD + rb"+###(?!#)" + _ODD + rb"*\[)"
_FIRST_BLOCK = re.compile(_OPENING, re.MULTILINE)
# With a line feed in front, here and below, `re` hops from line to line: ten times as fast as with `^`.
_NEXT_BLOCK = re.compile(rb"\n(?=[#`~< \t\x80-\xff])" + _OPENING, re.MULTILINE)
_NEXT_ENTRY = re.compile(rb"\n {0,3}### *\[")
_ODD_HEADING = re.compile(_ODD + rb"*\[")
# A block that holds an entry's heading is no frontmatter, only text between two rules.
_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?! {0,3}###(?:[ \t]|[\x80-\xff])*\[).*\n)*?---[ \t]*\r?(?:\n|\Z)")


class Block(NamedTuple):
    """A heading, or a hidden range (`level` 0), by byte offsets.

    `closed` is False for a fence or comment nobody closes, and for a line that only looks like a heading.
    """

    start: int
    end: int
    level: int
    closed: bool = True
    plain_space: bool = True


def blocks(data: bytes, boundary: re.Pattern[bytes] | None = None) -> Iterator[Block]:
    """Headings and hidden ranges of *data*, in order.

    A fence or comment that is still open at the end hides nothing. Where *boundary* is given, a fence does not
    reach past a line that it matches.
    """
    front = _FRONTMATTER.match(data)
    at = front.end() if front else 0
    closers = _Closers(data, boundary)
    while m := _opening(data, at):
        start = m.start(1)
        _, hashes, space, fence, comment = m.groups()
        at = line_end = _line_end(data, m.end())
        if hashes and space is not None:
            yield Block(start, line_end, len(hashes), plain_space=space in _PLAIN_SPACE)
        elif hashes:
            if _ODD_HEADING.match(data, m.end()):
                yield Block(start, line_end, len(hashes), closed=False)
        elif fence or comment:
            end = closers.fence(line_end, fence) if fence else closers.comment(m.end())
            at = end or line_end
            yield Block(start, at, 0, closed=end is not None)
        else:
            yield Block(start, line_end, 3, closed=False)


def _opening(data: bytes, at: int) -> re.Match[bytes] | None:
    """The first line from *at* on, itself a line's start, that may open a block; the whole of it is group 1."""
    if at:
        return _NEXT_BLOCK.search(data, at - 1)
    return _FIRST_BLOCK.match(data) or _NEXT_BLOCK.search(data)


def _line_end(data: bytes, at: int) -> int:
    newline = data.find(b"\n", at)
    return len(data) if newline < 0 else newline + 1


class _Closers:
    """Finds where fences and comments end. What was found missing once is not looked for again: that would take quadratic time."""

    def __init__(self, data: bytes, boundary: re.Pattern[bytes] | None) -> None:
        self.data = data
        self.boundary = boundary
        self.stop = 0 if boundary else len(data)
        self.missing: dict[bytes, tuple[int, int]] = {}  # mark -> shortest fence known to have no end, up to which stop
        self.no_comment_end = -1

    def fence(self, at: int, fence: bytes) -> int | None:
        """Offset behind the closing fence, or None."""
        mark, length = fence[:1], len(fence)
        stop = self._stop(at)
        known, upto = self.missing.get(mark, (0, -1))
        if upto == stop and 0 < known <= length:
            return None
        closing = re.compile(rb"\n {0,3}%s{%d,}[ \t]*\r?$" % (mark, length), re.MULTILINE)
        m = closing.search(self.data, at - 1, stop)
        if m is None and stop < len(self.data):
            m = closing.search(self.data, stop, _next_entry(self.data, stop))
        if m is None:
            self.missing[mark] = (length, stop)
            return None
        return _line_end(self.data, m.end())

    def comment(self, at: int) -> int | None:
        """Offset behind the line with the comment's end, or None; `<!-->` is a whole comment."""
        stop = self._stop(at)
        if self.no_comment_end == stop:
            return None
        found = self.data.find(b"-->", at - 2, stop)
        if found < 0:
            self.no_comment_end = stop
            return None
        return _line_end(self.data, found)

    def _stop(self, at: int) -> int:
        """How far a fence may reach from *at*; offsets only grow, so the boundary is searched once each."""
        if self.boundary is not None and at > self.stop:
            m = self.boundary.search(self.data, at)
            self.stop = m.start() if m else len(self.data)
        return self.stop


def _next_entry(data: bytes, at: int) -> int:
    """Where the next line behind that of *at* that could begin an entry stands: a fence that closes before it merely quotes a boundary."""
    m = _NEXT_ENTRY.search(data, at)
    return m.start() + 1 if m else len(data)


def may_hide(text: bytes) -> bool:
    """Whether *text* has anything that could open a fence or comment; a single character is looked for first, as that is faster."""
    return (b"`" in text and b"```" in text) or (b"~" in text and b"~~~" in text) or (b"<" in text and b"<!--" in text)


def fenced_ranges(text: str) -> list[tuple[int, int]]:
    """Character ranges of *text* that lie in a closed fence or comment."""
    data = text.encode("utf-8", "surrogateescape")
    hidden = [b for b in blocks(data) if b.level == 0 and b.closed]
    edges = [0, *(edge for b in hidden for edge in (b.start, b.end))]
    # Piece by piece, since to decode everything before each range would take quadratic time.
    chars = list(accumulate(len(data[a:b].decode("utf-8", "surrogateescape")) for a, b in pairwise(edges)))
    return list(zip(chars[::2], chars[1::2], strict=True))


class Lines:
    """Line numbers, from 1, by byte offset; counted when first asked, since a compaction hardly asks."""

    _STEP = 1024

    def __init__(self, data: bytes) -> None:
        self._data = data

    def at(self, offset: int) -> int:
        """The line of byte *offset*."""
        step = offset // self._STEP
        return self._before[step] + self._data.count(b"\n", step * self._STEP, offset)

    @cached_property
    def _before(self) -> list[int]:
        """The line at every _STEP-th byte, so that no question takes longer the later in the file it is about."""
        steps = range(0, len(self._data), self._STEP)
        return list(accumulate((self._data.count(b"\n", at, at + self._STEP) for at in steps), initial=1))
