"""Dates that a question names, and how near an entry's day comes to them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.dates import HALF_LIFE_DAYS, NamedDate, named_dates, nearness

Parts = tuple[int | None, int | None, int | None, str]


def parts(question: str) -> list[Parts]:
    """Year, month, day and text of every date that *question* names."""
    return [(d.year, d.month, d.day, d.text) for d in named_dates(question)]


def ordinals(*days: str | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Days as an entry's are kept: ordinals, 0 for none."""
    return np.array([dt.date.fromisoformat(d).toordinal() if d else 0 for d in days], np.int64)


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("2026-04-07", [(2026, 4, 7, "2026-04-07")]),
        ("on 2026/4/7, early", [(2026, 4, 7, "2026/4/7")]),
        ("2026-04", [(2026, 4, None, "2026-04")]),
        ("7 April 2026", [(2026, 4, 7, "7 April 2026")]),
        ("the 7th of april, 2026", [(2026, 4, 7, "7th of april, 2026")]),
        ("April 7th 2026", [(2026, 4, 7, "April 7th 2026")]),
        ("Apr. 7, 2026", [(2026, 4, 7, "Apr. 7, 2026")]),
        ("APRIL 2026", [(2026, 4, None, "APRIL 2026")]),
        ("April of 2026", [(2026, 4, None, "April of 2026")]),
        ("what about 3rd May", [(None, 5, 3, "3rd May")]),
        ("what about Sept 4", [(None, 9, 4, "Sept 4")]),
        ("in may", [(None, 5, None, "may")]),
        ("since last March", [(None, 3, None, "March")]),
        ("september storms", [(None, 9, None, "september")]),
        ("in 2026", [(2026, None, None, "2026")]),
        ("in the spring of 2025", [(2025, None, None, "2025")]),
        ("29 February", [(None, 2, 29, "29 February")]),  # some years have it
        ("between 1 April and 3 June 2026", [(None, 4, 1, "1 April"), (2026, 6, 3, "3 June 2026")]),
        ("in April, in April", [(None, 4, None, "April")]),  # once
        ("3 June 2026, 2026-04-01 and June", [(2026, 6, 3, "3 June 2026"), (2026, 4, 1, "2026-04-01"), (None, 6, None, "June")]),
        ("2026-04-07 02:10 and 2026-04-08\n09:00", [(2026, 4, 7, "2026-04-07"), (2026, 4, 8, "2026-04-08")]),
        ("at 2026-04-07T10:00Z", [(2026, 4, 7, "2026-04-07")]),
    ],
)
def test_named(question: str, found: list[Parts]) -> None:
    """Every common way of writing a day, a month or a year is read, in order, each once."""
    assert parts(question) == found


@pytest.mark.parametrize(
    "question",
    [
        "", "kiln", "2026", "port 2026", "OPS-1234", "12:30", "v1.2.3", "192.168.10.20", "5 kilns",
        "it may rain", "the march of progress", "we march on", "you may", "mayor of April-town2", "decide", "marching", "junebug",
        "30 February 2026", "31 April", "2026-02-29", "2026-13-01", "99 June 2026", "2026-04-31",
        "2026-00-10", "2026-04-00", "0000-01-01", "0 May 2026",  # zeros that no calendar has
        "this may break", "retry and may fail", "it has to march",  # verbs beside a word that could introduce a month
    ],
)  # fmt: skip
def test_nothing_named(question: str) -> None:
    """Numbers, ports, verbs and days that no calendar has name no date."""
    assert [d for d in parts(question) if d[3] != "April"] == []


@pytest.mark.parametrize("question", ["in Apr\u0131l", "in APR\u0130L", "7 Apr\u0131l 2026", "in augu\u017ft", "\u0664 May 2026"])
def test_look_alike_letters_raise_nothing(question: str) -> None:
    """A dotless i, a long s, or another script's digits in a month's name are read or left alone."""
    assert all(d.days(2000) for d in named_dates(question))


@given(st.text())
def test_any_text_can_be_asked(text: str) -> None:
    """Whatever the characters, the dates are distinct and each is a part of the text that some calendar has."""
    found = named_dates(text)
    assert len(set(found)) == len(found)
    assert all(d.text in text and d.days(2000) for d in found)


_WORDS = ["in", "of", "the", "May", "march", "april", "Sept", "7", "07", "7th", "31st", "2026", "1999", "2026-04-07", "2026-04", "-",
          "/", ",", ".", "and", "to", "before", "\n", "0", "99", "\u0131", "%"]  # fmt: skip


@given(st.lists(st.sampled_from(_WORDS), max_size=12).map(" ".join))
def test_any_mixture_of_date_words_can_be_asked(text: str) -> None:
    """Whatever the order of months, numbers and marks, what is found is distinct, in place and on the calendar."""
    found = named_dates(text)
    assert len(set(found)) == len(found)
    assert all(d.text in text and d.days(2000) for d in found)


