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

import datetime as dt
import secrets
from dataclasses import dataclass

from compactor import batch as batches
from compactor import publish, recover
from compactor.durable import Disk
from compactor.journal import Desk, Journal
from compactor.lock import held
from compactor.places import check_places
from compactor.plan import Plan, Planned, fitting_windows, make_plan, size_after
from compactor.rules import Context, Windows
from compactor.survival import Knowledge, read_knowledge
from models.errors import ColdsparkError, WriteFailedError
from models.memory_file import state_of
from models.pool import Pool
from models.results import ArchiveSize, CompactResult, DecisionView, FileWarning, TierSize
from models.settings import Settings
from models.snapshot import PoolSnapshot, read_pool
from models.views import file_warnings

BYTES_PER_TOKEN = 4
"""Rough size of a reader's token in English text."""


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
    def is_due(self) -> bool:
        """Whether the active file is over a target, or compaction was forced."""
        return self.size.over_target or self.request.force

    @property
    def is_current(self) -> bool:
        """Whether the files are still the ones that were read, and no other has come."""
        pool = self.request.pool
        read = {f.path: f.state for f in self.snapshot.files}
        return all(state_of(path) == read.get(path) for path in (pool.active, pool.archive, *pool.archive_files()))


def dry_run(request: Request) -> CompactResult:
    """What `compact` would do now; writes nothing at all."""
    survey = _survey(request)
    if not survey.is_due:
        return _result(survey, "already-compact", survey.plan, moved=0)
    return _result(survey, "planned", survey.plan, moved=len(survey.plan.moving))


def compact(request: Request, disk: Disk, wait_seconds: float = 5.0) -> CompactResult:
    """Compacts one pool, finishing any run that was cut short before.

    Raises MissingFileError, UnreadableFileError, BrokenSurvivalLogError, BusyError, RefusedError, WriteFailedError;
    the entries are all there afterwards, whichever it is.
    """
    pool = request.pool
    desk = Desk.of(pool)
    first = None if recover.is_needed(desk) else _survey(request)
    if first is not None:
        if not first.is_due or not first.plan.moving:
            return _nothing_to_do(first)
        check_places(pool)
    desk.prepare(disk)
    with held(desk.lock, f"memory {pool.name}", wait_seconds):
        done = recover_pool(request, desk, disk)
        check_places(pool)
        survey = first if first is not None and first.is_current else _survey(request)
        if not survey.is_due or not survey.plan.moving:
            return _nothing_to_do(survey, done)
        return _move(survey, desk, disk, done)


def recover_pool(request: Request, desk: Desk, disk: Disk) -> list[str]:
    """Settles whatever an earlier run left; the caller holds the lock."""
    journal = desk.read()
    done = [recover.recover(disk, desk, journal)] if journal else []
    done += publish.absorb(disk, desk, _run_id(request), journal.active if journal else request.pool.active.resolve())
    if done:
        desk.close(disk)
        publish.tidy(disk, desk)
    return done


def _survey(request: Request) -> Survey:
    snapshot = read_pool(request.pool)
    if snapshot.problems:
        raise snapshot.problems[0]
    active = snapshot.tier("active")[0]
    knowledge = read_knowledge(request.pool.knowledge_dir)
    context = Context(request.today, Windows.of(request.settings), knowledge.is_alive, knowledge.is_consumed)
    placed = [p for p in snapshot.entries if p.tier == "active"]
    size = tier_size(active.data, len(placed), request.settings)
    plan = make_plan(active.log, placed, context, request.settings)
    plan = _only_what_reads_back(plan, request.today)
    return Survey(request, snapshot, context, knowledge, plan, size)


def _only_what_reads_back(plan: Plan, today: dt.date) -> Plan:
    def check(row: Planned) -> Planned:
        if not row.moves or batches.holds_alone(row.placed.entry, today):
            return row
        return row.kept("11 unexamined: its text holds a batch heading")

    return Plan(tuple(check(row) for row in plan.rows))


def _move(survey: Survey, desk: Desk, disk: Disk, done: list[str]) -> CompactResult:
    pool, today, moving = survey.request.pool, survey.request.today, survey.plan.moving
    archives = [f for f in survey.snapshot.tier("archive") if f.path == pool.archive]
    archive = archives[0].data if archives else None
    data = batches.render(moving, today, archive)
    batch = batches.record(pool.archive.resolve(), archive, data, moving, today)
    journal = Journal(run=_run_id(survey.request), active=pool.active.resolve(), batch=batch)
    desk.write(disk, journal)
    try:
        batches.append(disk, batch, data, like=journal.active)
        batches.verify(batch, moving)
        publish.publish(disk, desk, journal, publish.without(batch))
    except ColdsparkError:
        _roll_back(disk, desk)
        raise
    batches.note(disk, desk, journal.run, batch)
    done += publish.absorb(disk, desk, journal.run, journal.active)
    desk.close(disk)
    publish.tidy(disk, desk)
    return _moved(survey, disk, done)


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


