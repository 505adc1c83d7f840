"""What can be asked: bad values are refused with the field's name, never ignored or guessed."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from pydantic import ValidationError

from models.query import LONGEST_QUERY, Filters, RecallRequest


def problems(body: dict[str, Any]) -> list[str]:
    """The dotted names of what is refused in *body*."""
    try:
        RecallRequest.model_validate(body)
    except ValidationError as error:
        return [".".join(str(part) for part in e["loc"]) for e in error.errors()]
    return []


def test_a_query_alone_is_enough() -> None:
    """The defaults ask both tiers for ten whole entries."""
    asked = RecallRequest(query="kiln")
    assert (asked.mode, asked.limit, asked.text, asked.filters) == ("hybrid", 10, "full", Filters())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "   "}, "query"),
        ({"query": "\t\r\n\u00a0\u3000"}, "query"),
        ({"query": "\u200b"}, "query"),
        ({"query": "\u200d\ufeff\u2060\x00"}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"query": "kiln \udfff"}, "query"),
        ({"query": None}, "query"),
        ({"query": 5}, "query"),
        ({"query": ["kiln"]}, "query"),
        ({"query": "a" * (LONGEST_QUERY + 1)}, "query"),
        ({"query": "a", "limit": 0}, "limit"),
        ({"query": "a", "limit": -5}, "limit"),
        ({"query": "a", "limit": "abc"}, "limit"),
        ({"query": "a", "limit": "5"}, "limit"),
        ({"query": "a", "limit": 1.5}, "limit"),
        ({"query": "a", "limit": True}, "limit"),
        ({"query": "a", "limit": None}, "limit"),
        ({"query": "a", "mode": "magic"}, "mode"),
        ({"query": "a", "text": "html"}, "text"),
        ({"query": "a", "q": "b"}, "q"),
        ({"query": "a", "Limit": 5}, "Limit"),
        ({"query": "a", "filters": None}, "filters"),
        ({"query": "a", "filters": []}, "filters"),
        ({"query": "a", "filters": {"knd": ["dream"]}}, "filters.knd"),
        ({"query": "a", "filters": {"tier": ["hot"]}}, "filters.tier.0"),
        ({"query": "a", "filters": {"verdict": ["park", "maybe"]}}, "filters.verdict.1"),
        ({"query": "a", "filters": {"kind": "dream"}}, "filters.kind"),
        ({"query": "a", "filters": {"kind": [5]}}, "filters.kind.0"),
        ({"query": "a", "filters": {"tags": ["\ud800"]}}, "filters.tags.0"),
        ({"query": "a", "filters": {"tags": ["a", " "]}}, "filters.tags.1"),
        ({"query": "a", "filters": {"kind": [""]}}, "filters.kind.0"),
        ({"query": "a", "filters": {"source": ""}}, "filters.source"),
        ({"query": "a", "filters": {"source": "\u200b"}}, "filters.source"),
        ({"query": "a", "filters": {"source": "\ud800"}}, "filters.source"),
        ({"query": "a", "filters": {"source": ["a"]}}, "filters.source"),
        ({"query": "a", "filters": {"since": "2026-05-05", "until": "2026-05-04"}}, "filters"),
    ],
)
def test_a_bad_body_is_refused_by_the_fields_name(body: dict[str, Any], field: str) -> None:
    """Exactly the field at fault is named."""
    assert problems(body) == [field]


@pytest.mark.parametrize("name", ["tier", "kind", "tags", "verdict", "signal", "pool"])
def test_an_empty_list_is_refused(name: str) -> None:
    """It would mean "nothing" to one reader and "anything" to another."""
    assert problems({"query": "a", "filters": {name: []}}) == [f"filters.{name}"]
    assert problems({"query": "a", "filters": {name: None}}) == []


@pytest.mark.parametrize(
    "value",
    [
        5, 1777852800, 0.5, True, "", "yesterday", "2026-02-30", "2026-5-4", "2026-05-04T10:00", "1777852800", "20260504", "2026-W19-1",
        " 2026-05-04", dt.datetime(2026, 5, 4, tzinfo=dt.UTC), [],
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["since", "until"])
def test_only_a_calendar_day_is_a_date(name: str, value: object) -> None:
    """Numbers, moments and other notations are refused."""
    assert problems({"query": "a", "filters": {name: value}}) == [f"filters.{name}"]


def test_a_day_may_be_both_ends() -> None:
    """Dates are inclusive, so the same day twice is a day."""
    day = dt.date(2026, 5, 4)
    asked = Filters.model_validate({"since": "2026-05-04", "until": day})
    assert (asked.since, asked.until) == (day, day)


def test_values_match_whatever_their_case() -> None:
    """Lists are folded; the query and the source stay as typed."""
    asked = RecallRequest.model_validate({
        "query": "Kiln", "limit": 1_000_000,
        "filters": {"tier": ["ACTIVE", "Archive"], "kind": ["Dream"], "tags": ["EXT-signal", "STRASSE", "Straße"], "verdict": ["PARK"],
                    "signal": ["Resonant"], "pool": ["Notes"], "source": "Manual"},
    })  # fmt: skip
    assert asked.query == "Kiln"
    assert asked.filters == Filters(
        tier=("active", "archive"), kind=("dream",), tags=("ext-signal", "strasse", "strasse"), verdict=("park",), signal=("resonant",),
        pool=("notes",), source="Manual",
    )  # fmt: skip


@pytest.mark.parametrize("query", ["a", "?", "窑炉", "🦊", "é" * LONGEST_QUERY, "a\x00b", "\u200bkiln", "- * ( \" '"])
def test_anything_that_can_be_seen_is_a_query(query: str) -> None:
    """Signs, scripts and odd characters between them are kept as typed."""
    assert RecallRequest(query=query).query == query


def test_a_request_survives_its_json() -> None:
    """What a client sends over HTTP is read back as the same request."""
    asked = RecallRequest(query="kiln", filters=Filters(kind=("dream",), since=dt.date(2026, 5, 4)))
    assert RecallRequest.model_validate(json.loads(asked.model_dump_json())) == asked
