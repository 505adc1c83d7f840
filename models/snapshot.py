"""All files of a pool at one moment, and the entries in them with the ids that survive moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from models.entry import Entry
from models.errors import ColdsparkError, MissingFileError
from models.log import Log, parse
from models.memory_file import FileState, read_bytes, state_of
from models.pool import Pool, Tier


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
    """All files of a pool at one moment; `problems` names what could not be read."""

    pool: Pool
    files: tuple[TierFile, ...]
    problems: tuple[ColdsparkError, ...] = ()

    @cached_property
    def entries(self) -> tuple[PlacedEntry, ...]:
        """Entries of the active file, then of the archive, each in file order.

        Twins are numbered from the archive on, where nothing moves any more, so that a move renumbers none.
        """
        seen: Counter[str] = Counter()
        archive = list(_placed(self, "archive", seen))
        return (*_placed(self, "active", seen), *archive)

    def tier(self, tier: Tier) -> list[TierFile]:
        """The files of one tier."""
        return [f for f in self.files if f.tier == tier]


def numbered(content_id: str, occurrence: int) -> str:
    """The id of the n-th of several equal entries."""
    return content_id if occurrence == 1 else f"{content_id}-{occurrence}"


def _placed(snapshot: PoolSnapshot, tier: Tier, seen: Counter[str]) -> Iterator[PlacedEntry]:
    for file in snapshot.tier(tier):
        for entry in file.log.entries:
            seen[entry.content_id] += 1
            yield PlacedEntry(numbered(entry.content_id, seen[entry.content_id]), snapshot.pool.name, tier, file.path, entry)


def read_pool(pool: Pool, attempts: int = 5) -> PoolSnapshot:
    """Reads every file of *pool* at one moment: when a file changes meanwhile, all are read again.

    Raises MissingFileError when there is no memory folder.
    """
    if not pool.memory_dir.is_dir():
        raise MissingFileError(pool.memory_dir, "memory folder")
    while True:
        attempts -= 1
        snapshot = _read_once(pool)
        if attempts <= 0 or all(state_of(f.path) == f.state for f in snapshot.files):
            return snapshot


def _read_once(pool: Pool) -> PoolSnapshot:
    """The active file is read first: an entry that moves meanwhile is seen twice, never missed."""
    files: list[TierFile] = []
    problems: list[ColdsparkError] = []
    for tier, paths in _paths(pool):
        for path in paths:
            try:
                data, state = read_bytes(path, f"{tier} file")
            except ColdsparkError as problem:
                problems.append(problem)
            else:
                files.append(TierFile(tier, path, data, state))
    return PoolSnapshot(pool, tuple(files), tuple(problems))


def _paths(pool: Pool) -> Iterable[tuple[Tier, list[Path]]]:
    yield "active", [pool.active]
    yield "archive", pool.archive_files()
