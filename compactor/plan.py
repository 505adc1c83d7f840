"""From a parsed active file and the rules to a plan: what moves, what stays, and what holds the file over its target. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from compactor.rules import Context, Decision, Windows, decide
from models.entry import Entry
from models.log import Log
from models.pool import PlacedEntry
from models.results import HeldByRule
from models.settings import Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """One active entry and what happens to it."""

    placed: PlacedEntry
    decision: Decision

    @property
    def moves(self) -> bool:
        """Whether the entry goes to the archive."""
        return self.decision.action == "archive"

    def kept(self, rule: str) -> Planned:
        """The same entry, to stay by *rule*."""
        return replace(self, decision=Decision("keep", rule, self.decision.age_days))


@dataclass(frozen=True)
class Plan:
    """Decisions for every active entry, in file order."""

    rows: tuple[Planned, ...]

    @property
    def moving(self) -> list[Entry]:
        """Entries to archive, in file order."""
        return [r.placed.entry for r in self.rows if r.moves]

    def held(self) -> list[HeldByRule]:
        """What stays, by rule, largest first."""
        count: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for row in self.rows:
            if not row.moves:
                count[row.decision.rule] += 1
                size[row.decision.rule] += len(row.placed.entry.raw)
        return [HeldByRule(rule=rule, entries=count[rule], bytes=n) for rule, n in size.most_common()]


def make_plan(log: Log, placed: list[PlacedEntry], context: Context, settings: Settings) -> Plan:
    """Applies the rules; with `fit_to_limit`, shortens the windows until the file is under `limit_bytes`."""
    plan = _apply(placed, context)
    if not settings.fit_to_limit or size_after(log, plan)[1] < settings.limit_bytes:
        return plan
    for _, tighter in _ever_tighter(placed, context):
        plan = _marked_fit(tighter, plan)
        if size_after(log, plan)[1] < settings.limit_bytes:
            break
    return plan


def fitting_windows(log: Log, placed: list[PlacedEntry], context: Context, fits: Callable[[int, int], bool]) -> Windows | None:
    """The longest windows of rows 7 to 10 under which the file *fits* (given lines and bytes); None when none does."""
    found = (windows for windows, plan in _ever_tighter(placed, context) if fits(*size_after(log, plan)))
    return next(found, None)


def size_after(log: Log, plan: Plan) -> tuple[int, int]:
    """Lines and bytes of the active file once the plan is carried out."""
    gone = plan.moving
    data = sum(len(s.raw) for s in log.spans) - sum(len(e.raw) for e in gone)
    lines = sum(s.raw.count(b"\n") for s in log.spans) - sum(e.raw.count(b"\n") for e in gone)
    return lines, data


def _ever_tighter(placed: list[PlacedEntry], context: Context) -> Iterator[tuple[Windows, Plan]]:
    """Plans under windows that shrink together, day by day, as far as they go."""
    windows = context.windows
    for days in range(1, 36_500):
        tighter = context.windows.shrunk(days)
        if tighter == windows:
            return
        windows = tighter
        yield windows, _apply(placed, replace(context, windows=windows))


def _apply(placed: list[PlacedEntry], context: Context) -> Plan:
    return Plan(tuple(Planned(p, decide(p.entry, context)) for p in placed))


def _marked_fit(tighter: Plan, plan: Plan) -> Plan:
    """*tighter*, its additional moves marked as made to fit."""

    def mark(new: Planned, old: Planned) -> Planned:
        fits = new.moves and (not old.moves or old.decision.rule.endswith(" fit"))
        return Planned(new.placed, replace(new.decision, rule=f"{new.decision.rule} fit")) if fits else new

    return Plan(tuple(mark(n, o) for n, o in zip(tighter.rows, plan.rows, strict=True)))
