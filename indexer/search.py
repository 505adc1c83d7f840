"""Recall: from a question to entries, by meaning and by words, over both tiers.

Filters are resolved in the catalog before anything is ranked, so they never shorten an answer while matches exist.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from indexer.catalog import Catalog, StoredEntry, StoredPassage, record_id
from indexer.chroma import VectorStore
from indexer.embedder import Embedder
from indexer.fusion import fuse
from indexer.lexical import bm25
from indexer.vectors import VectorCache
from indexer.words import Stemmer
from models.pool import TIERS, Tier
from models.query import Filters, Mode, RecallRequest, TextForm
from models.results import Hit, PassageView, RecallResult

if TYPE_CHECKING:
    from indexer.catalog import RowIds
    from indexer.embedder import Vectors

PREVIEW_CHARACTERS = 280
_LEXICAL_CANDIDATES = 100
_DENSE_CANDIDATES = 200
_BY_IDS = 20_000
"""Up to so many passages are named to the vector store; with more, it is asked for more than needed."""


@dataclass(frozen=True, slots=True)
class Dense:
    """The best passage of an entry and its cosine."""

    cosine: float
    ordinal: int


class Search:
    """Answers questions from an index; safe for several threads."""

    def __init__(self, catalog: Catalog, vectors: VectorCache, store: Callable[[], VectorStore], embedder: Embedder) -> None:
        self.catalog = catalog
        self.vectors = vectors
        self._store = store
        self.embedder = embedder

    def recall(self, request: RecallRequest, degraded: str | None = None, stale: str | None = None) -> RecallResult:
        """The entries that answer best; with *degraded*, by words alone, since the model cannot be had."""
        began = time.monotonic()
        mode: Mode = "lexical" if degraded else request.mode
        vector = None if mode == "lexical" else self.embedder.embed_query(request.query)
        terms = [] if mode == "semantic" else Stemmer().terms(request.query)
        ranked = self._ranked(vector, terms, request.filters, request.limit)
        hits = self._hits(ranked, request.text, terms)
        took = round((time.monotonic() - began) * 1000, 1)
        return RecallResult(query=request.query, mode=mode, degraded=degraded, stale=stale, hits=hits, took_ms=took)

    def related(self, entry: StoredEntry, limit: int, text: TextForm = "full", stale: str | None = None) -> RecallResult:
        """The entries nearest in meaning to *entry*, itself left out."""
        began = time.monotonic()
        known = self._vectors(self.catalog.passages_of([entry.row]))
        vectors = list(known.values()) or list(self.embedder.embed_passages([entry.text.decode("utf-8", "replace")]))
        vector = np.mean(vectors, axis=0).astype(np.float32)
        ranked = self._ranked(vector / (np.linalg.norm(vector) or 1.0), [], Filters(), limit + 1)
        hits = self._hits([r for r in ranked if r[0] != entry.row][:limit], text, [])
        took = round((time.monotonic() - began) * 1000, 1)
        return RecallResult(query=entry.view.title, mode="semantic", degraded=None, stale=stale, hits=hits, took_ms=took)

    def _ranked(self, vector: Vectors | None, terms: Sequence[str], filters: Filters, limit: int) -> list[tuple[int, float, int | None]]:
        """(entry row, score, ordinal of its best passage if known), best first."""
        allowed = self.catalog.allowed(filters)
        share = bm25(self.catalog, terms, allowed).share() if terms else {}
        if vector is None:
            best = _top(share, limit)
            filler = self.catalog.newest(allowed, limit) if len(best) < limit else []
            return [(row, share.get(row, 0.0), None) for row in list(dict.fromkeys([*best, *filler]))[:limit]]
        dense = self._dense(vector, allowed, filters, limit)
        unseen = [row for row in _top(share, _LEXICAL_CANDIDATES) if row not in dense]
        dense |= self._score_passages(vector, self.catalog.passages_of(unseen))
        cosines = {row: max(0.0, d.cosine) for row, d in dense.items()}
        scores = fuse(cosines, share) if terms else cosines
        return [(row, scores[row], dense[row].ordinal if row in dense else None) for row in _top(scores, limit)]

    def _dense(self, vector: Vectors, allowed: RowIds | None, filters: Filters, limit: int) -> dict[int, Dense]:
        """At least *limit* entries nearest to *vector*, or all that are allowed."""
        passages = None if allowed is None else self.catalog.passages_of(allowed.tolist())
        if passages is not None and len(passages) <= _DENSE_CANDIDATES:
            return self._score_passages(vector, passages)
        tiers = [t for t in TIERS if filters.tier is None or t in filters.tier]
        entries, counts = self.catalog.counts()
        possible = len(allowed) if allowed is not None else sum(entries.values())
        names = self._names(passages) if passages is not None and len(passages) <= _BY_IDS else None
        most = max(_DENSE_CANDIDATES, 5 * limit)
        while True:
            found = self._query(vector, tiers, most, names, allowed)
            if len(found) >= min(limit, possible):
                return found
            if most >= sum(counts.values()):
                return found | self._missed(vector, found, allowed)
            most *= 4

    def _missed(self, vector: Vectors, found: dict[int, Dense], allowed: RowIds | None) -> dict[int, Dense]:
        """Entries that an approximate search left out, scored exactly."""
        rows = (self.catalog.all_rows() if allowed is None else allowed).tolist()
        return self._score_passages(vector, self.catalog.passages_of(row for row in rows if row not in found))

    def _names(self, passages: list[StoredPassage]) -> dict[Tier, list[str]]:
        entries = self.catalog.names({p.row for p in passages})
        names: dict[Tier, list[str]] = {tier: [] for tier in TIERS}
        for p in passages:
            tier, pool, entry_id = entries[p.row]
            names[tier].append(record_id(pool, entry_id, p.ordinal))
        return names

    def _query(
        self, vector: Vectors, tiers: Iterable[Tier], most: int, names: dict[Tier, list[str]] | None, allowed: RowIds | None
    ) -> dict[int, Dense]:
        found = [hit for tier in tiers for hit in self._store().query(tier, vector, most, None if names is None else names[tier])]
        parts = {name: _parse(name) for name, _ in found}
        rows = self.catalog.by_record(list(parts.values()))
        inside = None if allowed is None else set(allowed.tolist())
        best: dict[int, Dense] = {}
        for name, cosine in found:
            row = rows.get(parts[name])
            if row is None or (inside is not None and row not in inside):
                continue
            if row not in best or cosine > best[row].cosine:
                best[row] = Dense(cosine, parts[name][2])
        return best

    def _score_passages(self, vector: Vectors, passages: list[StoredPassage]) -> dict[int, Dense]:
        """Exact cosines of these passages."""
        known = self._vectors(passages)
        present = [p for p in passages if p.key in known]
        if not present:
            return {}
        cosines = np.stack([known[p.key] for p in present]) @ vector
        best: dict[int, Dense] = {}
        for p, cosine in zip(present, cosines.tolist(), strict=True):
            if p.row not in best or cosine > best[p.row].cosine:
                best[p.row] = Dense(cosine, p.ordinal)
        return best

    def _vectors(self, passages: Sequence[StoredPassage]) -> dict[bytes, Vectors]:
        """Embeddings by key, from the vector cache; what it lost comes from the vector store."""
        known = self.vectors.get([p.key for p in passages])
        lost = [p for p in passages if p.key not in known]
        names = self.catalog.names({p.row for p in lost})
        for tier in TIERS:
            keys = {record_id(*names[p.row][1:], p.ordinal): p.key for p in lost if names[p.row][0] == tier}
            if keys:
                known.update((keys[name], vector) for name, vector in self._store().vectors(tier, list(keys)).items())
        return known

    def _hits(self, ranked: Sequence[tuple[int, float, int | None]], form: TextForm, terms: Sequence[str]) -> list[Hit]:
        rows = [row for row, _, _ in ranked]
        entries = self.catalog.entries(rows)
        passages: dict[int, list[StoredPassage]] = {}
        for p in self.catalog.passages_of(rows):
            passages.setdefault(p.row, []).append(p)
        stemmer = Stemmer() if terms else None
        hits = []
        for row, score, ordinal in ranked:
            entry, own = entries[row], passages.get(row, [])
            best = ordinal if ordinal is not None else _most_terms(entry, own, terms, stemmer)
            hits.append(_hit(entry, score, next((p for p in own if p.ordinal == best), None), form))
        return hits


def _top(scores: dict[int, float], limit: int) -> list[int]:
    return sorted(scores, key=lambda row: (-scores[row], row))[:limit]


def _parse(name: str) -> tuple[str, str, int]:
    key, _, ordinal = name.rpartition("#")
    pool, _, entry_id = key.rpartition("/")
    return pool, entry_id, int(ordinal)


def _most_terms(entry: StoredEntry, passages: Sequence[StoredPassage], terms: Sequence[str], stemmer: Stemmer | None) -> int | None:
    """The passage with the most of the query's terms; None when no passage has any."""
    if stemmer is None or not passages:
        return None
    wanted = set(terms)
    counts = [(len(wanted & set(stemmer.terms(entry.text[p.start : p.end].decode("utf-8", "replace")))), -p.ordinal) for p in passages]
    most, ordinal = max(counts)
    return -ordinal if most else None


def _hit(entry: StoredEntry, score: float, passage: StoredPassage | None, form: TextForm) -> Hit:
    v = entry.view
    whole = entry.text.decode("utf-8", "replace")
    text = {"full": whole, "preview": preview(whole), "none": None}[form]
    part = None
    if passage is not None:
        part = PassageView(text=entry.text[passage.start : passage.end].decode("utf-8", "replace"), start=passage.start, end=passage.end)
    return Hit(
        id=v.id, score=round(min(1.0, score), 4), tier=v.tier, pool=v.pool, file=v.file, line_start=v.line_start, line_end=v.line_end,
        batch_date=v.batch_date, kind=v.kind, tags=v.tags, title=v.title, date=v.date, verdict=v.verdict, signal=v.signal,
        text=text, passage=part,
    )  # fmt: skip


def preview(text: str) -> str:
    """The text's beginning, cut at a word, with an ellipsis where something follows."""
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    return text[:PREVIEW_CHARACTERS].rsplit(None, 1)[0] + " …"
