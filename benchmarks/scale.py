"""Recall over many passages: with and without filters, beside the embedding of the query, and against brute force.

    python -m benchmarks.scale [PASSAGES]

The entries are short, their embeddings made up around a few hundred real ones; questions are embedded by the real model.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.embedder import Embedder, find_embedder
from indexer.index import IndexFolder
from indexer.opened import Index
from models.pool import Pool
from models.query import Filters, RecallRequest
from models.settings import BUNDLED_MODEL
from models.snapshot import read_pool

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_TOPICS = """
kiln queue tide cache ledger lock river bell clock seed harbour retry batch signal glaze shard index vector notebook lamp engine bridge
mirror market winter garden wheel anchor thread needle loom furnace valve meter ladder signalman orchard quarry canal mill press
"""
_WORDS = tuple(_TOPICS.split())
QUESTIONS = [f"why does the {a} behave like a {b}" for a, b in zip(_WORDS, reversed(_WORDS), strict=True)]
FILTERS = {
    "no filter": Filters(), "one tier": Filters(tier=("archive",)), "one kind of three": Filters(kind=("delve",)),
    "the newest half": Filters(since=dt.date(2025, 1, 1)), "one tag of fifty": Filters(tags=("tag7",)),
    "one source of a thousand": Filters(source="source-77-"),
}  # fmt: skip


class HalfEmbedder:
    """Real embeddings of questions, made-up ones of passages."""

    fingerprint = "made up"
    max_tokens = 254

    def __init__(self, real: Embedder) -> None:
        self.real = real
        self._random = np.random.default_rng(7)
        self._centres = real.embed_passages([f"{a} {b}" for a, b in zip(_WORDS * 7, _WORDS[3:] * 7, strict=False)])

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """One token a word."""
        return [[m.span() for m in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Points around the centres, about as far off as a paraphrase is."""
        noise = self._random.normal(size=(len(texts), 384)) / 384**0.5
        points = self._centres[self._random.integers(0, len(self._centres), len(texts))] + noise
        unit: Vectors = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def embed_query(self, text: str) -> Vectors:
        """The real one."""
        return self.real.embed_query(text)

    def legible(self, text: str) -> float:
        """The real one's."""
        return self.real.legible(text)

    def load(self) -> None:
        """Loads the real one."""
        self.real.load()


def entries(count: int) -> Iterator[str]:
    """Made-up entries, over six years."""
    chance = random.Random(5)
    for n in range(count):
        date = dt.date(2021, 1, 1) + dt.timedelta(days=n * 2190 // count)
        head = chance.choice(["[dream]", "[delve]", "[daydream]"])
        words = " ".join(chance.choices(_WORDS, k=12))
        yield f"### {head} [tag{n % 50}] Entry {n} ({date})\n**Source:** source-{n % 1000}-\n**Connection:** {words}\n\n"


def build(folder: Path, count: int, embedder: Embedder) -> Index:
    """An index over *count* entries of one passage each, a tenth of them active."""
    pool = Pool("bench", folder / "memory", None)
    pool.memory_dir.mkdir(parents=True)
    made = list(entries(count))
    pool.active.write_text("# Dream Sparks\n\n" + "".join(made[: count // 10]), encoding="utf-8")
    pool.archive.write_text("# Dream Sparks Archive\n\n" + "".join(made[count // 10 :]), encoding="utf-8")
    index = IndexFolder(folder / "state", embedder).open(create=True)
    index.sync([read_pool(pool)])
    return index


def seconds(index: Index, filters: Filters) -> tuple[float, float]:
    """Median and 95th percentile of a recall, after every question was asked once."""
    times = []
    for question in QUESTIONS * 2:
        began = time.perf_counter()
        index.search.recall(RecallRequest(query=question, filters=filters, text="none"))
        times.append(time.perf_counter() - began)
    warm = sorted(times[len(QUESTIONS) :])
    return statistics.median(warm), warm[int(len(warm) * 0.95)]


def exactness(index: Index, embedder: Embedder, filters: Filters) -> float:
    """The share of brute force's first ten, by meaning, that recall gives as well."""
    scope = index.search.postings.scope(filters)
    passages = index.catalog.passages_of(scope.rows.tolist())
    vectors = index.vectors.get([p.key for p in passages])
    matrix = np.stack([vectors[p.key] for p in passages])
    names = index.catalog.names(scope.rows.tolist())
    shares = []
    for question in QUESTIONS[:20]:
        best = np.argsort(-(matrix @ embedder.embed_query(question)), kind="stable")[:10]
        wanted = {names[passages[i].row][2] for i in best.tolist()}
        hits = index.search.recall(RecallRequest(query=question, mode="semantic", filters=filters, text="none")).hits
        shares.append(len(wanted.intersection(h.id for h in hits)) / len(wanted))
    return statistics.mean(shares)


def table(count: int) -> None:
    """Prints the figures for *count* passages."""
    embedder = HalfEmbedder(find_embedder(BUNDLED_MODEL))
    embedder.load()
    with tempfile.TemporaryDirectory() as name:
        index = build(Path(name), count, embedder)
        embed = statistics.median(_timed(embedder, question) for question in QUESTIONS)
        plain = 0.0
        for label, filters in FILTERS.items():
            median, late = seconds(index, filters)
            plain = plain or median
            print(
                f"recall, {count:,} passages, {label:<26} {median * 1000:>7.1f} ms (p95 {late * 1000:>6.1f})   {median / embed:>5.2f} x its"
                f" query's embedding   {median / plain:>5.2f} x unfiltered   {exactness(index, embedder, filters):.3f} of brute force",
                flush=True,
            )
        index.close()


def _timed(embedder: Embedder, question: str) -> float:
    began = time.perf_counter()
    embedder.embed_query(question)
    return time.perf_counter() - began


if __name__ == "__main__":
    table(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
