"""The lexical arm: BM25 over whole entries, with FTS5 as the inverted index.

Okapi BM25 (Robertson and Zaragoza 2009), k1 = 1.2, b = 0.6, and idf = ln(1 + (N - df + 0.5) / (df + 0.5)), where N and
df count the entries that pass the filters. FTS5's own bm25() has a fixed b and knows no filters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalog import Catalog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from indexer.catalog import RowIds

K1 = 1.2
B = 0.6


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 by entry: rows ascending, only those that match; `ceiling` is what no entry can pass."""

    rows: RowIds
    scores: NDArray[np.float64]
    ceiling: float

    def share(self) -> dict[int, float]:
        """Per row, how much of the query's information was literally there, from 0 to 1."""
        if not self.ceiling:
            return {}
        return dict(zip(self.rows.tolist(), (self.scores / self.ceiling).tolist(), strict=True))


def bm25(catalog: Catalog, terms: Sequence[str], allowed: RowIds | None) -> LexicalScores:
    """Scores the entries of *allowed* (all when None) that hold any of *terms*."""
    rows, lengths = catalog.lengths()
    population = rows if allowed is None else allowed
    if not len(population):
        return LexicalScores(rows[:0], np.zeros(0), 0.0)
    mean = float(lengths.mean()) or 1.0
    scores = np.zeros(len(rows))
    ceiling = 0.0
    for term in terms:
        found, frequency = catalog.postings(term)
        if allowed is not None:
            inside = np.isin(found, allowed, assume_unique=True)
            found, frequency = found[inside], frequency[inside]
        idf = math.log(1 + (len(population) - len(found) + 0.5) / (len(found) + 0.5))
        ceiling += idf * (K1 + 1)
        at = np.searchsorted(rows, found)
        scores[at] += idf * frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * lengths[at] / mean))
    hit = np.flatnonzero(scores)
    return LexicalScores(rows[hit], scores[hit], ceiling)
