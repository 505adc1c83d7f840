"""Recall: from a question to entries, by meaning and by words, over both tiers.

Filters are resolved in the catalog before anything is ranked, so they never shorten an answer while matches exist. The
question is embedded while its words are looked up. What the model cannot read of it counts as matching nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalog import Catalog, StoredEntry
from indexer.chroma import VectorStore
from indexer.dense import Dense, Nearest
from indexer.embedder import Embedder
from indexer.fusion import fuse
from indexer.hits import Ranked, explained, hits
from indexer.lexical import NOTHING, LexicalScores, bm25
from indexer.postings import Postings, Scope
from indexer.question import read_question
from indexer.vectors import VectorCache
from indexer.words import Stemmer
from models.query import Filters, RecallRequest, TextForm
from models.results import RecallResult

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_LEXICAL_CANDIDATES = 100
_NEAR_MISSES = 5
_ILLEGIBLE = "the model cannot read this question"


@dataclass(frozen=True, slots=True)
class Meaning:
    """A question's embedding, and how much of the question the model could read, from 0 to 1."""

    vector: Vectors
    legible: float = 1.0


class Search:
    """Answers questions from an index; safe for several threads."""

    def __init__(self, catalog: Catalog, vectors: VectorCache, store: Callable[[], VectorStore], embedder: Embedder) -> None:
        self.catalog = catalog
        self.embedder = embedder
        self.postings = Postings(catalog)
        self.dense = Dense(self.postings, vectors, store)
        self._beside = ThreadPoolExecutor(1, "coldspark-embed")
        self._local = threading.local()

    def close(self) -> None:
        """Ends the thread that embeds questions."""
        self._beside.shutdown()

    def recall(self, request: RecallRequest, degraded: str | None = None, stale: str | None = None) -> RecallResult:
        """The entries that answer best; with *degraded*, by words alone, since the model cannot be had."""
        began = time.monotonic()
        mode = "lexical" if degraded else request.mode
        embedding = None if mode == "lexical" else self._beside.submit(self._embed, request.query)
        scope = self.postings.scope(request.filters)
        question = read_question(request.query, self._stemmer())
        words = NOTHING if mode == "semantic" else bm25(self.postings, question, scope)
        meaning = embedding.result() if embedding else None
        if meaning is not None and not meaning.legible:
            meaning, mode, degraded = None, "lexical", _ILLEGIBLE
            words = bm25(self.postings, question, scope)
        wanted = max(1, min(request.limit + (_NEAR_MISSES if request.explain else 0), len(scope.rows)))
        ranked = self._ranked(meaning, words, scope, wanted)
        found = hits(self.catalog, ranked, request.text, question.terms, self._stemmer())
        shown = [hit for _, hit in found]
        if request.explain:
            shown = [explained(hit, r, words, meaning.legible if meaning else 0.0) for r, hit in found]
        took = round((time.monotonic() - began) * 1000, 1)
        return RecallResult(
            query=request.query, mode=mode, degraded=degraded, stale=stale, hits=shown[: request.limit], took_ms=took,
            near_misses=shown[request.limit :] if request.explain else None,
        )  # fmt: skip

    def related(self, entry: StoredEntry, limit: int, text: TextForm = "full", stale: str | None = None) -> RecallResult:
        """The entries nearest in meaning to *entry*, itself left out."""
        began = time.monotonic()
        known = self.dense.embeddings(self.catalog.passages_of([entry.row]))
        vectors = list(known.values()) or list(self.embedder.embed_passages([entry.text.decode("utf-8", "replace")]))
        vector = np.mean(vectors, axis=0).astype(np.float32)
        meaning = Meaning(vector / (np.linalg.norm(vector) or 1.0))
        everything = self.postings.scope(Filters())
        ranked = self._ranked(meaning, NOTHING, everything, min(limit + 1, len(everything.rows)))
        found = hits(self.catalog, [r for r in ranked if r.row != entry.row][:limit], text, (), self._stemmer())
        took = round((time.monotonic() - began) * 1000, 1)
        return RecallResult(query=entry.view.title, mode="semantic", degraded=None, stale=stale, hits=[h for _, h in found], took_ms=took)

    def _stemmer(self) -> Stemmer:
        """This thread's stemmer."""
        if not hasattr(self._local, "stemmer"):
            self._local.stemmer = Stemmer()
        stemmer: Stemmer = self._local.stemmer
        return stemmer

    def _embed(self, query: str) -> Meaning:
        legible = self.embedder.legible(query)
        return Meaning(self.embedder.embed_query(query), legible)

    def _ranked(self, meaning: Meaning | None, words: LexicalScores, scope: Scope, limit: int) -> list[Ranked]:
        """The best entries, best first: *limit* of them while *scope* has so many."""
        if meaning is None:
            best = words.best(limit)
            rest = self.catalog.newest(None if scope.is_whole else scope.rows, limit) if len(best) < limit else []
            shares = words.shares(rows := list(dict.fromkeys([*best, *rest]))[:limit])
            return [Ranked(row, share, share=share) for row, share in zip(rows, shares.tolist(), strict=True)]
        near = self.dense.nearest(meaning.vector, scope, limit)
        unseen = [row for row in words.best(max(_LEXICAL_CANDIDATES, limit)) if row not in near]
        near |= self.dense.score(meaning.vector, unseen)
        rows = [*near, *(row for row in unseen if row not in near)]
        cosines = np.array([near[row].cosine * meaning.legible if row in near else 0.0 for row in rows])
        shares = words.shares(rows)
        scores = fuse(cosines, shares) if words.parts else np.maximum(cosines, 0.0)
        order = np.lexsort((np.array(rows), -scores))[:limit].tolist()
        return [_rank(rows[i], float(scores[i]), float(cosines[i]), float(shares[i]), near.get(rows[i])) for i in order]


def _rank(row: int, score: float, cosine: float, share: float, nearest: Nearest | None) -> Ranked:
    """An entry without embeddings has no cosine."""
    return Ranked(row, score, cosine, nearest.ordinal, share) if nearest else Ranked(row, score, share=share)
