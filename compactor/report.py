"""What a compaction did or would do, as its result."""

from __future__ import annotations

from typing import Literal

from compactor.plan import Planned, fitting_windows, size_after
from compactor.survey import Survey, over_target, tier_size
from models.entry import readable
from models.log import parse
from models.memory_file import read_bytes, state_of
from models.results import ArchiveSize, CompactResult, DecisionView, FileWarning, TierSize
from models.views import file_warnings

Status = Literal["compacted", "already-compact", "nothing-to-archive", "planned"]


def untouched(survey: Survey, status: Status, done: list[str]) -> CompactResult:
    """Of a run that moved nothing; a plan counts what would move. *done* are sentences about an earlier run."""
    count = len(survey.plan.moving) if status == "planned" else 0
    size = len(survey.archive.data) if survey.archive else 0
    return _result(survey, status, done, moved=count, active=survey.size, archive=_archive_size(survey, size, _archived(survey)))


def moved(survey: Survey, done: list[str]) -> CompactResult:
    """Of a run that moved what was planned."""
    count = len(survey.plan.moving)
    state = state_of(survey.request.pool.archive)
    archive = _archive_size(survey, state.size if state else 0, _archived(survey) + count)
    return _result(survey, "compacted", done, moved=count, active=_active_now(survey), archive=archive, conserved=_conservation(survey))


def _archive_size(survey: Survey, size: int, entries: int) -> ArchiveSize:
    return ArchiveSize(file=readable(str(survey.request.pool.archive)), bytes=size, entries=entries)


def _active_now(survey: Survey) -> TierSize:
    """The active file's size after the move; it is parsed only when somebody wrote to it meanwhile."""
    data, _ = read_bytes(survey.request.pool.active, "active file")
    expected = len(data) == size_after(survey.active.log, survey.plan)[1]
    count = len(survey.plan.rows) - len(survey.plan.moving) if expected else len(parse(data).entries)
    return tier_size(data, count, survey.request.settings)


def _archived(survey: Survey) -> int:
    return sum(len(f.log.entries) for f in survey.snapshot.tier("archive"))


def _conservation(survey: Survey) -> str:
    """What came in is what stayed and what moved, in entries and bytes."""
    rows, moving = survey.plan.rows, survey.plan.moving
    size, gone = sum(len(r.placed.entry.text) for r in rows), sum(len(e.text) for e in moving)
    return (
        f"{len(rows)} entries ({size} bytes) = {len(rows) - len(moving)} kept ({size - gone} bytes) + {len(moving)} archived ({gone} bytes)"
    )


def _result(
    survey: Survey, status: Status, done: list[str], *, moved: int, active: TierSize, archive: ArchiveSize, conserved: str | None = None
) -> CompactResult:
    plan, request = survey.plan, survey.request
    notes = [FileWarning(file=readable(str(path)), line=line, message=message) for path, line, message in survey.knowledge.warnings]
    notes += [FileWarning(file=readable(str(request.pool.active)), message=sentence) for sentence in done]
    return CompactResult(
        status=status, pool=request.pool.name, today=request.today.isoformat(), archived=moved, kept=len(plan.rows) - moved,
        active=active, archive=archive, decisions=[_decision_view(row) for row in plan.rows], held=plan.held(), advice=_advice(survey),
        warnings=file_warnings(survey.snapshot) + notes, conserved=conserved,
    )  # fmt: skip


def _advice(survey: Survey) -> str | None:
    """How to bring the file under its targets when the rules do not."""
    settings, log = survey.request.settings, survey.active.log
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
