"""Every row of the rule table at its boundaries, the order of the rows, and windows as settings."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from compactor.rules import Context, Windows, decide
from models.entry import Entry
from models.log import parse
from models.settings import Settings

TODAY = dt.date(2026, 6, 15)


def entry(tags: str, age: int, *lines: str, title: str = "A title", mark: str = "") -> Entry:
    """An entry that is *age* days old."""
    text = f"### {tags} {title} ({TODAY - dt.timedelta(days=age)}){mark}\n" + "".join(f"{line}\n" for line in lines)
    return parse(text.encode()).entries[0]


def ruled(e: Entry, *, alive: bool = False, consumed: bool = False, **settings: Any) -> tuple[str, str]:
    """(action, rule) for the entry."""
    context = Context(TODAY, Windows.of(Settings(**settings)), lambda _: alive, lambda _: consumed)
    d = decide(e, context)
    return d.action, d.rule


RELEASE, PARK, ABSORB = "**Verdict:** release -- no", "**Verdict:** park -- later", "**Verdict:** absorb -- yes"


@pytest.mark.parametrize(
    ("tags", "age", "lines", "expected"),
    [
        ("[delve]", 0, [RELEASE], ("keep", "3 recent")),
        ("[delve]", 7, [RELEASE], ("keep", "3 recent")),
        ("[delve]", 8, [RELEASE], ("archive", "6 released")),
        ("[delve]", 8, ["**Verdict:** RELEASE — no"], ("archive", "6 released")),
        ("[delve]", 7, [ABSORB], ("keep", "3 recent")),
        ("[delve]", 8, [ABSORB], ("keep", "4 absorbed")),
        ("[delve]", 4000, [ABSORB], ("keep", "4 absorbed")),
        ("[delve]", 30, [PARK], ("keep", "11 unexamined")),
        ("[delve]", 31, [PARK], ("archive", "9 stale-park")),
        ("[delve]", 400, [], ("keep", "11 unexamined")),
        ("[delve]", 400, ["**Verdict:** release\u200b -- stale"], ("keep", "11 unexamined")),  # it only nearly matches
        ("[delve]", 400, ["**Verdict:** maybe release"], ("keep", "11 unexamined")),
        ("[delve]", 8, [RELEASE, ABSORB], ("keep", "4 absorbed")),  # the last verdict counts
        ("[delve]", 8, [ABSORB, RELEASE], ("archive", "6 released")),
        ("[dream]", 8, [RELEASE], ("keep", "11 unexamined")),  # only a delve has a verdict
        ("[dream]", 7, [], ("keep", "3 recent")),
        ("[dream]", 30, [], ("keep", "11 unexamined")),
        ("[dream]", 31, [], ("archive", "10 faded-dream")),
        ("[Dream]", 31, [], ("archive", "10 faded-dream")),
        ("[daydream]", 30, [], ("keep", "11 unexamined")),
        ("[daydream]", 31, [], ("archive", "10 faded-dream")),
        ("[dream]", 31, ["**Signal:** resonant"], ("archive", "10 faded-dream")),
        ("[ext-signal]", 7, [], ("keep", "3 recent")),
        ("[ext-signal]", 8, [], ("archive", "7 spent-signal")),
        ("[dream] [ext-signal]", 8, [], ("archive", "7 spent-signal")),  # 7 comes before 10
        ("[dream] [expired]", 7, [], ("keep", "3 recent")),
        ("[dream] [expired]", 8, [], ("archive", "7 spent-signal")),
        ("[muse] [expired]", 8, [], ("archive", "7 spent-signal")),
        ("[delve] [expired]", 400, [ABSORB], ("keep", "4 absorbed")),  # 4 comes before 7
        ("[delve] [expired]", 8, [RELEASE], ("archive", "6 released")),  # 6 comes before 7
        ("[swarm-docs]", 14, [], ("keep", "11 unexamined")),
        ("[swarm-docs]", 15, [], ("archive", "8 old-swarm")),
        ("[SWARM-docs]", 15, [], ("archive", "8 old-swarm")),
        ("[swarm]", 400, [], ("keep", "11 unexamined")),
        ("[dream] [swarm-docs]", 15, [], ("archive", "8 old-swarm")),
        ("[swarm-docs] [expired]", 15, [], ("archive", "7 spent-signal")),  # 7 comes before 8
        ("[research]", 400, [], ("keep", "11 unexamined")),
        ("[muse]", 400, [], ("keep", "11 unexamined")),
        ("[noise]", 400, [], ("keep", "11 unexamined")),
        ("[prior-work] [dream]", 31, [], ("archive", "10 faded-dream")),  # the kind is the first known type tag
        ("[delve] [DEAD: no reader]", 7, [ABSORB], ("keep", "3 recent")),
        ("[delve] [DEAD: no reader]", 8, [PARK], ("archive", "5 dead")),
        ("[delve] [DEAD: no reader]", 8, [RELEASE], ("archive", "5 dead")),  # 5 comes before 6
        ("[delve] [DEAD: no reader]", 400, [ABSORB], ("keep", "4 absorbed")),  # 4 comes before 5
        ("[muse] [dead: any case]", 8, [], ("archive", "5 dead")),
    ],
)
def test_the_first_row_that_matches_decides(tags: str, age: int, lines: list[str], expected: tuple[str, str]) -> None:
    """Each row begins on its own day, and yields to the rows above it."""
    assert ruled(entry(tags, age, *lines)) == expected


@pytest.mark.parametrize(
    ("tags", "lines"),
    [("[delve]", [RELEASE]), ("[dream] [expired]", []), ("[swarm-x]", []), ("[delve] [DEAD: x]", []), ("[delve]", [PARK]), ("[muse]", [])],
)
def test_alive_comes_before_every_other_row(tags: str, lines: list[str]) -> None:
    """What the survival log calls alive stays, whatever else it is."""
    assert ruled(entry(tags, 4000, *lines), alive=True) == ("keep", "1 alive")


def test_alive_comes_before_a_missing_date() -> None:
    """An undated entry that is alive is kept as alive."""
    undated = parse(b"### [dream] No date\n").entries[0]
    assert ruled(undated, alive=True) == ("keep", "1 alive")


@pytest.mark.parametrize("stamp", ["", "(2026-02-30)", "(2026-02-30 25:61)", "(2026-13-01)", "(yesterday)", "(0000-01-01)"])
def test_an_entry_without_a_usable_date_stays(stamp: str) -> None:
    """No date, or one that the calendar lacks, is never a reason to archive, not even with a verdict or mark."""
    for head, body in (("[delve]", RELEASE), ("[dream] [expired]", ""), ("[delve] [DEAD: x]", "")):
        e = parse(f"### {head} Title {stamp}\n{body}\n".encode()).entries[0]
        assert ruled(e) == ("keep", "2 no-usable-date")
        assert [w.line for w in e.warnings] == [1]


@pytest.mark.parametrize("age", [-1, -400])
def test_a_date_in_the_future_stays(age: int) -> None:
    """Tomorrow's entry stays, even with no grace at all."""
    assert ruled(entry("[delve]", age, RELEASE), release_grace_days=0, recent_days=0) == ("keep", "2 no-usable-date")