@given(st.dates(dt.date(1900, 1, 1), dt.date(2099, 12, 31)), st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%d %B %Y", "%B %d, %Y", "%d %b %Y"]))
def test_a_day_is_read_however_it_is_written(day: dt.date, form: str) -> None:
    """Each form gives the day back, and its span is that one day."""
    (found,) = named_dates(f"what was dreamt on {day.strftime(form)}?")
    assert found.days(2000) == (day.toordinal(), day.toordinal())


@pytest.mark.parametrize(
    ("date", "first", "last"),
    [
        (NamedDate(2026, 2, None, "x"), "2026-02-01", "2026-02-28"),
        (NamedDate(2024, 2, None, "x"), "2024-02-01", "2024-02-29"),
        (NamedDate(2026, None, None, "x"), "2026-01-01", "2026-12-31"),
        (NamedDate(None, 12, None, "x"), "2000-12-01", "2000-12-31"),
        (NamedDate(None, 2, 29, "x"), "2000-02-29", "2000-02-29"),
        (NamedDate(2026, 2, 29, "x"), None, None),
    ],
)
def test_spans(date: NamedDate, first: str | None, last: str | None) -> None:
    """A month spans its days, a year its months; a day that is on no calendar has no span."""
    expected = (dt.date.fromisoformat(first).toordinal(), dt.date.fromisoformat(last).toordinal()) if first and last else None
    assert date.days(2000) == expected


def test_nearness_halves_every_two_days() -> None:
    """Within the date it is 1, before and behind it falls alike, far off and without a date it is nothing."""
    days = ordinals("2026-05-04", "2026-05-05", "2026-05-02", "2026-05-06", "2026-06-04", None)
    near = nearness(NamedDate(2026, 5, 4, "4 May 2026"), days)
    assert near.tolist() == pytest.approx([1, 0.5 ** (1 / HALF_LIFE_DAYS), 0.5, 0.5, 0, 0])


def test_a_month_is_near_on_all_its_days() -> None:
    """Every day of the month is as near, its neighbours less."""
    near = nearness(NamedDate(2026, 4, None, "April"), ordinals("2026-04-01", "2026-04-30", "2026-05-02", "2026-03-30", "2025-04-10"))
    assert near.tolist() == pytest.approx([1, 1, 0.5, 0.5, 0])


def test_without_a_year_every_year_counts() -> None:
    """April is April of any year; 29 February is there in leap years alone."""
    assert nearness(NamedDate(None, 4, None, "April"), ordinals("2024-04-10", "2025-04-10", "2026-04-10", None)).tolist() == [1, 1, 1, 0]
    assert nearness(NamedDate(None, 2, 29, "29 February"), ordinals("2024-02-29", "2025-02-27")).tolist() == [1, 0]


@pytest.mark.parametrize(("month", "day", "entry"), [(12, 31, "2026-01-01"), (1, 1, "2025-12-31")])
def test_nearness_crosses_the_new_year(month: int, day: int, entry: str) -> None:
    """A day without a year is near to the day before or after it, though that lies in another year."""
    near = nearness(NamedDate(None, month, day, "x"), ordinals(entry))
    assert near.tolist() == pytest.approx([0.5 ** (1 / HALF_LIFE_DAYS)])


@pytest.mark.parametrize("days", [ordinals(), ordinals(None), ordinals("0001-01-01", "9999-12-31")], ids=["none", "undated", "widest"])
@pytest.mark.parametrize("date", [NamedDate(None, 12, 31, "x"), NamedDate(2026, None, None, "x"), NamedDate(9999, 12, 31, "x")])
def test_any_entries_have_a_nearness(date: NamedDate, days: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """No entries, undated ones, and the calendar's first and last day get a number from 0 to 1 each."""
    near = nearness(date, days)
    assert len(near) == len(days)
    assert ((near >= 0) & (near <= 1)).all()


@pytest.mark.parametrize(
    ("question", "near"),
    [
        ("since March 2026", [0, 0, 0, 1, 1, 1]),
        ("after March 2026", [0, 0, 0, 0, 0, 1]),
        ("before March 2026", [1, 1, 1, 0, 0, 0]),
        ("until March 2026", [1, 1, 1, 1, 1, 0]),
        ("since March", [0, 0, 0, 1, 1, 1]),  # the latest one there was, not that of every year
        ("since 10 March 2026", [0, 0, 0, 0, 1, 1]),
        ("in March", [0, 0, 1, 1, 1, 0]),
    ],
)
def test_a_bound_is_open_on_one_side(question: str, near: list[int]) -> None:
    """Behind since, after, before and until all days on that side are as near as can be."""
    days = ordinals("2024-01-05", "2025-02-05", "2025-03-05", "2026-03-01", "2026-03-31", "2026-06-01")
    (date,) = named_dates(question)
    assert (nearness(date, days) > 0.9).tolist() == [bool(n) for n in near]
