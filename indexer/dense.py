"""The dense arm: entries by the cosine of their best passage, from the vector store or, behind a filter, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalog import Catalog, StoredPassage, record_id
from indexer.chroma import VectorStore
from indexer.matrix import MOST_PASSAGES, Matrix
from indexer.postings import Postings, Scope
from indexer.vectors import VectorCache
from models.pool import TIERS

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_CANDIDATES = 200
"""Passages that are looked at, for one tier."""
_ONE_BY_ONE = 1_000
"""Up to so many allowed passages are read and scored one by one."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The best passage of an entry and its cosine."""

    cosine: float
    ordinal: int


class Dense:
    """Finds entries near a vector; safe for several threads."""

    def __init__(self, postings: Postings, vectors: VectorCache, store: Callable[[], VectorStore]) -> None:
        self.postings = postings
        self.catalog: Catalog = postings.catalog
        self.vectors = vectors
        self.matrix = Matrix(self.catalog, vectors)
        self._store = store

    def nearest(self, vector: Vectors, scope: Scope, limit: int) -> dict[int, Nearest]:
        """At least *limit* entries nearest to *vector*, or all of *scope*."""
        passages, there = scope.passages(), max(1, self.postings.passages(scope.tiers))
        most = max(_CANDIDATES, 5 * limit)
        if not scope.is_whole and passages <= _ONE_BY_ONE:
            return self.score(vector, scope.rows.tolist())
        if not scope.is_whole and self.postings.passages(TIERS) <= MOST_PASSAGES:
            found = {near.row: Nearest(near.cosine, near.ordinal) for near in self.matrix.nearest(vector, scope.rows, most)}
            return found if len(found) >= min(limit, len(scope.rows)) else found | self._missed(vector, scope, found)
        most *= there // max(1, passages)
        while True:
            found = self._query(vector, scope, most)
            if len(found) >= min(limit, len(scope.rows)):
                return found
            if most >= there:  # an approximate search left some out
                return found | self._missed(vector, scope, found)
            most *= 4

    def _missed(self, vector: Vectors, scope: Scope, found: dict[int, Nearest]) -> dict[int, Nearest]:
        return self.score(vector, [row for row in scope.rows.tolist() if row not in found])

    def score(self, vector: Vectors, rows: Iterable[int]) -> dict[int, Nearest]:
        """The best passages of these entries, exactly."""
        return self._score(vector, self.catalog.passages_of(rows))

    def _query(self, vector: Vectors, scope: Scope, most: int) -> dict[int, Nearest]:
        """The entries of *scope* among those with the nearest passages."""
        rows = self.postings.row_names()
        found: list[tuple[str, float]] = []
        for tier in scope.tiers:
            found += self._store().query(tier, vector, most)
        parts = [name.rpartition("#") for name, _ in found]
        known = np.array([rows.get(entry, -1) for entry, _, _ in parts], np.int64)
        allowed = np.isin(known, scope.rows)
        best: dict[int, Nearest] = {}
        for i in np.flatnonzero(allowed).tolist():
            row, cosine = int(known[i]), found[i][1]
            if row not in best or cosine > best[row].cosine:
                best[row] = Nearest(cosine, int(parts[i][2]))
        return best

    def _score(self, vector: Vectors, passages: list[StoredPassage]) -> dict[int, Nearest]:
        """Exact cosines of these passages."""
        known = self.embeddings(passages)
        present = [p for p in passages if p.key in known]
        if not present:
            return {}
        cosines = np.stack([known[p.key] for p in present]) @ vector
        best: dict[int, Nearest] = {}
        for p, cosine in zip(present, cosines.tolist(), strict=True):
            if p.row not in best or cosine > best[p.row].cosine:
                best[p.row] = Nearest(cosine, p.ordinal)
        return best

    def embeddings(self, passages: Sequence[StoredPassage]) -> dict[bytes, Vectors]:
        """Embeddings by key, from the vector cache; what it lost comes from the vector store."""
        known = self.vectors.get([p.key for p in passages])
        lost = [p for p in passages if p.key not in known]
        names = self.catalog.names({p.row for p in lost})
        for tier in TIERS:
            keys = {record_id(*names[p.row][1:], p.ordinal): p.key for p in lost if names[p.row][0] == tier}
            if keys:
                known.update((keys[name], vector) for name, vector in self._store().vectors(tier, list(keys)).items())
        return known
