"""Moving an archive's batches into quarterly files, verbatim, by the same protocol as a compaction.

One quarter after the other: its batches are appended to the quarter's file, synced, read back, and only then does the
archive lose them, by a replacement that crashes, late appends and foreign rewrites cannot turn into a loss (see
`compactor.compact`; here the archive is the file that is replaced). A run that is cut short leaves whole quarters moved,
and the next run of any kind settles the one that was not.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from compactor import batch as batches
from compactor import moving, quarters
from compactor.compact import run_id
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.lock import held
from compactor.moving import Move
from compactor.places import check_places, check_private
from models.entry import Entry
from models.errors import MissingFileError, RefusedError
from models.log import parse
from models.memory_file import read_bytes, state_of
from models.pool import Pool, quarter, real
from models.results import ArchiveSize, FileWarning, SplitOff, SplitResult
from models.settings import Settings
from models.snapshot import read_pool
from models.text import readable
from models.views import whole_file_warnings


@dataclass(frozen=True)
class _Part:
    """The batches of one quarter, as they stand in the archive."""

    name: str
    shard: Path
    segments: list[quarters.Segment]
    entries: list[Entry]

    def moved(self) -> SplitOff:
        size = sum(s.end - s.start for s in self.segments)
        return SplitOff(file=readable(str(self.shard)), batches=len(self.segments), entries=len(self.entries), bytes=size)


def plan_split(pool: Pool) -> SplitResult:
    """What `split` would do now; writes nothing."""
    parts = _parts(pool)
    return _result(pool, "planned" if parts else "nothing-to-split", parts, [])


def split(pool: Pool, settings: Settings, disk: Disk, wait_seconds: float = 5.0) -> SplitResult:
    """Splits the pool's archive. Raises as `compactor.compact.compact` does; every entry is still there, whichever it is."""
    desk, is_needed = Desk.of_archive(pool), moving.is_needed(pool)
    check_private(pool)
    if not is_needed:
        if not _parts(pool):
            return _result(pool, "nothing-to-split", [], [])
        _check(pool)
    desk.prepare(disk)
    with held(desk.lock, f"memory {pool.name}", wait_seconds):
        done = moving.settle(pool, disk, run_id(settings))
        before, parts = _everything(pool), _parts(pool)
        if parts:
            _check(pool)
        for name in [part.name for part in parts]:
            done += _move(next(part for part in _parts(pool) if part.name == name), pool, desk, disk, run_id(settings))
        return _result(pool, "split" if parts else "nothing-to-split", parts, done, _conserved(pool, before, parts))


def _check(pool: Pool) -> None:
    check_places(pool, replaced=(pool.archive,), appended=tuple(part.shard for part in _parts(pool)))


def _read(path: Path) -> bytes:
    return read_bytes(path, "archive file")[0]


def _parts(pool: Pool) -> list[_Part]:
    """What the archive holds of each quarter."""
    if pool.archive not in pool.archive_files():
        return []
    data = _read(pool.archive)
    by_quarter: dict[str, list[quarters.Segment]] = {}
    for segment in quarters.segments(data):
        by_quarter.setdefault(quarter(segment.day), []).append(segment)
    entries = parse(data, archive=True).entries
    return [
        _Part(name, pool.shard(found[0].day), found, [e for e in entries if quarters.lies_in(found, e.start)])
        for name, found in sorted(by_quarter.items())
    ]


def _move(part: _Part, pool: Pool, desk: Desk, disk: Disk, run: str) -> list[str]:
    archive = _read(pool.archive)
    found = quarters.of_quarter(archive, part.name)
    try:
        shard: bytes | None = _read(part.shard)
    except MissingFileError:
        shard = None
    data = quarters.render(archive, found, shard)
    _check_reads_the_same(part, shard or b"", data)
    batch = batches.record(real(part.shard), shard, data, part.entries, found[0].day)
    ranges = tuple((s.start, s.end) for s in found)
    move = Move(run, batch, data, part.entries, quarters.without(batch, part.name), pool.archive, part.name, ranges)
    moving.carry_out(disk, desk, move)
    return moving.finish(disk, desk, move)


def _check_reads_the_same(part: _Part, shard: bytes, data: bytes) -> None:
    """The quarter's file must hold its old entries and the new ones, whatever loose ends the old text has."""
    expected = [e.text for e in (*parse(shard, archive=True).entries, *part.entries)]
    if [e.text for e in parse(shard + data, archive=True).entries] != expected:
        raise RefusedError(part.shard, "the archive's batches would read differently behind what it holds", "Nothing was moved.")


def _everything(pool: Pool) -> Counter[bytes]:
    snapshot = read_pool(pool)
    return Counter(entry.text for file in snapshot.tier("archive") for entry in snapshot.entries_of(file))


def _conserved(pool: Pool, before: Counter[bytes], parts: list[_Part]) -> str:
    """Counts the archive tier once more, from the disk. Raises RefusedError if an entry is missing."""
    missing = before - _everything(pool)
    if missing:
        advice = f"What the archive was before lies in {Desk.of_archive(pool).snapshots}."
        raise RefusedError(pool.archive, f"{missing.total()} archived entries are not there after the split", advice)
    size = sum(len(text) * count for text, count in before.items())
    moved = sum(len(part.entries) for part in parts)
    return f"{before.total()} archived entries ({size} bytes) = {moved} in quarterly files now + {before.total() - moved} where they were"


def _result(
    pool: Pool, status: Literal["split", "nothing-to-split", "planned"], parts: list[_Part], done: list[str], conserved: str | None = None
) -> SplitResult:
    snapshot = read_pool(pool)
    archived = [p for p in snapshot.entries if p.tier == "archive"]
    planned = sum(len(part.entries) for part in parts) if status == "planned" else 0
    states = [s for path in pool.archive_files() if (s := state_of(path))]
    return SplitResult(
        status=status, pool=pool.name, moved=[part.moved() for part in parts],
        left=sum(p.file == pool.archive for p in archived) - planned,
        archive=ArchiveSize(file=readable(str(pool.archive)), bytes=sum(s.size for s in states), entries=len(archived)),
        conserved=conserved,
        warnings=whole_file_warnings(snapshot) + [FileWarning(file=readable(str(pool.archive)), message=sentence) for sentence in done],
    )  # fmt: skip
