"""The rule table: for every entry, keep or archive, and by which rule. Pure.

Age counts whole calendar days; "older than N days" begins at day N + 1. The first row that matches decides.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from models.entry import Entry
from models.settings import Settings

Action = Literal["keep", "archive"]

SHORTEST_WINDOW = 7
"""Days below which `fit_to_limit` pushes no window."""


@dataclass(frozen=True, slots=True)
class Windows:
    """How long entries stay, in days."""

    recent: int = 7
    release_grace: int = 7
    signal: int = 7
    swarm: int = 14
    park: int = 30
    dream: int = 30
    resonant: int = 30

    @classmethod
    def of(cls, settings: Settings) -> Windows:
        """The windows that the settings ask for."""
        s = settings
        grace = s.recent_days if s.release_grace_days is None else s.release_grace_days
        resonant = s.dream_days if s.resonant_days is None else s.resonant_days
        return cls(s.recent_days, grace, s.signal_days, s.swarm_days, s.park_days, s.dream_days, resonant)

    def shrunk(self, days: int) -> Windows:
        """Rows 7 to 10 shorter by *days*, none pushed below SHORTEST_WINDOW."""

        def less(window: int) -> int:
            return min(window, max(SHORTEST_WINDOW, window - days))

        return replace(
            self, signal=less(self.signal), swarm=less(self.swarm), park=less(self.park),
            dream=less(self.dream), resonant=less(self.resonant),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Context:
    """What the rules need to know beyond the entry."""

    today: dt.date
    windows: Windows
    is_alive: Callable[[Entry], bool]
    is_consumed: Callable[[Entry], bool]


class Decision(NamedTuple):
    """What happens to one entry; `rule` begins with the row's number."""

    action: Action
    rule: str
    age_days: int | None


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table."""

    name: str
    action: Action
    matches: Callable[[Entry, int, Context], bool]


def _verdict(entry: Entry, word: str) -> bool:
    return entry.verdict is not None and entry.verdict.word == word


def _recent(entry: Entry, age: int, c: Context) -> bool:
    if age <= c.windows.recent and c.windows.release_grace < c.windows.recent and _verdict(entry, "release"):
        return age <= c.windows.release_grace and c.windows.release_grace > 0
    return age <= c.windows.recent


def _spent_signal(entry: Entry, age: int, c: Context) -> bool:
    if entry.heading.has("expired"):
        return True
    return entry.heading.has("ext-signal") and age > c.windows.signal and not entry.heading.has("consumed") and not c.is_consumed(entry)


def _faded_dream(entry: Entry, age: int, c: Context) -> bool:
    shorter, longer = sorted((c.windows.resonant, c.windows.dream))
    if age <= shorter or entry.kind not in ("dream", "daydream"):
        return False
    return age > longer or age > (c.windows.resonant if entry.signal == "resonant" else c.windows.dream)


def _old_swarm(entry: Entry, age: int, c: Context) -> bool:
    return age > c.windows.swarm and any(t.casefold().startswith("swarm-") for t in entry.heading.tags)


ALIVE = "1 alive"
UNDATED = "2 no-usable-date"
UNEXAMINED = "11 unexamined"
"""What no row matches stays."""
DATED_RULES = (
    Rule("3 recent", "keep", _recent),
    Rule("4 absorbed", "keep", lambda e, _age, _c: _verdict(e, "absorb")),
    Rule("5 dead", "archive", lambda e, _age, _c: e.heading.has("dead")),
    Rule("6 released", "archive", lambda e, _age, _c: _verdict(e, "release")),
    Rule("7 spent-signal", "archive", _spent_signal),
    Rule("8 old-swarm", "archive", _old_swarm),
    Rule("9 stale-park", "archive", lambda e, age, c: age > c.windows.park and _verdict(e, "park")),
    Rule("10 faded-dream", "archive", _faded_dream),
)


def decide(entry: Entry, context: Context) -> Decision:
    """The first row of the table that matches *entry*."""
    date = entry.date
    age = (context.today - date).days if date else None
    if context.is_alive(entry):
        return Decision("keep", ALIVE, age)
    if age is None or age < 0:
        return Decision("keep", UNDATED, age)
    for rule in DATED_RULES:
        if rule.matches(entry, age, context):
            return Decision(rule.action, rule.name, age)
    return Decision("keep", UNEXAMINED, age)
