"""Filters as conditions on the catalog's tables. Pure."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator

import numpy as np

from indexer import words
from models.query import Filters
from models.results import EntryView

AMONG = "(SELECT value FROM json_each(?))"
"""What stands behind IN; takes one `as_json`."""


def as_day(date: dt.date | None) -> int | None:
    """A calendar day as the integer YYYYMMDD."""
    return date.year * 10_000 + date.month * 100 + date.day if date else None


def sources_of(view: EntryView) -> str:
    """What the `source` filter looks into: the Source and Sources fields, folded."""
    found = [value for name, value in view.fields.items() if name.casefold() in ("source", "sources")]
    return words.plain("\n".join(found))


def where(f: Filters) -> tuple[list[str], list[str | int]]:
    """The conditions that *f* puts on `entry e`, and their values."""
    found = list(_clauses(f))
    return [clause for clause, _ in found], [value for _, value in found]


def _clauses(f: Filters) -> Iterator[tuple[str, str | int]]:
    for column, wanted in (("tier", f.tier), ("verdict", f.verdict), ("signal", f.signal)):
        if wanted is not None:
            yield f"e.{column} IN {AMONG}", as_json(wanted)
    if f.pool is not None:
        yield f"folded(e.pool) IN {AMONG}", as_json(f.pool)
    if f.kind is not None:
        swarms = "OR (e.kind LIKE 'swarm-%')" if "swarm" in f.kind else ""
        yield f"(e.kind IN {AMONG} {swarms})", as_json(f.kind)
    if f.tags is not None:
        yield f"EXISTS (SELECT 1 FROM tag t WHERE t.row = e.row AND t.tag IN {AMONG})", as_json(f.tags)
    if f.source is not None:
        yield "instr(e.sources, ?)", words.plain(f.source)
    if f.since is not None:
        yield "e.day >= ?", as_day(f.since) or 0
    if f.until is not None:
        yield "e.day <= ?", as_day(f.until) or 0


def as_json(values: Iterable[object]) -> str:
    """Values for `AMONG`."""
    return json.dumps([int(v) if isinstance(v, np.integer) else v for v in values])
