"""An archive's batches by the calendar quarter they were archived in, and an archive without those of one quarter. Pure."""

from __future__ import annotations

import datetime as dt
import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from compactor.batch import Rebuild, joint
from compactor.journal import BatchRecord
from compactor.publish import Rewrite
from models.errors import RefusedError
from models.log import BATCH_HEADING, batches, parse
from models.memory_file import read_bytes
from models.pool import quarter


@dataclass(frozen=True, slots=True)
class Segment:
    """One batch in an archive: bytes `start` to `end`, from its heading to the next one."""

    start: int
    end: int
    day: dt.date


def segments(data: bytes) -> Iterator[Segment]:
    """The batches of an archive, in order; one whose date is none of the calendar belongs to the batch before it."""
    marks = [(at, day) for at, _ in batches(data) if (day := _day(data, at))]
    for (at, day), (end, _) in pairwise([*marks, (len(data), dt.date.max)]):
        yield Segment(at, end, day)


def _day(data: bytes, at: int) -> dt.date | None:
    heading = BATCH_HEADING.match(data, at)
    try:
        return dt.date.fromisoformat(heading[1].decode()) if heading else None
    except ValueError:
        return None


def of_quarter(data: bytes, name: str) -> list[Segment]:
    """The batches that were archived in the quarter of this *name*."""
    return [s for s in segments(data) if quarter(s.day) == name]


def render(data: bytes, found: list[Segment], shard: bytes | None) -> bytes:
    """The bytes to append to *shard*: the segments *found* in *data*, verbatim, one blank line between blocks."""
    parts: list[bytes] = []
    before = shard
    for segment in found:
        text = data[segment.start : segment.end]
        parts += [joint(before), text]
        before = text
    return b"".join(parts)


def rest(data: bytes, found: list[Segment]) -> bytes:
    """The archive less the segments *found* in it."""
    edges = [0, *(edge for s in found for edge in (s.start, s.end)), len(data)]
    return b"".join(data[a:b] for a, b in list(pairwise(edges))[::2])


def without(batch: BatchRecord, name: str) -> Rewrite:
    """The archive less the batches of one quarter, which *batch* has brought to a shard."""

    def rewrite(data: bytes) -> bytes:
        found = of_quarter(data, name)
        _check_same(batch, data, found)
        new = rest(data, found)
        stay = [e.text for e in parse(data, archive=True).entries if not lies_in(found, e.start)]
        if [e.text for e in parse(new, archive=True).entries] != stay:
            raise RefusedError(batch.file, "the batches that stay would read differently without those that move", "Nothing was moved.")
        return new

    return rewrite


def lies_in(found: list[Segment], start: int) -> bool:
    """Whether byte *start* lies in one of the segments, which are in order."""
    at = bisect_right(found, start, key=lambda s: s.start) - 1
    return at >= 0 and start < found[at].end


def _check_same(batch: BatchRecord, data: bytes, found: list[Segment]) -> None:
    shard = read_bytes(batch.file, "archive shard")[0]
    again = render(data, found, shard[: batch.offset] if batch.existed else None)
    if hashlib.sha256(again).hexdigest() != batch.sha256:
        raise RefusedError(batch.file, "another program changed the archive's batches meanwhile", "Nothing was moved; run again.")


def rebuilding(ranges: tuple[tuple[int, int], ...], archive: bytes) -> Rebuild:
    """Makes the bytes that went to a shard once more from the *ranges* of the *archive* they came from, which only grows."""

    def rebuild(shard: bytes | None) -> bytes | None:
        return render(archive, [Segment(start, end, dt.date.min) for start, end in ranges], shard) or None

    return rebuild