def test_an_impossible_time_still_has_a_day() -> None:
    """A stamp whose time is wrong ages by its day."""
    e = parse(b"### [dream] Late (2026-01-01 25:61)\n").entries[0]
    assert ruled(e) == ("archive", "10 faded-dream")


@pytest.mark.parametrize("mark", ["", " [consumed: 2026-06-10]", " [Consumed: 2026-06-10]"])
def test_a_consumed_signal_is_not_spent(mark: str) -> None:
    """A signal that a session took up, by its mark or by the session log, stays."""
    e = entry("[ext-signal]", 400, mark=mark)
    assert ruled(e, consumed=not mark) == ("keep", "11 unexamined")


def test_a_consumed_signal_that_is_a_dream_fades_as_one() -> None:
    """Consumption saves a dream from row 7, not from row 10."""
    e = entry("[dream] [ext-signal]", 30, mark=" [consumed: 2026-06-10]")
    assert ruled(e) == ("keep", "11 unexamined")
    e = entry("[dream] [ext-signal]", 31, mark=" [consumed: 2026-06-10]")
    assert ruled(e) == ("archive", "10 faded-dream")


def test_an_expired_signal_is_spent_even_when_consumed() -> None:
    """The expired mark alone sends an entry to the archive."""
    assert ruled(entry("[ext-signal] [expired]", 8), consumed=True) == ("archive", "7 spent-signal")


