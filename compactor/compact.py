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
    it as a snapshot, sync folders    the move is finished from step 6 on. Without swapping: (power loss) as behind step 9
12. note the batch's checksum         the same; noted once
13. carry over late appends           they are still in the replaced file's second name; the next run carries them over
14. close the journal, daylog line    nothing; at worst the daylog lacks a line

Before step 10 the active file is untouched; behind it every moved entry is in the archive, verified. So at any
moment every entry is in at least one tier, and after the next run in exactly one. Meanwhile `models.pending` lets every
reader count once what stands twice. A failure before step 10 (a full disk, a foreign write) undoes steps 3 to 9 at once.
`compactor.split` goes the same way from the archive to its shards.

What other programs write meanwhile: an append or rewrite before step 10 is seen in step 8 or 11, and the run begins
again with it; an append through a descriptor opened before step 10 lands in the snapshot and comes over in step 13, or
with the next run. Where files can neither swap nor have a second name (FAT, some network folders), such an append is
lost with the replaced file: the same as with every editor that saves by renaming.
"""

from __future__ import annotations

import os

from compactor import batch as batches
from compactor import moving, publish, report
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.lock import held
from compactor.moving import Move
from compactor.places import check_places, check_private
from compactor.survey import Request, Survey, survey
from models.errors import WriteFailedError
from models.pool import real
from models.results import CompactResult, FileWarning
from models.settings import Settings


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
    check_private(pool)
    first = None if moving.is_needed(pool) else survey(request)
    if first is not None:
        if not first.is_due or not first.plan.moving:
            return _nothing_to_do(first)
        check_places(pool, appended=(first.target,))
    desk.prepare(disk)
    with held(desk.lock, f"memory {pool.name}", wait_seconds):
        done = moving.settle(pool, disk, run_id(request.settings))
        found = first if first is not None and first.is_current else survey(request)
        if not found.is_due or not found.plan.moving:
            return _nothing_to_do(found, done)
        check_places(pool, appended=(found.target,))
        return _move(found, desk, disk, done)


def _move(found: Survey, desk: Desk, disk: Disk, done: list[str]) -> CompactResult:
    pool, today, entries = found.request.pool, found.request.today, found.plan.moving
    archive = found.archive.data if found.archive else None
    data = batches.render(entries, today, archive)
    batch = batches.record(real(found.target), archive, data, entries, today)
    run, like = run_id(found.request.settings), pool.archive if pool.archive.exists() else pool.active
    move = Move(run, batch, data, entries, publish.without(batch, found.active.log), like)
    new = moving.carry_out(disk, desk, move)
    done += moving.finish(disk, desk, move)
    return _with_daylog(found, disk, report.moved(found, new, done))


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


def run_id(settings: Settings) -> str:
    """A name for one run, in the order of time."""
    return f"{settings.clock():%Y%m%dT%H%M%S}-{os.urandom(3).hex()}"
