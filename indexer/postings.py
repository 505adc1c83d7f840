"""What the lexical arm reads of the catalog, kept from one question to the next until the catalog changes."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from indexer.catalog import Catalog
from models.pool import TIERS, Tier
from models.query import Filters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from indexer.catalog import RowIds
    from indexer.dates import Ordinals

Kept = TypeVar("Kept")

MOST_KEPT = 4_000_000
"""Numbers that are kept; 32 MB."""
_A_KEY = 64
"""What a key costs, in numbers."""


@dataclass(frozen=True, slots=True)
class Population:
    """Every entry: its row (ascending), its length in words, its day as an ordinal (0 without one), its passages' number."""

    rows: RowIds
    lengths: RowIds
    days: Ordinals
    passages: RowIds


@dataclass(frozen=True, slots=True)
class Scope:
    """The entries that may answer a question: *rows* of *everyone*, all of them when *is_whole*, in these tiers."""

    everyone: Population
    rows: RowIds
    tiers: tuple[Tier, ...] = TIERS
    is_whole: bool = False

    def passages(self) -> int:
        """How many passages they have."""
        return int(self.everyone.passages[np.searchsorted(self.everyone.rows, self.rows)].sum())


class Postings:
    """Reads through a cache; safe for several threads."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._guard = threading.Lock()
        self._revision = catalog.revision
        self._kept: OrderedDict[tuple[str, str], Any] = OrderedDict()
        self._size = 0

    def population(self) -> Population:
        """All entries."""
        return self._cached(("population", ""), self._read_population, lambda p: 4 * len(p.rows))

    def scope(self, filters: Filters) -> Scope:
        """The entries that pass *filters*."""
        everyone = self.population()
        if filters == Filters():
            return Scope(everyone, everyone.rows, TIERS, is_whole=True)
        allowed = self._cached(("allowed", filters.model_dump_json()), lambda: self.catalog.allowed(filters), len)
        tiers = tuple(t for t in TIERS if filters.tier is None or t in filters.tier)
        return Scope(everyone, np.intersect1d(allowed, everyone.rows, assume_unique=True), tiers)

    def passages(self, tiers: Iterable[Tier]) -> int:
        """How many passages these tiers have."""
        found = self._cached(("passages", ""), lambda: self.catalog.counts()[1], len)
        return sum(found.get(tier, 0) for tier in tiers)

    def row_names(self) -> Mapping[str, int]:
        """Entry rows by the part of a record's id that names the entry."""
        return self._cached(("names", ""), self.catalog.row_names, len)

    def term(self, term: str) -> tuple[RowIds, NDArray[np.float64]]:
        """Rows of the entries that hold *term*, ascending, and how often, weighted by field."""
        return self._cached(("term", term), lambda: self.catalog.postings(term), lambda found: 2 * len(found[0]))

    def phrase(self, text: str) -> RowIds:
        """Rows of the entries in which the words of *text* stand side by side, ascending."""
        return self._cached(("phrase", text), lambda: self.catalog.holding(text), len)

    def _read_population(self) -> Population:
        found = self.catalog.population()
        days = {day: _ordinal(day) for day in np.unique(found[:, 2]).tolist()}
        return Population(found[:, 0], found[:, 1], np.array([days[day] for day in found[:, 2].tolist()], np.int64), found[:, 3])

    def _cached(self, key: tuple[str, str], read: Callable[[], Kept], size: Callable[[Kept], int]) -> Kept:
        with self._guard:
            revision = self.catalog.revision
            if revision != self._revision:
                self._kept.clear()
                self._size, self._revision = 0, revision
            elif key in self._kept:
                self._kept.move_to_end(key)
                kept: Kept = self._kept[key][0]
                return kept
        found = read()
        with self._guard:
            if revision == self.catalog.revision == self._revision and key not in self._kept:
                self._keep(key, found, size(found))
        return found

    def _keep(self, key: tuple[str, str], found: Kept, size: int) -> None:
        self._kept[key] = (found, size)
        size += _A_KEY
        self._size += size
        while self._size > MOST_KEPT and len(self._kept) > 1:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._size -= dropped


def _ordinal(day: int) -> int:
    """The ordinal of a day written YYYYMMDD."""
    return dt.date(day // 10_000, day // 100 % 100, day % 100).toordinal() if day else 0
