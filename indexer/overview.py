"""A look at the catalog without opening the index: for `status`, which must start fast and disturb nobody."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from indexer.catalog import Known, read_known
from indexer.generations import current_generation
from indexer.identity import differences
from indexer.sync import compare, digest_of
from models.results import IndexedEntries, IndexResult, IndexStatus
from models.snapshot import PoolSnapshot


def read_only(state_dir: Path) -> sqlite3.Connection:
    """The catalog in use, opened so that no file of it changes. Raises FileNotFoundError, OSError, sqlite3.Error."""
    folder = current_generation(state_dir)
    if folder is None:
        raise FileNotFoundError(state_dir)
    path = folder / "catalog.sqlite3"
    log, shared = path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")
    if not log.exists():
        # Nobody writes, and `immutable` keeps SQLite from creating files beside the catalog.
        return sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True, timeout=2)
    if shared.exists():
        return sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=2)
    return _copy_in_memory(path, log)


def _copy_in_memory(path: Path, log: Path) -> sqlite3.Connection:
    """What a crash left: SQLite would recover it in place, so a copy is recovered elsewhere."""
    with tempfile.TemporaryDirectory() as name:
        for file in (path, log):
            shutil.copyfile(file, Path(name) / file.name)
        memory = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(Path(name) / path.name)) as copy:
            copy.backup(memory)
    return memory


def planned_sync(state_dir: Path, snapshots: Sequence[PoolSnapshot], wanted: dict[str, str] | None = None) -> IndexResult:
    """What a sync would do now; nothing is written. Passages of new entries are not known before they are cut.

    *wanted* is what the index must have been made with: see `indexer.identity`.
    """
    known, rebuild = _known(state_dir, wanted)
    unread = any(snapshot.problems for snapshot in snapshots)  # then nothing is built anew
    changes = compare({} if rebuild and not unread else known, snapshots)
    tiers = Counter(placed.tier for s in snapshots for placed in s.entries)
    return IndexResult(
        status="planned", entries=IndexedEntries(active=tiers["active"], archive=tiers["archive"]),
        passages=sum(k.passages for k in known.values()), embedded=0, reused=0, added=changes.added, moved=len(changes.moved),
        removed=len(changes.gone), seconds=0.0, rebuild=rebuild, warnings=changes.warnings,
    )  # fmt: skip


def _known(state_dir: Path, wanted: dict[str, str] | None) -> tuple[dict[tuple[str, str], Known], str | None]:
    """What is catalogued, and why it would be built anew, if it would."""
    try:
        with closing(read_only(state_dir)) as db:
            (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                return {}, f"the catalog is damaged ({verdict})"
            meta = dict(db.execute("SELECT name, value FROM meta"))
            return read_known(db), differences(wanted, meta) if wanted else None
    except FileNotFoundError:
        return {}, None
    except (OSError, UnicodeDecodeError, sqlite3.Error) as error:
        return {}, f"the catalog is damaged ({error})"


def overview(state_dir: Path, snapshots: Sequence[PoolSnapshot] | None = None) -> IndexStatus | None:
    """Counts and freshness, beside the Markdown if it is given; None when there is no index, or none that can be read."""
    try:
        with closing(read_only(state_dir)) as db:
            entries = dict(db.execute("SELECT tier, count(*) FROM entry GROUP BY tier"))
            (passages,) = db.execute("SELECT count(*) FROM passage").fetchone()
            meta = dict(db.execute("SELECT name, value FROM meta"))
    except (OSError, UnicodeDecodeError, sqlite3.Error):
        return None
    return IndexStatus(
        path=str(state_dir / "index"), entries=IndexedEntries(active=entries.get("active", 0), archive=entries.get("archive", 0)),
        passages=passages, model=meta.get("model"), synced_at=meta.get("synced_at"),
        stale=_lag(meta.get("digest"), snapshots),
    )  # fmt: skip


def _lag(digest: str | None, snapshots: Sequence[PoolSnapshot] | None) -> str | None:
    if not digest:
        return "the last sync could not read every file"
    changed = snapshots is not None and digest_of(snapshots) != digest
    return "the memory files changed since the last sync" if changed else None
