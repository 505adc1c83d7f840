"""Moving entries from the active file to the archive, so that no crash or race can lose or double one.

The write order, and what a crash (or power loss) in the gap behind each step leaves:

 1. lock                              nothing; the kernel frees the lock
 2. read both tiers, plan             nothing
 3. journal: the batch to come        a journal; the archive lacks the batch, so the next run drops the journal
 4. append the batch, sync            a torn or whole batch; torn is cut off again, whole is finished (from step 6 on)
 5. read the batch back, compare      as behind step 4
 6. write the new active file beside  a whole batch and a temporary file; the file is removed, the move finished
    the old one, sync file and folder
 7. journal: the new file's identity  the same
 8. check that the old file is still  the same
    the one that was read
 9. second name for the old file      the same; the name is removed
    (only where files cannot swap)
10. swap or replace: COMMIT POINT     both tiers complete; the next run sees that the new file has left its temporary name
11. look at the displaced file: keep  the next run looks; if it is not the file that was read, the two swap back and
    it as a snapshot, sync folder     the move is finished from step 6 on. Without swapping: (power loss) as behind step 9
12. note the batch's checksum         the same; noted once
13. carry over late appends           they are still in the replaced file's second name; the next run carries them over
14. close the journal, daylog line    nothing; at worst the daylog lacks a line

Before step 10 the active file is untouched; behind it every moved entry is in the archive, verified. So at any
moment every entry is in at least one tier, and after the next run in exactly one.
"""

from __future__ import annotations

import os

from compactor import batch as batches
from compactor import publish, recover, report
from compactor.durable import Disk
from compactor.journal import Desk, Journal
from compactor.lock import held
from compactor.places import check_places
from compactor.survey import Request, Survey, survey
from models.errors import ColdsparkError, WriteFailedError
from models.results import CompactResult, FileWarning


def dry_run(request: Request) -> CompactResult:
    """What `compact` would do now; writes nothing at all."""
    found = survey(request)
    return report.untouched(found, "planned" if found.is_due else "already-compact", [])


def compact(request: Request, disk: Disk, wait_seconds: float = 5.0) -> CompactResult:
    """Compacts one pool, finishing any run that was cut short before.

    Raises MissingFileError, UnreadableFileError, BrokenSurvivalLogError, BusyError, RefusedError, WriteFailedError;
    the entries are all there afterwards, whichever it is.
    """
    pool = request.pool
    desk = Desk.of(pool)
    first = None if recover.is_needed(desk) else survey(request)
    if first is not None:
        if not first.is_due or not first.plan.moving:
            return _nothing_to_do(first)
        check_places(pool)
    desk.prepare(disk)
    with held(desk.lock, f"memory {pool.name}", wait_seconds):
        done = recover_pool(request, desk, disk)
        check_places(pool)
        found = first if first is not None and first.is_current else survey(request)
        if not found.is_due or not found.plan.moving:
            return _nothing_to_do(found, done)
        return _move(found, desk, disk, done)


def recover_pool(request: Request, desk: Desk, disk: Disk) -> list[str]:
    """Settles whatever an earlier run left; the caller holds the lock."""
    journal = desk.read()
    done = [recover.recover(disk, desk, journal)] if journal else []
    done += publish.absorb(disk, desk, _run_id(request), journal.active if journal else request.pool.active.resolve())
    if done:
        desk.close(disk)
        publish.tidy(disk, desk)
    return done


def _move(found: Survey, desk: Desk, disk: Disk, done: list[str]) -> CompactResult:
    pool, today, moving = found.request.pool, found.request.today, found.plan.moving
    archive = found.archive.data if found.archive else None
    data = batches.render(moving, today, archive)
    batch = batches.record(pool.archive.resolve(), archive, data, moving, today)
    journal = Journal(run=_run_id(found.request), active=pool.active.resolve(), batch=batch)
    desk.write(disk, journal)
    try:
        batches.append(disk, batch, data, like=journal.active)
        batches.verify(batch, moving)
        publish.publish(disk, desk, journal, publish.without(batch, found.active.log))
    except ColdsparkError:
        _roll_back(disk, desk)
        raise
    batches.note(disk, desk, journal.run, batch)
    done += publish.absorb(disk, desk, journal.run, journal.active)
    desk.close(disk)
    publish.tidy(disk, desk)
    return _with_daylog(found, disk, report.moved(found, done))


def _roll_back(disk: Disk, desk: Desk) -> None:
    """Undoes a move whose publication did not happen; one that did happen is left to the next run to close."""
    journal = desk.read()
    if journal is None or journal.batch is None:
        return
    if journal.publication is not None and publish.has_happened(disk, journal.active, journal.publication):
        return
    recover.withdraw(disk, desk, journal)
    batches.undo(disk, journal.batch, journal.active)
    desk.close(disk)


def _with_daylog(found: Survey, disk: Disk, result: CompactResult) -> CompactResult:
    knowledge = found.request.pool.knowledge_dir
    folder = knowledge / "daylog" if knowledge else None
    if folder is None or not folder.is_dir():
        return result
    before, after = found.size, result.active
    line = (
        f"- coldspark: {result.archived} sparks archived, {result.kept} kept"
        f" ({before.lines} -> {after.lines} lines, {before.bytes // 1024} -> {after.bytes // 1024} KB)\n"
    )
    path = folder / f"{found.request.today}.md"
    try:
        known = path.read_bytes() if path.exists() else b""
        disk.append(path, (b"\n" if known and not known.endswith(b"\n") else b"") + line.encode(), mode=0o644)
    except (WriteFailedError, OSError) as error:
        warning = FileWarning(file=str(path), message=f"the compaction is complete, but the daylog has no line of it: {error}")
        return result.model_copy(update={"warnings": [*result.warnings, warning]})
    return result


def _nothing_to_do(found: Survey, done: list[str] | None = None) -> CompactResult:
    return report.untouched(found, "nothing-to-archive" if found.is_due else "already-compact", done or [])


def _run_id(request: Request) -> str:
    return f"{request.settings.clock():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"
