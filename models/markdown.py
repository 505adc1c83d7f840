"""Where Markdown blocks begin: headings outside code fences and HTML comments (CommonMark 0.31, sections 4.2, 4.5, 4.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(rb"^(?:\xef\xbb\xbf)? {0,3}(?:(#{1,6})(?!#)|(`{3,}(?=[^`\n]*$)|~{3,})|(<!--))", re.MULTILINE)
_SPACE = re.compile(rb"[ \t]|\r?$|\xc2\xa0|\xe2\x80[\x80-\x8b\xaf]|\xe2\x81\x9f|\xe3\x80\x80|\xef\xbb\xbf", re.MULTILINE)
# A block that holds an entry's heading is no frontmatter, only text between two rules.
_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(?:(?!### ?\[).*\n)*?---[ \t]*\r?(?:\n|\Z)")


@dataclass(frozen=True, slots=True)
class Block:
    """A heading, or a hidden range (`level` 0), by byte offsets; `closed` is False for a fence nobody closes."""

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
    unclosed: dict[bytes, int] = {}
    while m := _BLOCK.search(data, at):
        hashes, fence, _ = m.groups()
        line_end = _line_end(data, m.end())
        if hashes:
            space = _SPACE.match(data, m.end())
            at = line_end
            if space:
                yield Block(m.start(), line_end, len(hashes), plain_space=space[0] in (b" ", b"\t", b"", b"\r"))
            elif data[m.end() : m.end() + 1] == b"[":
                yield Block(m.start(), line_end, len(hashes), closed=False)
            continue
        stop = _boundary(data, line_end, boundary)
        end = _fence_end(data, line_end, fence, stop, unclosed) if fence else _comment_end(data, m.end(), stop)
        at = end or line_end
        yield Block(m.start(), at, 0, closed=end is not None)


def _line_end(data: bytes, at: int) -> int:
    newline = data.find(b"\n", at)
    return len(data) if newline < 0 else newline + 1


def _boundary(data: bytes, at: int, boundary: re.Pattern[bytes] | None) -> int:
    m = boundary.search(data, at) if boundary else None
    return m.start() if m else len(data)


def _fence_end(data: bytes, at: int, fence: bytes, stop: int, unclosed: dict[bytes, int]) -> int | None:
    """Offset behind the closing fence, or None.

    `unclosed` remembers, per fence character, the shortest fence already known to have no end before *stop*: without
    it a file of many open fences would take quadratic time.
    """
    mark = fence[:1]
    key = mark + str(stop).encode()
    if len(fence) >= unclosed.get(key, len(fence) + 1):
        return None
    closing = re.compile(rb"^ {0,3}%s{%d,}[ \t]*\r?$" % (re.escape(mark), len(fence)), re.MULTILINE)
    m = closing.search(data, at, stop)
    if m is None:
        unclosed[key] = len(fence)
        return None
    return _line_end(data, m.end())


def _comment_end(data: bytes, at: int, stop: int) -> int | None:
    found = data.find(b"-->", at, stop)
    return None if found < 0 else _line_end(data, found)


def fenced_ranges(text: str) -> list[tuple[int, int]]:
    """Character ranges of *text* that lie in a closed fence or comment."""
    if "```" not in text and "~~~" not in text and "<!--" not in text:
        return []
    data = text.encode("utf-8", "surrogateescape")
    hidden = [b for b in blocks(data) if b.level == 0 and b.closed]
    chars = [len(data[: b.start].decode("utf-8", "surrogateescape")) for b in hidden]
    lengths = [len(data[b.start : b.end].decode("utf-8", "surrogateescape")) for b in hidden]
    return [(c, c + n) for c, n in zip(chars, lengths, strict=True)]
