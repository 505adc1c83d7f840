"""From a parsed active file and the rules to a plan: what moves, what stays, and what holds the file over its target. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from compactor.rules import SHORTEST_WINDOW, UNEXAMINED, Context, Decision, Windows, decide
from models.entry import Entry
from models.log import Log
from models.results import HeldByRule
from models.settings import Settings
from models.snapshot import PlacedEntry


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

    @cached_property
    def moving(self) -> list[Entry]:
        """Entries to archive, in file order."""
        return [r.placed.entry for r in self.rows if r.moves]

    @cached_property
    def moving_size(self) -> tuple[int, int]:
        """Lines and bytes of the entries to archive."""
        return _size(self.moving)

    def held(self) -> list[HeldByRule]:
        """What stays, by rule, largest first."""
        count: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for row in self.rows:
            if not row.moves:
                count[row.decision.rule] += 1
                size[row.decision.rule] += row.placed.entry.size
        return [HeldByRule(rule=rule, entries=count[rule], bytes=n) for rule, n in size.most_common()]


def make_plan(log: Log, placed: list[PlacedEntry], context: Context, settings: Settings) -> Plan:
    """Applies the rules; with `fit_to_limit`, shortens the windows until the file is under `limit_bytes`."""
    plan = _apply(placed, context)

    def fits(_lines: int, size: int) -> bool:
        return size < settings.limit_bytes

    if not settings.fit_to_limit or fits(*size_after(log, plan)):
        return plan
    windows, _ = _tightened(log, plan, context, fits)
    return _marked_fit(_apply(placed, replace(context, windows=windows)), plan)


def fitting_windows(log: Log, plan: Plan, context: Context, fits: Callable[[int, int], bool]) -> Windows | None:
    """The longest windows of rows 7 to 10 under which the file *fits* (given lines and bytes), where *plan* leaves too much.

    None when none does.
    """
    windows, size = _tightened(log, plan, context, fits)
    return windows if fits(*size) else None


def size_after(log: Log, plan: Plan) -> tuple[int, int]:
    """Lines and bytes of the active file once the plan is carried out."""
    lines, size = plan.moving_size
    return log.newlines - lines, log.size - size


def _size(entries: list[Entry]) -> tuple[int, int]:
    return sum(e.newlines for e in entries), sum(e.size for e in entries)


def _tightened(log: Log, plan: Plan, context: Context, fits: Callable[[int, int], bool]) -> tuple[Windows, tuple[int, int]]:
    """The windows, shrunk together by as few days as will do, and the lines and bytes they leave; the tightest when nothing does.

    What is archived only grows as the windows shrink, so the number of days can be found by halving; and it can grow only
    by what no other rule keeps, so the rest is not decided again.
    """
    lines, size = size_after(log, plan)
    unexamined = [r.placed.entry for r in plan.rows if r.decision.rule == UNEXAMINED]

    def left(days: int) -> tuple[int, int]:
        tighter = replace(context, windows=context.windows.shrunk(days))
        more = _size([e for e in unexamined if decide(e, tighter).action == "archive"])
        return lines - more[0], size - more[1]

    w = context.windows
    most = max(0, max(w.signal, w.swarm, w.park, w.dream, w.resonant) - SHORTEST_WINDOW)
    days = bisect_left(range(most), x=True, key=lambda day: fits(*left(day)))
    return context.windows.shrunk(days), left(days)


def _apply(placed: list[PlacedEntry], context: Context) -> Plan:
    return Plan(tuple(Planned(p, decide(p.entry, context)) for p in placed))


def _marked_fit(tighter: Plan, plan: Plan) -> Plan:
    """*tighter*, its additional moves marked as made to fit."""

    def mark(new: Planned, old: Planned) -> Planned:
        return Planned(new.placed, new.decision._replace(rule=f"{new.decision.rule} fit")) if new.moves and not old.moves else new

    return Plan(tuple(mark(n, o) for n, o in zip(tighter.rows, plan.rows, strict=True)))
