"""Where Markdown blocks begin: headings outside code fences and HTML comments (CommonMark 0.31, sections 4.2, 4.5, 4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_ODD = rb"(?:[ \t]|[\x80-\xff])"
_BLOCK = re.compile(
    rb"^(?:(?:\xef\xbb\xbf)? {0,3}(?:(#{1,6})(?!#)|(`{3,}(?=[^`\n]*$)|~{3,})|(<!--))|" + _ODD + rb"+(###)(?!#)" + _ODD + rb"*\[)",
    re.MULTILINE,
)
_ENTRY_LINE = re.compile(rb"^ {0,3}### *\[", re.MULTILINE)
_ODD_HEADING = re.compile(_ODD + rb"*\[")
_SPACE = re.compile(rb"[ \t]|\r?$|\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe2\x81\x9f|\xe3\x80\x80|\xef\xbb\xbf", re.MULTILINE)
# A block that holds an entry's heading is no frontmatter, only text between two rules.
_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?! {0,3}###(?:[ \t]|[\x80-\xff])*\[).*\n)*?---[ \t]*\r?(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Block:
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
    while m := _BLOCK.search(data, at):
        hashes, fence, comment, _ = m.groups()
        at = line_end = _line_end(data, m.end())
        if hashes:
            space = _SPACE.match(data, m.end())
            if space:
                yield Block(m.start(), line_end, len(hashes), plain_space=space[0] in (b" ", b"\t", b"", b"\r"))
            elif _ODD_HEADING.match(data, m.end()):
                yield Block(m.start(), line_end, len(hashes), closed=False)
        elif fence or comment:
            end = closers.fence(line_end, fence) if fence else closers.comment(m.end())
            at = end or line_end
            yield Block(m.start(), at, 0, closed=end is not None)
        else:
            yield Block(m.start(), line_end, 3, closed=False)


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
        closing = re.compile(rb"^ {0,3}%s{%d,}[ \t]*\r?$" % (re.escape(mark), length), re.MULTILINE)
        m = closing.search(self.data, at, stop)
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
    """Where the next line that could begin an entry stands: a fence that closes before it merely quotes a boundary."""
    m = _ENTRY_LINE.search(data, at)
    return m.start() if m else len(data)


def fenced_ranges(text: str) -> list[tuple[int, int]]:
    """Character ranges of *text* that lie in a closed fence or comment."""
    if "```" not in text and "~~~" not in text and "<!--" not in text:
        return []
    data = text.encode("utf-8", "surrogateescape")
    hidden = [b for b in blocks(data) if b.level == 0 and b.closed]
    chars = [len(data[: b.start].decode("utf-8", "surrogateescape")) for b in hidden]
    lengths = [len(data[b.start : b.end].decode("utf-8", "surrogateescape")) for b in hidden]
    return [(c, c + n) for c, n in zip(chars, lengths, strict=True)]
