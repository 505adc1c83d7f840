"""Cutting an entry into passages that the model reads whole, so that no word of it is out of reach. Pure.

Embedded are the title and the fields' content, sentence by sentence. The heading's tags and date, field labels, and
the fields that hold a mere mark (Pass, Signal, Type, the verdict's word) are not: they cost up to a quarter of the
window and make unlike entries look alike.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from indexer.embedder import Embedder
from models.entry import Entry
from models.heading import bracket_groups
from models.text import decode

PASSAGE_RULES = 2
"""Goes up whenever the same entry would give other passages."""
MARK_FIELDS = frozenset({"pass", "signal", "type", "date"})

_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’)\]]*\s+|(?<=[。！？])|\s+(?=(?:->|→|⇒)\s)|\n+")  # noqa: RUF001 - marks that end sentences
_VERDICT_WORD = re.compile(r"\s*(?:absorb|park|release)(?!\w)\s*(?:-{2,3}|[—–])?\s*", re.IGNORECASE)  # noqa: RUF001 - dashes people type
_UNDECODABLE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of an entry: `text` is what is embedded; `start` and `end` are byte offsets of its verbatim slice."""

    ordinal: int
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence, by character offsets; `begin` includes the label in front of it."""

    begin: int
    start: int
    end: int
    tokens: int = 0


def cut(entry: Entry, embedder: Embedder) -> list[Passage]:
    """The entry's passages, in order; at least one, even of an empty entry."""
    text = decode(entry.text)
    shown = _UNDECODABLE.sub("\ufffd", text)
    offsets = embedder.token_offsets([shown])[0]
    content = list(_units(entry, text)) or [_Unit(0, 0, len(text))]
    units = [piece for unit in content for piece in _sized(unit, offsets, embedder.max_tokens)]
    groups = _grouped(units, embedder.max_tokens)
    to_byte = _byte_offsets(text, [o for g in groups for o in (g[0].begin, g[-1].end)])
    return [
        Passage(n, to_byte[g[0].begin], to_byte[g[-1].end], " ".join(shown[u.start : u.end].strip() for u in g))
        for n, g in enumerate(groups)
    ]


def _units(entry: Entry, text: str) -> Iterator[_Unit]:
    """Sentences of the entry's content; the first one of a field begins at the field's label."""
    for begin, start, end in _content(entry, text):
        stops = [m.end() for m in _SENTENCE_END.finditer(text, start, end)]
        sentences = [(a, b) for a, b in pairwise([start, *stops, end]) if text[a:b].strip()]
        for n, (a, b) in enumerate(sentences):
            yield _Unit(begin if n == 0 else a, a, b)


def _content(entry: Entry, text: str) -> Iterator[tuple[int, int, int]]:
    """(label start, start, end) of the heading's words, of text before the first field, and of every field with content."""
    first_line = text.find("\n") + 1 or len(text)
    begin = 0
    for start, end in _heading_words(entry, text[:first_line]):
        yield begin, start, end
        begin = end
    spans = entry.field_spans
    lead_end = spans[0][1] if spans else len(text)
    if text[first_line:lead_end].strip():
        yield first_line, first_line, lead_end
    for name, label, start, end in spans:
        if name.casefold() in MARK_FIELDS:  # what stands below the mark is content again
            label = start = min(end, (text.find("\n", start, end) + 1) or end)  # noqa: PLW2901
        elif name.casefold() == "verdict" and (m := _VERDICT_WORD.match(text, start, end)):
            start = m.end()  # noqa: PLW2901 - the word itself is no content
        if text[start:end].strip():
            yield label, start, end


def _heading_words(entry: Entry, line: str) -> Iterator[tuple[int, int]]:
    """Ranges of the heading's line that are neither hashes, tags, annotations nor the date."""
    heading = entry.heading
    hidden = [(0, len(line) - len(line.lstrip(" \ufeff").lstrip("#")))]
    for start, end in bracket_groups(line):
        inner = line[start + 1 : end - 1].strip()
        name = inner.partition(":")[0].strip()
        if inner in heading.tags or any(name == known for known, _ in heading.annotations):
            hidden.append((start, end))
    if heading.stamp:
        at = line.rfind(heading.stamp)
        hidden.append((at, at + len(heading.stamp)))
    shown = 0
    for start, end in sorted(hidden):
        if line[shown:start].strip():
            yield shown, start
        shown = max(shown, end)
    if line[shown:].strip():
        yield shown, len(line)


def _sized(unit: _Unit, offsets: list[tuple[int, int]], most: int) -> Iterator[_Unit]:
    """The unit with its token count, in pieces where it alone is longer than the window."""
    first, last = bisect_left(offsets, (unit.start, 0)), bisect_left(offsets, (unit.end, 0))
    count = last - first
    if count <= most:
        yield _Unit(unit.begin, unit.start, unit.end, count)
        return
    pieces = -(-count // most)
    marks = [offsets[first + count * i // pieces][0] for i in range(1, pieces)]
    starts, ends = [unit.start, *marks], [*marks, unit.end]
    for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
        tokens = count * (i + 1) // pieces - count * i // pieces
        yield _Unit(unit.begin if i == 0 else start, start, end, tokens)


def _grouped(units: list[_Unit], most: int) -> list[list[_Unit]]:
    """Neighbouring units in few groups of much the same length, none over *most* tokens."""
    total = max(1, sum(u.tokens for u in units))
    count = -(-total // most)
    while True:
        groups: dict[int, list[_Unit]] = {}
        size: Counter[int] = Counter()
        seen = 0
        for unit in units:
            group = int((seen + unit.tokens / 2) * count / total)
            groups.setdefault(group, []).append(unit)
            size[group] += unit.tokens
            seen += unit.tokens
        if all(n <= most for n in size.values()):
            return list(groups.values())
        count += 1 + count // 20


def _byte_offsets(text: str, chars: list[int]) -> dict[int, int]:
    """Byte offset of every character offset in *chars*."""
    out: dict[int, int] = {}
    at = byte = 0
    for char in sorted(set(chars)):
        byte += len(text[at:char].encode("utf-8", "surrogateescape"))
        at = char
        out[char] = byte
    return out
