"""Plans: what moves, what stays by which rule, and shorter windows when the file must fit its reader."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from compactor.plan import Plan, fitting_windows, make_plan
from compactor.rules import Context, Windows
from models.entry import Entry
from models.log import Log, parse
from models.settings import Settings
from models.snapshot import PlacedEntry
from tests.samples import delve

TODAY = dt.date(2026, 6, 15)


def _day(age: int) -> str:
    return (TODAY - dt.timedelta(days=age)).isoformat()


def dream(age: int, *, size: int = 200, tags: str = "[dream]", line: str = "**Pass:** 1") -> bytes:
    """A dream of *age* days and about *size* bytes."""
    return f"### {tags} Day {age} ({_day(age)})\n{line}\n**Connection:** ".encode() + b"x" * size + b"\n\n"


def plan_of(*texts: bytes, alive: str = "never", **settings: Any) -> Plan:
    """The plan for a file of these entries."""
    log: Log = parse(b"".join(texts))
    placed = [PlacedEntry(e.content_id, "default", "active", Path("a.md"), e) for e in log.entries]
    chosen = Settings(**settings)

    def is_alive(entry: Entry) -> bool:
        return alive in entry.title

    return make_plan(log, placed, Context(TODAY, Windows.of(chosen), is_alive, lambda _: False), chosen)


def rules_of(plan: Plan) -> list[str]:
    """The rules, in file order; a plus marks what moves."""
    return [("+" if r.moves else "") + r.decision.rule for r in plan.rows]


def test_a_plan_keeps_the_files_order() -> None:
    """Rows and moving entries stand in the order of the file."""
    plan = plan_of(dream(40), dream(3), dream(60), dream(20))
    assert rules_of(plan) == ["+10 faded-dream", "3 recent", "+10 faded-dream", "11 unexamined"]
    assert [e.title for e in plan.moving] == ["Day 40", "Day 60"]


def test_held_lists_rules_by_size() -> None:
    """What stays is summed by rule, the largest first; what moves is left out."""
    old, big, small = dream(40), dream(3, size=900), dream(20)
    held = plan_of(old, small, big, dream(21), delve("Kept", _day(90), "absorb -- x")).held()
    assert [(h.rule, h.entries) for h in held] == [("3 recent", 1), ("11 unexamined", 2), ("4 absorbed", 1)]
    assert [h.bytes for h in held][:2] == [len(big), len(small) * 2]


def test_held_is_empty_for_an_empty_file() -> None:
    """No entries hold nothing."""
    assert plan_of(b"# Dream Sparks\n").held() == []


def test_an_unfitting_file_is_left_to_the_rules_unless_asked() -> None:
    """Without `fit_to_limit` the windows are what they are set to."""
    assert rules_of(plan_of(dream(25), dream(20), limit_bytes=10)) == ["11 unexamined", "11 unexamined"]


def test_windows_shrink_only_until_the_file_fits() -> None:
    """The oldest go first, one day at a time, and such decisions are marked."""
    texts = [dream(age) for age in (10, 35, 20, 29, 25)]
    limit = sum(len(t) for t in (texts[0], texts[2], texts[4])) + 1
    plan = plan_of(*texts, limit_bytes=limit, fit_to_limit=True)
    assert rules_of(plan) == ["11 unexamined", "+10 faded-dream", "11 unexamined", "+10 faded-dream fit", "11 unexamined"]


def test_a_file_that_fits_is_left_to_the_rules() -> None:
    """`fit_to_limit` changes nothing while the rules leave the file under the limit."""
    texts = [dream(35), dream(25)]
    assert rules_of(plan_of(*texts, limit_bytes=len(texts[1]) + 1, fit_to_limit=True)) == ["+10 faded-dream", "11 unexamined"]


def test_prose_counts_towards_the_limit() -> None:
    """A long preface makes the windows shrink as well."""
    plan = plan_of(b"# Dream Sparks\n" + b"words\n" * 100 + b"\n", dream(25), limit_bytes=700, fit_to_limit=True)
    assert rules_of(plan) == ["+10 faded-dream fit"]


def test_every_shrinking_row_is_marked() -> None:
    """Rows 8 to 10 shrink together and carry their number and `fit`."""
    texts = [
        dream(14, tags="[swarm-docs]"), delve("Parked", _day(25), "park -- x") + b"\n",
        dream(25, tags="[daydream]"), dream(25, line="**Signal:** resonant"),
    ]  # fmt: skip
    expected = ["+8 old-swarm fit", "+9 stale-park fit", "+10 faded-dream fit", "+10 faded-dream fit"]
    assert rules_of(plan_of(*texts, limit_bytes=0, fit_to_limit=True)) == expected


def test_longer_windows_shrink_to_the_end_too() -> None:
    """A signal or resonant window that is set longer shrinks like the others, to a week."""
    texts = [dream(8, tags="[ext-signal]"), dream(8, line="**Signal:** resonant")]
    plan = plan_of(*texts, limit_bytes=0, fit_to_limit=True, signal_days=20, resonant_days=300)
    assert rules_of(plan) == ["+7 spent-signal fit", "+10 faded-dream fit"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (dream(400).replace(b"Day", b"Alive day"), "1 alive"),
        (dream(400).replace(_day(400).encode(), b"2026-02-30"), "2 no-usable-date"),
        (dream(-3), "2 no-usable-date"),
        (dream(7), "3 recent"),
        (dream(7, tags="[dream] [expired]"), "3 recent"),
        (delve("Absorbed", _day(400), "absorb -- x"), "4 absorbed"),
        (delve("No verdict", _day(400), "perhaps"), "11 unexamined"),
        (dream(400, tags="[muse]"), "11 unexamined"),
        (dream(400, tags="[ext-signal] [consumed: 2026-06-01]"), "11 unexamined"),
    ],
)
def test_rows_1_to_4_and_11_never_move(text: bytes, rule: str) -> None:
    """However small the limit, these stay."""
    assert rules_of(plan_of(text, alive="Alive", limit_bytes=0, fit_to_limit=True)) == [rule]


def test_no_window_shrinks_below_a_week() -> None:
    """Day 7 stays and day 8 goes, even when the recent days are set lower."""
    plan = plan_of(dream(7), dream(8), limit_bytes=0, fit_to_limit=True, recent_days=2)
    assert rules_of(plan) == ["11 unexamined", "+10 faded-dream fit"]


def test_moves_of_the_plain_rules_carry_no_mark() -> None:
    """Released and dead entries, and those past their full window, are not marked as made to fit."""
    texts = [delve("Released", _day(8)) + b"\n", dream(8, tags="[muse] [DEAD: x]"), dream(31), dream(30)]
    plan = plan_of(*texts, limit_bytes=0, fit_to_limit=True)
    assert rules_of(plan) == ["+6 released", "+5 dead", "+10 faded-dream", "+10 faded-dream fit"]


def test_the_windows_that_would_fit_are_the_longest() -> None:
    """One day more on every window and the file would not fit; when nothing fits, there are none."""
    log = parse(b"".join(dream(age) for age in (10, 15, 20, 25)))
    placed = [PlacedEntry(e.content_id, "default", "active", Path("a.md"), e) for e in log.entries]
    context = Context(TODAY, Windows(), lambda _: False, lambda _: False)
    two = sum(len(e.raw) for e in log.entries[:2])
    plan = make_plan(log, placed, context, Settings())
    found = fitting_windows(log, plan, context, lambda _lines, size: size <= two)
    assert found == Windows(signal=7, swarm=7, park=19, dream=19, resonant=19)
    assert fitting_windows(log, plan, context, lambda _lines, size: size < 0) is None


def test_a_shorter_window_may_move_by_an_earlier_row() -> None:
    """What moves anyway goes by the first row that matches under the shorter windows, and carries no mark."""
    both, late = dream(13, tags="[dream] [swarm-x]"), dream(9)
    assert rules_of(plan_of(both, late, dream_days=12)) == ["+10 faded-dream", "11 unexamined"]
    assert rules_of(plan_of(both, late, dream_days=12, limit_bytes=0, fit_to_limit=True)) == ["+8 old-swarm", "+10 faded-dream fit"]
