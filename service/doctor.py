"""`doctor`: every check there is, of memory, model, index and service. Read only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from compactor.checkup import check_pool
from indexer.embedder import check_published, find_model
from indexer.generations import current_generation
from indexer.overview import overview, read_only
from models.errors import ColdsparkError
from models.results import Check, DoctorResult
from models.settings import Settings
from models.snapshot import PoolSnapshot, read_pool
from service.wiring import running_service

_WORST = ("problem", "warning", "ok")


def doctor(settings: Settings) -> DoctorResult:
    """Looks at everything. Raises NoMemoryFolderError when no pool is configured."""
    checks = [check for pool in settings.all_pools() for check in check_pool(pool, settings)]
    checks += [*_model(settings), *_index(settings), *_service(settings)]
    return DoctorResult(status=next(s for s in _WORST if s == "ok" or any(c.status == s for c in checks)), checks=checks)


def _model(settings: Settings) -> Iterator[Check]:
    try:
        files = find_model(settings.model)
        check_published(files)
    except ColdsparkError as error:
        yield Check(name="model", status="problem", message=str(error))
        return
    known = "its files have the published checksums" if files.published else f"from {files.folder or 'the model hub'}"
    yield Check(name="model", status="ok", message=f"{files.name}: {known}")


def _index(settings: Settings) -> Iterator[Check]:
    found = overview(settings.state_dir, _snapshots(settings))
    advice = "Run `coldspark index`, or leave `coldspark serve` running."
    if found is None and current_generation(settings.state_dir) is not None:
        yield Check(
            name="index", status="problem", message=f"the catalog in {settings.state_dir} cannot be read",
            advice="Run `coldspark index`: it comes back from the Markdown.",
        )  # fmt: skip
    elif found is None:
        yield Check(name="index", status="warning", message=f"there is no index in {settings.state_dir}", advice=advice)
    elif damage := _damage(settings):
        yield Check(
            name="index", status="problem", message=f"the catalog in {settings.state_dir} is damaged ({damage})",
            advice="Run `coldspark index`: it comes back from the Markdown.",
        )  # fmt: skip
    elif found.stale:
        yield Check(name="index", status="warning", message=found.stale, advice=advice)
    else:
        count = found.entries.active + found.entries.archive
        yield Check(name="index", status="ok", message=f"{count} entries, {found.passages} passages, synced {found.synced_at}")


def _snapshots(settings: Settings) -> list[PoolSnapshot] | None:
    """Every pool as it is; None when one cannot be looked at, which is a finding of its own."""
    try:
        return [read_pool(pool) for pool in settings.all_pools()]
    except ColdsparkError:
        return None


def _damage(settings: Settings) -> str | None:
    try:
        with closing(read_only(settings.state_dir)) as db:
            (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except (OSError, sqlite3.Error) as error:
        return str(error)
    return None if verdict == "ok" else str(verdict)


def _service(settings: Settings) -> Iterator[Check]:
    try:
        running = running_service(settings)
    except ColdsparkError as error:
        yield Check(name="service", status="warning", message=str(error))
        return
    if running:
        yield Check(name="service", status="ok", message=f"answers at {running.address.url}")
    else:
        yield Check(name="service", status="ok", message="not running; commands open the index themselves")
