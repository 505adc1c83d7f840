"""Looking before anything moves: both tiers as they are, and what the rules say of the active one."""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compactor.batch import holds_alone
from compactor.plan import Plan, Planned, make_plan
from compactor.rules import Context, Windows
from compactor.survival import Knowledge, read_knowledge
from models.memory_file import state_of
from models.pool import Pool
from models.results import TierSize
from models.settings import Settings
from models.snapshot import PoolSnapshot, TierFile, read_pool

BYTES_PER_TOKEN = 4
"""Rough size of a reader's token in English text."""
SHARD_AFTER = 10_000
"""Entries past which the first archive file takes no more batches."""


@dataclass(frozen=True)
class Request:
    """What is asked for: `force` compacts below the targets too."""

    pool: Pool
    settings: Settings
    today: dt.date
    force: bool = False


@dataclass(frozen=True)
class Survey:
    """Both tiers as read, and what the rules say of them."""

    request: Request
    snapshot: PoolSnapshot
    context: Context
    knowledge: Knowledge
    plan: Plan
    size: TierSize

    @property
    def active(self) -> TierFile:
        """The active file."""
        return self.snapshot.tier("active")[0]

    @cached_property
    def target(self) -> Path:
        """The archive file that a batch goes to: the first one until it has passed SHARD_AFTER entries or was split, then the quarter's."""
        pool, first = self.request.pool, self.tier_file(self.request.pool.archive)
        is_sharded = any(f.path != pool.archive for f in self.snapshot.tier("archive"))
        is_full = first is not None and len(first.log.entries) > SHARD_AFTER
        return pool.shard(self.request.today) if is_sharded or is_full else pool.archive

    def tier_file(self, path: Path) -> TierFile | None:
        """One file of the pool as it was read, if it existed."""
        return next((f for f in self.snapshot.files if f.path == path), None)

    @property
    def archive(self) -> TierFile | None:
        """The archive file that a batch goes to, if it exists."""
        return self.tier_file(self.target)

    @property
    def is_due(self) -> bool:
        """Whether the active file is over a target, or compaction was forced."""
        return self.size.over_target or self.request.force

    @property
    def is_current(self) -> bool:
        """Whether the files are still the ones that were read, and no other has come."""
        pool = self.request.pool
        read = {f.path: f.state for f in self.snapshot.files}
        return all(state_of(path) == read.get(path) for path in (pool.active, pool.archive, *pool.archive_files()))


def survey(request: Request) -> Survey:
    """Reads everything. Raises MissingFileError, UnreadableFileError, BrokenSurvivalLogError."""
    snapshot = read_pool(request.pool)
    if snapshot.problems:
        raise snapshot.problems[0]
    active = snapshot.tier("active")[0]
    knowledge = read_knowledge(request.pool.knowledge_dir)
    context = Context(
        request.today, Windows.of(request.settings), functools.cache(knowledge.is_alive), functools.cache(knowledge.is_consumed)
    )
    placed = [p for p in snapshot.entries if p.tier == "active"]
    size = tier_size(active.data, len(placed), request.settings)
    plan = make_plan(active.log, placed, context, request.settings)
    plan = _only_what_reads_back(plan, request.today)
    return Survey(request, snapshot, context, knowledge, plan, size)


def _only_what_reads_back(plan: Plan, today: dt.date) -> Plan:
    def check(row: Planned) -> Planned:
        if not row.moves or holds_alone(row.placed.entry, today):
            return row
        return row.kept("11 unexamined: its text holds a batch heading")

    return Plan(tuple(check(row) for row in plan.rows))


def tier_size(data: bytes, entries: int, settings: Settings) -> TierSize:
    """How large a file is: lines as an editor counts them, bytes, entries, and whether any target is passed."""
    lines = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    return TierSize(lines=lines, bytes=len(data), entries=entries, over_target=over_target(lines, len(data), settings))


def over_target(lines: int, size: int, settings: Settings) -> bool:
    """Whether a file of so many lines and bytes reaches any target."""
    too_many_tokens = settings.target_tokens is not None and size / BYTES_PER_TOKEN >= settings.target_tokens
    return lines >= settings.target_lines or size >= settings.target_bytes or too_many_tokens
