"""Dates that a question names, and how near an entry's own date comes to them. Pure.

Understood are 2026-04-07, 7 April 2026, April 7th, April 2026, "in April" and "in 2026", each also behind since, after,
before or until. What is a word as often as a month (may, march) counts only with a day, a year or a word such as "in"
beside it.
"""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ordinals = NDArray[np.int64]
    """Days since 0001-01-01, as `date.toordinal` counts; 0 for an entry without a date."""

HALF_LIFE_DAYS = 2.0
"""An entry so many days off the named dates is half as near."""
MOST_DATES = 16
"""What a question names behind so many is left out."""

Bound = Literal["since", "after", "before", "until", "till"]

_FAR = 0.5**10
_LEAP_YEAR = 2000
_ALWAYS = dt.date.max.toordinal()
_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
_NUMBER = {name: n for n, name in enumerate(_MONTHS, 1)} | {name[:3]: n for n, name in enumerate(_MONTHS, 1)} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_NUMBER, key=len, reverse=True))})\b\.?"
_FULL = rf"(?P<month>{'|'.join(m for m in _MONTHS if m not in ('march', 'may'))})\b"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_BEFORE = r"\b(?:in|of|during|since|until|till|from|before|after|early|mid|late|last|between)\s+(?:the\s+)?"
_SEASON = r"(?:(?:year|spring|summer|autumn|fall|winter)\s+(?:of\s+)?)?"
_BOUND = re.compile(rf"\b({'|'.join(get_args(Bound))})\s+(?:the\s+)?(?:{_SEASON})$", re.IGNORECASE | re.ASCII)
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        r"\b(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})(?!\d)",
        r"\b(?P<year>(?:19|20)\d\d)-(?P<month>0[1-9]|1[0-2])\b(?!-)",
        rf"\b{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}",
        rf"\b{_MONTH}\s+{_DAY},?\s+{_YEAR}",
        rf"\b{_MONTH},?\s+(?:of\s+)?{_YEAR}",
        rf"(?<![\w.]){_DAY}\s+(?:of\s+)?{_FULL}",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)\s+(?:of\s+)?{_MONTH}",
        rf"\b(?:on|of|since|until|till|from|before|after|the)\s+{_DAY}\s+(?:of\s+)?{_MONTH}",
        rf"\b{_MONTH}\s+{_DAY}(?!\s*[%:.]?\d)",
        rf"{_BEFORE}{_MONTH}",
        rf"\b{_FULL}",
        rf"{_BEFORE}{_SEASON}{_YEAR}",
    )
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A day, a month or a year; without a year, that of every year. `text` is how the question wrote it, `bound` what stood before."""

    year: int | None
    month: int | None
    day: int | None
    text: str
    bound: Bound | None = None

    def days(self, year: int) -> tuple[int, int] | None:
        """First and last day as ordinals, with *year* in place of a year that was not named; None when there is no such day."""
        year = year if self.year is None else self.year
        month_from, month_to = (1, 12) if self.month is None else (self.month, self.month)
        try:
            first = dt.date(year, month_from, 1 if self.day is None else self.day)
            last = first if self.day is not None else dt.date(year, month_to, monthrange(year, month_to)[1])
        except ValueError:
            return None
        return first.toordinal(), last.toordinal()


def named_dates(question: str) -> list[NamedDate]:
    """The dates that *question* names, in order of where they stand; each part of it is read once."""
    found: dict[int, NamedDate] = {}
    rest = question
    for form in _FORMS:
        at = 0
        while len(found) < MOST_DATES and (m := form.search(rest, at)):
            at = m.end()
            rest = rest[: m.start()] + "\0" * (m.end() - m.start()) + rest[m.end() :]
            if (date := _read(m)) is not None:
                found[m.start()] = date
    return list(dict.fromkeys(found[start] for start in sorted(found)))


def _read(m: re.Match[str]) -> NamedDate | None:
    """The date of one match; None when no calendar has it."""
    year, month, day = (m.groupdict().get(part) for part in ("year", "month", "day"))
    number = (int(month) if month.isdigit() else _NUMBER[month.casefold()]) if month else None
    begin = min(m.start(part) for part, value in m.groupdict().items() if value)
    before = _BOUND.search(m.string[:begin])
    bound: Bound | None = before[1].casefold() if before else None  # type: ignore[assignment]
    date = NamedDate(int(year) if year else None, number, int(day) if day else None, m.string[begin : m.end()], bound)
    return date if date.days(_LEAP_YEAR) is not None else None


def nearness(date: NamedDate, days: Ordinals) -> NDArray[np.float64]:
    """How near each entry's day comes to *date*: 1 within it, less outside, halved every two days; 0 without a date."""
    best = np.zeros(len(days))
    for first, last in _spans(date, days):
        gap = np.maximum(np.maximum(first - days, days - last), 0)
        best = np.maximum(best, 0.5 ** (gap / HALF_LIFE_DAYS))
    return np.where((days > 0) & (best > _FAR), best, 0.0)


def _spans(date: NamedDate, days: Ordinals) -> list[tuple[int, int]]:
    """The spans of days that *date* can mean among entries of these days; one that is bounded on a side means the latest."""
    dated = days[days > 0]
    if not len(dated):
        return []
    about = np.unique((dated / 365.2425).astype(np.int64) + 1).tolist()
    years = [date.year] if date.year is not None else sorted({year + off for year in about for off in (-1, 0, 1)})
    spans = [span for year in years if (span := date.days(year)) is not None]
    if date.bound is None:
        return spans
    begun = [span for span in spans if span[0] <= int(dated.max())] or spans
    return [_bounded(date.bound, *begun[-1])] if begun else []


def _bounded(bound: Bound, first: int, last: int) -> tuple[int, int]:
    spans = {"since": (first, _ALWAYS), "after": (last + 1, _ALWAYS), "before": (1, first - 1), "until": (1, last), "till": (1, last)}
    return spans[bound]