def _moved(survey: Survey, disk: Disk, done: list[str]) -> CompactResult:
    moving = survey.plan.moving
    after = read_pool(survey.request.pool)
    before_count = len(survey.plan.rows)
    size = sum(len(r.placed.entry.text) for r in survey.plan.rows)
    gone = sum(len(e.text) for e in moving)
    conserved = (
        f"{before_count} entries ({size} bytes) = {before_count - len(moving)} kept ({size - gone} bytes)"
        f" + {len(moving)} archived ({gone} bytes)"
    )
    result = _result(survey, "compacted", survey.plan, moved=len(moving), done=done, after=after, conserved=conserved)
    return _with_daylog(survey, disk, result)


def _with_daylog(survey: Survey, disk: Disk, result: CompactResult) -> CompactResult:
    knowledge = survey.request.pool.knowledge_dir
    folder = knowledge / "daylog" if knowledge else None
    if folder is None or not folder.is_dir():
        return result
    before, after = survey.size, result.active
    line = (
        f"- coldspark: {result.archived} sparks archived, {result.kept} kept"
        f" ({before.lines} -> {after.lines} lines, {before.bytes // 1024} -> {after.bytes // 1024} KB)\n"
    )
    path = folder / f"{survey.request.today}.md"
    try:
        known = path.read_bytes() if path.exists() else b""
        disk.append(path, (b"\n" if known and not known.endswith(b"\n") else b"") + line.encode(), mode=0o644)
    except (WriteFailedError, OSError) as error:
        warning = FileWarning(file=str(path), message=f"the compaction is complete, but the daylog has no line of it: {error}")
        return result.model_copy(update={"warnings": [*result.warnings, warning]})
    return result


def _nothing_to_do(survey: Survey, done: list[str] | None = None) -> CompactResult:
    status = "nothing-to-archive" if survey.is_due else "already-compact"
    return _result(survey, status, survey.plan, moved=0, done=done or [])


def _result(
    survey: Survey, status: str, plan: Plan, *, moved: int, done: list[str] | None = None,
    after: PoolSnapshot | None = None, conserved: str | None = None,
) -> CompactResult:  # fmt: skip
    request, snapshot = survey.request, after or survey.snapshot
    active = snapshot.tier("active")[0]
    archive = [f for f in snapshot.tier("archive") if f.path == request.pool.archive]
    warnings = file_warnings(survey.snapshot) + [
        FileWarning(file=str(path), line=line, message=message) for path, line, message in survey.knowledge.warnings
    ]
    warnings += [FileWarning(file=str(active.path), message=sentence) for sentence in done or []]
    return CompactResult.model_validate({
        "status": status, "pool": request.pool.name, "today": request.today.isoformat(),
        "archived": moved, "kept": len(plan.rows) - moved,
        "active": tier_size(active.data, len(active.log.entries), request.settings),
        "archive": ArchiveSize(
            file=str(request.pool.archive), bytes=len(archive[0].data) if archive else 0,
            entries=sum(len(f.log.entries) for f in snapshot.tier("archive")),
        ),
        "decisions": [_decision_view(row) for row in plan.rows],
        "held": plan.held(), "advice": _advice(survey), "warnings": warnings, "conserved": conserved,
    })  # fmt: skip


def _advice(survey: Survey) -> str | None:
    """How to bring the file under its targets when the rules do not."""
    settings, log = survey.request.settings, survey.snapshot.tier("active")[0].log
    placed = [row.placed for row in survey.plan.rows]

    def fits(lines: int, data: int) -> bool:
        return not over_target(lines, data, settings)

    if not survey.is_due or fits(*size_after(log, survey.plan)):
        return None
    w = fitting_windows(log, placed, survey.context, fits)
    if w is None:
        return "no window of rules 7 to 10 brings the file under its targets: what holds it there is kept by the other rules"
    return (
        f"it would come under its targets with signal_days {w.signal}, swarm_days {w.swarm}, park_days {w.park},"
        f" dream_days {w.dream}, resonant_days {w.resonant}"
    )


def _decision_view(row: Planned) -> DecisionView:
    d = row.decision
    return DecisionView(id=row.placed.id, title=row.placed.entry.title, rule=d.rule, action=d.action, age_days=d.age_days)


def tier_size(data: bytes, entries: int, settings: Settings) -> TierSize:
    """How large a file is: lines as an editor counts them, bytes, entries, and whether any target is passed."""
    lines = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)
    return TierSize(lines=lines, bytes=len(data), entries=entries, over_target=over_target(lines, len(data), settings))


def over_target(lines: int, size: int, settings: Settings) -> bool:
    """Whether a file of so many lines and bytes reaches any target."""
    too_many_tokens = settings.target_tokens is not None and size / BYTES_PER_TOKEN >= settings.target_tokens
    return lines >= settings.target_lines or size >= settings.target_bytes or too_many_tokens


def _run_id(request: Request) -> str:
    return f"{request.settings.clock():%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"