@pytest.mark.parametrize(
    ("settings", "age", "action"),
    [
        ({"release_grace_days": 0}, 0, "archive"),
        ({"release_grace_days": 0}, 1, "archive"),
        ({"release_grace_days": 3}, 3, "keep"),
        ({"release_grace_days": 3}, 4, "archive"),
        ({"release_grace_days": 30}, 8, "archive"),  # it may only be set lower
        ({"recent_days": 3}, 3, "keep"),
        ({"recent_days": 3}, 4, "archive"),
        ({"recent_days": 10}, 10, "keep"),
        ({"recent_days": 10, "release_grace_days": 8}, 8, "keep"),
        ({"recent_days": 10, "release_grace_days": 8}, 9, "archive"),
    ],
)
def test_the_grace_of_released_delves_is_a_setting(settings: dict[str, Any], age: int, action: str) -> None:
    """`release_grace_days` may shorten the wait of a released delve, to none at all."""
    assert ruled(entry("[delve]", age, RELEASE), **settings)[0] == action


def test_a_short_grace_is_for_released_delves_alone() -> None:
    """Other entries wait out the recent days."""
    for e in (entry("[delve] [DEAD: x]", 7), entry("[dream] [expired]", 7), entry("[delve]", 7, PARK)):
        assert ruled(e, release_grace_days=0) == ("keep", "3 recent")


@pytest.mark.parametrize(
    ("tags", "lines", "settings", "last"),
    [
        ("[ext-signal]", [], {"signal_days": 10}, 10),
        ("[swarm-x]", [], {"swarm_days": 20}, 20),
        ("[delve]", [PARK], {"park_days": 90}, 90),
        ("[dream]", [], {"dream_days": 60}, 60),
        ("[dream]", ["**Signal:** resonant"], {"dream_days": 60}, 60),
        ("[dream]", ["**Signal:** resonant"], {"resonant_days": 90}, 90),
        ("[daydream]", ["**Signal:** Resonant, strongly"], {"resonant_days": 90}, 90),
        ("[dream]", ["**Signal:** faint"], {"resonant_days": 90}, 30),
        ("[dream]", [], {"dream_days": 10, "recent_days": 20}, 20),  # row 3 comes first
    ],
)
def test_windows_are_settings(tags: str, lines: list[str], settings: dict[str, Any], last: int) -> None:
    """A window's last day keeps the entry, the day behind it archives it."""
    assert ruled(entry(tags, last, *lines), **settings)[0] == "keep"
    assert ruled(entry(tags, last + 1, *lines), **settings)[0] == "archive"


def test_age_counts_calendar_days() -> None:
    """The time of day makes no entry older or younger."""
    late = parse(b"### [dream] Late (2026-05-15 23:59)\n").entries[0]
    context = Context(TODAY, Windows(), lambda _: False, lambda _: False)
    assert decide(late, context).age_days == 31


@pytest.mark.parametrize(
    ("days", "windows"),
    [(0, (7, 14, 30, 30, 40)), (1, (7, 13, 29, 29, 39)), (9, (7, 7, 21, 21, 31)), (99, (7, 7, 7, 7, 7))],
)
def test_windows_shrink_together_to_no_less_than_a_week(days: int, windows: tuple[int, ...]) -> None:
    """Signal, swarm, park, dream and resonant windows lose a day each, down to seven; the recent days stay."""
    shrunk = Windows(resonant=40).shrunk(days)
    assert (shrunk.signal, shrunk.swarm, shrunk.park, shrunk.dream, shrunk.resonant) == windows
    assert (shrunk.recent, shrunk.release_grace) == (7, 7)


def test_a_window_below_a_week_is_not_stretched() -> None:
    """A window that is set shorter than the floor stays as it is set."""
    assert Windows(signal=3, swarm=5).shrunk(10).signal == 3
    assert Windows(signal=3, swarm=5).shrunk(10).swarm == 5
