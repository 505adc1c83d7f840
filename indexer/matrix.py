"""Every passage's embedding in memory, for exact search among those that pass a filter.

A filter makes an approximate index slow or wrong: it must be asked for far more than needed. A product with all vectors
takes about as long as that index does without a filter, 6 ms for 100,000, and is exact.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalog import Catalog
from indexer.vectors import VectorCache

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from indexer.catalog import RowIds
    from indexer.embedder import Vectors

MOST_PASSAGES = 200_000
"""300 MB; beyond it the vector store is asked."""
_SPARE = 1.1
_ALL_FROM = 0.3
"""From this share on, multiplying with all vectors is faster than gathering some."""


@dataclass(frozen=True, slots=True)
class Near:
    """An entry, the cosine of its best passage, and which that is."""

    row: int
    cosine: float
    ordinal: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """Passages in order of entry: entry rows, ordinals, and where each one's vector stands in the matrix."""

    revision: int
    rows: RowIds
    ordinals: RowIds
    places: RowIds
    vectors: Vectors


class Matrix:
    """Loaded when first needed, and kept in line with the catalog: only what is new is read. Safe for several threads."""

    def __init__(self, catalog: Catalog, vectors: VectorCache) -> None:
        self.catalog = catalog
        self._cache = vectors
        self._guard = threading.Lock()
        self._at: dict[bytes, int] = {}
        self._vectors: Vectors = np.zeros((0, 0), np.float32)
        self._layout: _Layout | None = None

    def nearest(self, vector: Vectors, rows: RowIds, most: int) -> list[Near]:
        """The *most* entries of *rows* (ascending) that are nearest to *vector*, unordered; passages without a vector are left out."""
        layout = self._current()
        chosen = _members(layout.rows, rows)
        if not len(chosen):
            return []
        places = layout.places[chosen]
        is_most = len(places) > _ALL_FROM * len(layout.vectors)
        cosines = (layout.vectors @ vector)[places] if is_most else layout.vectors[places] @ vector
        starts = np.flatnonzero(np.diff(layout.rows[chosen], prepend=-1))
        best = np.maximum.reduceat(cosines, starts)
        first = np.argpartition(-best, most)[:most] if most < len(best) else np.arange(len(best))
        ends = np.append(starts[1:], len(cosines))
        at = [int(starts[i] + np.argmax(cosines[starts[i] : ends[i]])) for i in first.tolist()]
        return [Near(int(layout.rows[chosen[i]]), float(cosines[i]), int(layout.ordinals[chosen[i]])) for i in at]

    def _current(self) -> _Layout:
        with self._guard:
            if self._layout is None or self._layout.revision != self.catalog.revision:
                self._layout = self._lay_out()
            return self._layout

    def _lay_out(self) -> _Layout:
        revision = self.catalog.revision
        rows, ordinals, keys = self.catalog.all_passages()
        if len(self._at) > 2 * len(keys):  # mostly of entries that are gone
            self._at, self._vectors = {}, np.zeros((0, 0), np.float32)
        self._take([key for key in dict.fromkeys(keys) if key not in self._at])
        places = np.fromiter((self._at.get(key, -1) for key in keys), np.int64, len(keys))
        there = places >= 0
        return _Layout(revision, rows[there], ordinals[there], places[there], self._vectors[: len(self._at)])

    def _take(self, keys: list[bytes]) -> None:
        """Appends the vectors of *keys*, those that the cache has."""
        found = self._cache.get(keys)
        if not found:
            return
        first, size = len(self._at), len(self._at) + len(found)
        width = len(next(iter(found.values())))
        if size > len(self._vectors) or self._vectors.shape[1] != width:
            grown = np.zeros((int(size * _SPARE), width), np.float32)  # whoever reads the old one goes on reading it
            if first:
                grown[:first] = self._vectors[:first]
            self._vectors = grown
        self._vectors[first:size] = np.stack(list(found.values()))
        self._at.update({key: first + n for n, key in enumerate(found)})


def _members(rows: RowIds, wanted: RowIds) -> NDArray[np.int64]:
    """Where in *rows* those of *wanted* stand."""
    if not len(rows) or not len(wanted):
        return np.zeros(0, np.int64)
    is_wanted = np.zeros(max(int(rows[-1]), int(wanted[-1])) + 1, bool)
    is_wanted[wanted] = True
    return np.flatnonzero(is_wanted[rows])
