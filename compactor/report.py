"""What a compaction did or would do, as its result."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

from compactor.plan import Planned, fitting_windows, size_after
from compactor.survey import Survey, over_target, tier_size
from models.log import parse
from models.memory_file import read_bytes, state_of
from models.results import ArchiveSize, CompactResult, DecisionView, FileWarning, TierSize
from models.snapshot import PoolSnapshot
from models.text import readable
from models.views import file_warnings

Status = Literal["compacted", "already-compact", "nothing-to-archive", "planned"]


def untouched(survey: Survey, status: Status, done: list[str]) -> CompactResult:
    """Of a run that moved nothing; a plan counts what would move. *done* are sentences about an earlier run."""
    count = len(survey.plan.moving) if status == "planned" else 0
    return _result(survey, status, done, moved=count, active=survey.size, archive=_archive_size(survey, _archived(survey)))


def moved(survey: Survey, written: bytes, done: list[str]) -> CompactResult:
    """Of a run that moved what was planned, and left *written* as the active file; it is read once more to count what is there."""
    count = len(survey.plan.moving)
    data, _ = read_bytes(survey.request.pool.active, "active file")
    now = None if data == written else Counter(e.version for e in parse(data).entries)
    active = tier_size(data, len(survey.plan.rows) - count if now is None else now.total(), survey.request.settings)
    lost = 0 if now is None else (Counter(r.placed.entry.version for r in survey.plan.rows if not r.moves) - now).total()
    if lost:
        done = [*done, f"{lost} entries that were to stay are not in the active file any more: another program has rewritten it since"]
    archive = _archive_size(survey, _archived(survey) + count)
    return _result(
        survey, "compacted", done, moved=count, active=active, archive=archive, conserved=None if lost else _conservation(survey)
    )


def _archive_size(survey: Survey, entries: int) -> ArchiveSize:
    """The file that this run's batch goes to, and the whole tier's size as it is now."""
    states = (state_of(path) for path in survey.request.pool.archive_files())
    return ArchiveSize(file=readable(str(survey.target)), bytes=sum(s.size for s in states if s), entries=entries)


def _archived(survey: Survey) -> int:
    return sum(placed.tier == "archive" for placed in survey.snapshot.entries)


def _conservation(survey: Survey) -> str:
    """What came in is what stayed and what moved, in entries and bytes, both read back from the disk."""
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
        warnings=file_warnings(_now(survey)) + notes, conserved=conserved,
    )  # fmt: skip


def _now(survey: Survey) -> PoolSnapshot:
    """The files as they were read, with what has been set aside since."""
    return replace(survey.snapshot, set_aside=tuple(survey.request.pool.set_aside()))


def _advice(survey: Survey) -> str | None:
    """How to bring the file under its targets when the rules do not."""
    settings, log = survey.request.settings, survey.active.log

    def fits(lines: int, data: int) -> bool:
        return not over_target(lines, data, settings)

    if not survey.is_due or fits(*size_after(log, survey.plan)):
        return None
    w = fitting_windows(log, survey.plan, survey.context, fits)
    if w is None:
        return "no window of rules 7 to 10 brings the file under its targets: what holds it there is kept by the other rules"
    return (
        f"it would come under its targets with signal_days {w.signal}, swarm_days {w.swarm}, park_days {w.park},"
        f" dream_days {w.dream}, resonant_days {w.resonant}"
    )


def _decision_view(row: Planned) -> DecisionView:
    d = row.decision
    return DecisionView(id=row.placed.id, title=row.placed.entry.title, rule=d.rule, action=d.action, age_days=d.age_days)
