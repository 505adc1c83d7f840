"""Recall quality on public collections: the product, each arm alone, FTS5's own BM25, and plain grep.

    python -m benchmarks.quality FOLDER

FOLDER holds `data/` and `corpus/` as `benchmarks.collections` reads them.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.collections import Asked, Collection, collections
from indexer.embedder import Embedder, find_embedder
from indexer.index import IndexFolder
from indexer.opened import Index
from models.query import Mode, RecallRequest
from models.settings import BUNDLED_MODEL
from models.snapshot import PoolSnapshot, read_pool

Ranking = Callable[[Asked], list[str]]
"""Titles of the first ten, best first."""
DEPTH = 10
_FTS5 = "SELECT id, json_extract(view, '$.title') FROM word JOIN entry ON entry.row = word.rowid"


def recall_at(depth: int, ranked: Sequence[str], gains: Sequence[str]) -> float:
    """Share of the answers among the first *depth*."""
    return len(set(ranked[:depth]).intersection(gains)) / len(gains)


def ndcg(ranked: Sequence[str], asked: Asked) -> float:
    """Normalised discounted cumulative gain at 10 (Järvelin and Kekäläinen 2002), gains as the collection grades them."""
    got = sum(asked.gains.get(title, 0.0) / math.log2(n + 2) for n, title in enumerate(ranked[:DEPTH]))
    best = sum(gain / math.log2(n + 2) for n, gain in enumerate(sorted(asked.gains.values(), reverse=True)[:DEPTH]))
    return got / best


def figures(collection: Collection, rank: Ranking, questions: Sequence[Asked]) -> str:
    """What the collection measures, over *questions*."""
    answers = [(rank(asked), asked) for asked in questions]
    if collection.measure == "recall":
        fives, tens = ([recall_at(n, ranked, list(asked.gains)) for ranked, asked in answers] for n in (5, 10))
        return f"{statistics.mean(fives):.3f} / {statistics.mean(tens):.3f}"
    if collection.measure == "ndcg":
        return f"{statistics.mean(ndcg(ranked, asked) for ranked, asked in answers):.3f}"
    return f"{statistics.mean(bool(set(ranked[:5]).intersection(asked.gains)) for ranked, asked in answers):.3f}"


def by_product(index: Index, mode: Mode) -> Ranking:
    """Recall in one of its modes."""

    def rank(asked: Asked) -> list[str]:
        request = RecallRequest(query=asked.text, mode=mode, filters=asked.filters, limit=DEPTH, text="none")
        return [hit.title for hit in index.search.recall(request).hits]

    return rank


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"\w+", text.casefold())))


def _fits(asked: Asked, tags: Sequence[str]) -> bool:
    return asked.filters.tags is None or not set(tags).isdisjoint(asked.filters.tags)


def by_grep(snapshot: PoolSnapshot) -> Ranking:
    """How many of the question's words stand in an entry, as `grep -i` finds them."""
    texts = [(p.entry.title, p.entry.tags, p.entry.text.decode("utf-8", "replace").casefold()) for p in snapshot.entries]

    def rank(asked: Asked) -> list[str]:
        wanted = _words(asked.text)
        scored = [(-sum(word in text for word in wanted), title) for title, tags, text in texts if _fits(asked, tags)]
        return [title for _, title in sorted(scored)[:DEPTH]]

    return rank


def by_fts5(index: Index, snapshot: PoolSnapshot) -> Ranking:
    """SQLite's own full-text search: any of the question's words, in the order of its bm25()."""
    tags = {p.id: p.entry.tags for p in snapshot.entries}

    def rank(asked: Asked) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in _words(asked.text))
        rows = index.catalog.db.execute(f"{_FTS5} WHERE word MATCH ? ORDER BY bm25(word)", (match,))
        return [title for entry_id, title in rows if _fits(asked, tags[entry_id])][:DEPTH]

    return rank


def compare(collection: Collection, embedder: Embedder, state: Path) -> None:
    """A row of the table for either half of the questions."""
    snapshot = read_pool(collection.pool)
    index = IndexFolder(state, embedder).open(create=True)
    index.sync([snapshot])
    rankings = (
        by_product(index, "hybrid"), by_product(index, "lexical"), by_product(index, "semantic"),
        by_fts5(index, snapshot), by_grep(snapshot),
    )  # fmt: skip
    for chose in (False, True):
        questions = [q for q in collection.questions if q.chose == chose and q.gains]
        found = (figures(collection, rank, questions) for rank in rankings)
        name = f"{collection.name}{' *' if chose else ''}"
        print(f"{name:<20} {len(questions):>5}  " + "  ".join(f"{figure:<13}" for figure in found), flush=True)
    index.close()


def table(data: Path, embedder: Embedder) -> None:
    """Prints the table of the collections below *data*."""
    print("\nrecall quality: R@5 / R@10 on LoCoMo, nDCG@10 on Cranfield and CISI, an answer in the first 5 for sparks")
    print("(* the half of the questions that chose the settings; the rows without it chose nothing)")
    print(f"{'':<20} {'asked':>5}  {'product':<13}  {'words alone':<13}  {'meaning alone':<13}  {'FTS5 bm25':<13}  {'grep':<13}")
    with tempfile.TemporaryDirectory() as name:
        for collection in collections(data, Path(name)):
            compare(collection, embedder, Path(name) / "state" / collection.name.replace(" ", "-"))


def main() -> None:
    """Prints the table of a folder of collections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    embedder = find_embedder(BUNDLED_MODEL)
    embedder.load()
    table(given.folder, embedder)


if __name__ == "__main__":
    main()
