"""All files of a pool at one moment, and the entries in them with the ids that survive moves."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from models.entry import Entry
from models.errors import ColdsparkError, MissingFileError
from models.log import Log, parse
from models.memory_file import FileState, read_bytes, state_of
from models.pending import Pending, read_pending
from models.pool import Pool, Tier, real


@dataclass(frozen=True)
class TierFile:
    """One Markdown file as it was read."""

    tier: Tier
    path: Path
    data: bytes = field(repr=False)
    state: FileState

    @cached_property
    def log(self) -> Log:
        """The file's prose and entries."""
        return parse(self.data, archive=self.tier == "archive")


@dataclass(frozen=True)
class PlacedEntry:
    """An entry, the id under which it is known, and where it lies."""

    id: str
    pool: str
    tier: Tier
    file: Path
    entry: Entry


@dataclass(frozen=True)
class PoolSnapshot:
    """All files of a pool at one moment.

    `problems` names what could not be read, `pending` a move that is not finished, `copies` look-alikes beside the tiers,
    `set_aside` what another program wrote while a tier was replaced.
    """

    pool: Pool
    files: tuple[TierFile, ...]
    problems: tuple[ColdsparkError, ...] = ()
    pending: Pending | None = None
    copies: tuple[Path, ...] = ()
    set_aside: tuple[Path, ...] = ()

    @cached_property
    def entries(self) -> tuple[PlacedEntry, ...]:
        """Entries of the active file, then of the archive, each in file order.

        Twins are numbered from the archive's oldest batch on, where nothing changes any more, so that no move renumbers one
        (but for twins that were archived on one day into two files, which a split may bring into another order).
        """
        archive = [(file, entry) for file in self.tier("archive") for entry in self.entries_of(file)]
        active = [(file, entry) for file in self.tier("active") for entry in self.entries_of(file)]
        seen: Counter[str] = Counter()
        by_age = sorted(range(len(archive)), key=lambda i: archive[i][1].batch_date or dt.date.min)
        numbers = {i: _count(seen, archive[i][1]) for i in by_age}
        placed = [self._placed(file, entry, numbers[i]) for i, (file, entry) in enumerate(archive)]
        return (*(self._placed(file, entry, _count(seen, entry)) for file, entry in active), *placed)

    def entries_of(self, file: TierFile) -> Iterable[Entry]:
        """The entries of one file, less copies that an unfinished move has made there."""
        if self.pending is None or real(file.path) != self.pending.file:
            return file.log.entries
        source = next((f.log.entries for f in self.files if real(f.path) == self.pending.source), ())
        return self.pending.without_copies(file.log.entries, source)

    def tier(self, tier: Tier) -> list[TierFile]:
        """The files of one tier."""
        return [f for f in self.files if f.tier == tier]

    def _placed(self, file: TierFile, entry: Entry, number: int) -> PlacedEntry:
        return PlacedEntry(numbered(entry.content_id, number), self.pool.name, file.tier, file.path, entry)


def numbered(content_id: str, occurrence: int) -> str:
    """The id of the n-th of several equal entries."""
    return content_id if occurrence == 1 else f"{content_id}-{occurrence}"


def _count(seen: Counter[str], entry: Entry) -> int:
    seen[entry.content_id] += 1
    return seen[entry.content_id]


def read_pool(pool: Pool, attempts: int = 10) -> PoolSnapshot:
    """Reads every file of *pool* at one moment: when a file changes or comes meanwhile, all are read again.

    Raises MissingFileError when there is no memory folder.
    """
    if not pool.memory_dir.is_dir():
        raise MissingFileError(pool.memory_dir, "memory folder")
    while True:
        attempts -= 1
        listed = _listed(pool)
        snapshot = _read_once(pool, listed)
        if attempts <= 0 or (_listed(pool) == listed and all(state_of(f.path) == f.state for f in snapshot.files)):
            return snapshot


def _read_once(pool: Pool, listed: Iterable[tuple[Tier, Path]]) -> PoolSnapshot:
    """Files that entries leave are read before those they go to: what moves meanwhile is seen twice, never missed.

    The journal is read last, so that a copy that has been read is known to be one.
    """
    files: list[TierFile] = []
    problems: list[ColdsparkError] = []
    for tier, path in listed:
        try:
            data, state = read_bytes(path, f"{tier} file")
        except ColdsparkError as problem:
            problems.append(problem)
        else:
            files.append(TierFile(tier, path, data, state))
    return PoolSnapshot(pool, tuple(files), tuple(problems), read_pending(pool), tuple(pool.copies()), tuple(pool.set_aside()))


def _listed(pool: Pool) -> list[tuple[Tier, Path]]:
    return [("active", pool.active), *(("archive", path) for path in pool.archive_files())]
