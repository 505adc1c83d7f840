"""One function per use case, for every front end. No web, command-line or MCP library in here."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from compactor.compact import compact as run_compaction
from compactor.compact import dry_run
from compactor.durable import Disk
from compactor.survey import BYTES_PER_TOKEN, Request, tier_size
from models.errors import AmbiguousEntryError, MissingFileError, ModelMissingError, SettingsExistError, UnknownEntryError, WriteFailedError
from models.pool import Pool
from models.results import (
    ArchiveSize,
    CompactReport,
    CompactResult,
    EntriesResult,
    EntryResult,
    IndexedEntries,
    IndexResult,
    IndexStatus,
    PoolStatus,
    SplitReport,
    SplitResult,
    StatusResult,
    VerifyReport,
    VerifyResult,
)
from models.settings import Settings
from models.snapshot import PoolSnapshot, read_pool
from models.views import entry_result, entry_view, file_warnings
from service import __version__


def chosen_pools(settings: Settings, name: str | None) -> list[Pool]:
    """The pool of this name, or all. Raises UnknownPoolError, NoMemoryFolderError."""
    return settings.all_pools() if name is None else [settings.pool(name)]


def entries(settings: Settings, pool: str | None = None) -> EntriesResult:
    """Every entry of both tiers, straight from the Markdown."""
    snapshots = [read_pool(p) for p in chosen_pools(settings, pool)]
    for snapshot in snapshots:
        if snapshot.problems:
            raise snapshot.problems[0]
    return EntriesResult(
        entries=[entry_view(placed) for s in snapshots for placed in s.entries],
        warnings=[w for s in snapshots for w in file_warnings(s)],
    )


def compact(
    settings: Settings, *, pool: str | None = None, today: dt.date | None = None, force: bool = False, only_plan: bool = False
) -> CompactResult | CompactReport:
    """Moves entries by verdict; with *only_plan*, says what would move. One result for one pool, a report for several."""
    day = today or settings.today()
    requests = [Request(p, settings, day, force) for p in chosen_pools(settings, pool)]
    disk = Disk()
    results = [dry_run(r) if only_plan else run_compaction(r, disk) for r in requests]
    return results[0] if len(results) == 1 else CompactReport(pools=results)


def verify_archive(settings: Settings, pool: str | None = None) -> VerifyResult | VerifyReport:
    """Every batch of the archive against its checksum and heading. One result for one pool, a report for several."""
    from compactor.verify import verify_archive as verify

    results = [verify(p) for p in chosen_pools(settings, pool)]
    return results[0] if len(results) == 1 else VerifyReport(pools=results)


def split_archive(settings: Settings, *, pool: str | None = None, only_plan: bool = False) -> SplitResult | SplitReport:
    """Moves the archive's batches into quarterly files; with *only_plan*, says which. One result for one pool, a report for several."""
    from compactor.split import plan_split, split

    disk = Disk()
    results = [plan_split(p) if only_plan else split(p, settings, disk) for p in chosen_pools(settings, pool)]
    return results[0] if len(results) == 1 else SplitReport(pools=results)


def status(settings: Settings) -> StatusResult:
    """How large the tiers are beside their limits, and how fresh the index is. Imports and writes nothing heavy."""
    from service.owner import living

    snapshots = [read_pool(p) for p in settings.all_pools()]
    pools = [_pool_status(s, settings) for s in snapshots]
    address = living(settings.state_dir)
    index = index_status(settings, snapshots)
    return StatusResult(version=__version__, pools=pools, index=index, service=address.url if address else None, stale=index.stale)


def _pool_status(snapshot: PoolSnapshot, settings: Settings) -> PoolStatus:
    pool = snapshot.pool
    active = snapshot.tier("active")
    data = active[0].data if active else b""
    count = sum(p.tier == "active" for p in snapshot.entries)
    archive = snapshot.tier("archive")
    return PoolStatus(
        pool=pool.name, memory_dir=str(pool.memory_dir), knowledge_dir=str(pool.knowledge_dir) if pool.knowledge_dir else None,
        active=tier_size(data, count, settings), tokens_estimate=len(data) // BYTES_PER_TOKEN,
        archive=ArchiveSize(file=str(pool.archive), bytes=sum(len(f.data) for f in archive), entries=len(snapshot.entries) - count),
        warnings=file_warnings(snapshot),
    )  # fmt: skip


def check_readable(settings: Settings) -> None:
    """Raises when a memory folder or an active file is not there, before anything is written."""
    for pool in settings.all_pools():
        if not pool.memory_dir.is_dir():
            raise MissingFileError(pool.memory_dir, "memory folder")


def entry(settings: Settings, entry_id: str, pool: str | None = None) -> EntryResult:
    """One entry by id or the beginning of one, straight from the Markdown. Raises UnknownEntryError, AmbiguousEntryError."""
    placed = [p for each in chosen_pools(settings, pool) for p in read_pool(each).entries]
    found = [p for p in placed if p.id == entry_id] or [p for p in placed if entry_id and p.id.startswith(entry_id)]
    if not found:
        raise UnknownEntryError(entry_id)
    if len({p.id for p in found}) > 1:
        raise AmbiguousEntryError(entry_id, [p.id for p in found])
    return entry_result(entry_view(found[0]), found[0].entry.text)


def index_status(settings: Settings, snapshots: Sequence[PoolSnapshot]) -> IndexStatus:
    """What the catalog says of itself, beside the Markdown, read without opening the vector store."""
    from indexer.overview import overview

    found = overview(settings.state_dir, snapshots)
    if found is None:
        return IndexStatus(
            path=str(settings.state_dir / "index"), entries=IndexedEntries(active=0, archive=0), passages=0,
            model=None, synced_at=None, stale="nothing has been indexed yet; run `coldspark index`",
        )  # fmt: skip
    return found


def planned_sync(settings: Settings) -> IndexResult:
    """What a sync would do now; writes nothing."""
    from indexer.embedder import find_embedder
    from indexer.identity import identity
    from indexer.overview import planned_sync as plan

    wanted = None
    with suppress(ModelMissingError):
        wanted = identity(find_embedder(settings.model), settings.chroma_url)
    return plan(settings.state_dir, [read_pool(p) for p in settings.all_pools()], wanted)


def starter_settings(path: Path, memory: Path, knowledge: Path | None) -> str:
    """Writes a commented settings file for one pool; answers its text. Raises SettingsExistError, WriteFailedError."""
    text = _STARTER.format(memory=_toml(memory), knowledge=f"knowledge_dir = {_toml(knowledge)}" if knowledge else '# knowledge_dir = "…"')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise SettingsExistError(path) from error
    except OSError as error:
        raise WriteFailedError(path, error.strerror or str(error)) from error
    return text


def _toml(path: Path | None) -> str:
    return json.dumps(str(path), ensure_ascii=False)


_STARTER = """\
# Coldspark's settings. Every line that begins with # shows a default.

# target_lines = 500        compaction starts at this many lines of the active file …
# target_bytes = 204800     … or this many bytes
# recent_days = 7           entries this young always stay
# signal_days = 7           unconsumed [ext-signal] entries stay this long
# swarm_days = 14
# park_days = 30
# dream_days = 30
# timezone = "UTC"          whose calendar days count

[[pools]]
name = "default"
memory_dir = {memory}
{knowledge}
"""
