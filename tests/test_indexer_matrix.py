"""Exact search behind a filter: equal to brute force, through every change of the catalog."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from indexer.matrix import Matrix, Near
from models.pool import Pool, Tier
from models.query import Filters
from tests.fakes import MemoryStore
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, TIDE, delve, log

if TYPE_CHECKING:
    from indexer.embedder import Vectors

WORDS = ("kiln", "tide", "ledger", "bell", "orchard", "lantern", "queue", "cache", "anchor", "engine")


class Unasked(MemoryStore):
    """A store that nobody may ask for neighbours."""

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """Fails."""
        raise AssertionError("asked")


def sparks(first: int, last: int) -> list[bytes]:
    """Numbered entries, one passage or a few, on changing days."""
    texts = {n: " ".join(WORDS[: 1 + n % 10] * (n % 9)) for n in range(first, last)}
    return [
        delve(f"Spark {n} {WORDS[n % 10]}", f"2026-0{1 + n % 5}-11") + f"**Connection:** {text}\n".encode() for n, text in texts.items()
    ]


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """Sixty entries in both tiers."""
    write_tiers(pool, HEADER + log(*sparks(0, 40)), log(*sparks(40, 60)))
    bench = Bench(tmp_path / "state", [pool])
    bench.sync()
    yield bench
    bench.close()


def brute_force(bench: Bench, query: str, rows: list[int]) -> dict[int, float]:
    """The best cosine of every entry, one passage at a time."""
    vector = bench.embedder.embed_query(query)
    passages = bench.catalog.passages_of(rows)
    vectors = bench.vectors.get([p.key for p in passages])
    best: dict[int, float] = {}
    for p in passages:
        best[p.row] = max(best.get(p.row, -1.0), float(vectors[p.key] @ vector))
    return best


def nearest(bench: Bench, matrix: Matrix, query: str, filters: Filters, most: int = 10) -> list[Near]:
    """Nearest first."""
    found = matrix.nearest(bench.embedder.embed_query(query), bench.catalog.allowed(filters), most)
    return sorted(found, key=lambda near: -near.cosine)


@pytest.mark.parametrize("filters", [Filters(), Filters(tier=("archive",)), Filters(kind=("delve",)), Filters(kind=("dream",))], ids=str)
@pytest.mark.parametrize("most", [1, 10, 1_000])
def test_results_are_brute_forces(bench: Bench, filters: Filters, most: int) -> None:
    """Whatever share of the entries is allowed, the nearest are those of brute force, with the passage that is."""
    matrix = Matrix(bench.catalog, bench.vectors)
    for query in ("kiln tide", "bell orchard lantern", "engine"):
        expected = brute_force(bench, query, bench.catalog.allowed(filters).tolist())
        found = nearest(bench, matrix, query, filters, most)
        assert [n.cosine for n in found] == pytest.approx(sorted(expected.values(), reverse=True)[:most], abs=1e-6)
        assert all(n.cosine == pytest.approx(expected[n.row], abs=1e-6) for n in found)
        for near in found:
            (passage,) = [p for p in bench.catalog.passages_of([near.row]) if p.ordinal == near.ordinal]
            (embedding,) = bench.vectors.get([passage.key]).values()
            assert float(embedding @ bench.embedder.embed_query(query)) == pytest.approx(near.cosine, abs=1e-6)


def test_changes_are_followed(bench: Bench) -> None:
    """Entries that came, changed, moved or went since are searched as they are now; what is read already is not read again."""
    matrix = Matrix(bench.catalog, bench.vectors)
    nearest(bench, matrix, "kiln", Filters())
    for active, archive in (((0, 50), (50, 70)), ((10, 20), (0, 0)), ((10, 90), (0, 10))):
        write_tiers(bench.pools[0], HEADER + log(*sparks(*active)), log(*sparks(*archive)) if archive[1] else b"# Dream Sparks Archive\n")
        bench.sync()
        rows = bench.catalog.allowed(Filters()).tolist()
        found = nearest(bench, matrix, "tide ledger", Filters(), 1_000)
        assert {n.row: round(n.cosine, 5) for n in found} == {r: round(c, 5) for r, c in brute_force(bench, "tide ledger", rows).items()}


def test_what_is_gone_is_let_go_of(bench: Bench) -> None:
    """When most entries are gone, so are their embeddings, and answers stay right."""
    matrix = Matrix(bench.catalog, bench.vectors)
    nearest(bench, matrix, "kiln", Filters())
    held = len(matrix._vectors)
    write_tiers(bench.pools[0], HEADER + log(*sparks(0, 5)), b"# Dream Sparks Archive\n")
    bench.sync()
    rows = bench.catalog.allowed(Filters()).tolist()
    found = {n.row: round(n.cosine, 5) for n in nearest(bench, matrix, "kiln", Filters(), 99)}
    assert found == {r: round(c, 5) for r, c in brute_force(bench, "kiln", rows).items()}
    assert len(matrix._vectors) < held / 4


def test_the_store_is_not_asked_behind_a_filter(pool: Pool, tmp_path: Path) -> None:
    """However many entries pass it; without one it is."""
    write_tiers(pool, HEADER + log(*(delve(f"Spark {n} kiln", "2026-05-01") for n in range(1_100))), log(TIDE))
    bench = Bench(tmp_path / "wide", [pool], store=Unasked())
    bench.sync()
    assert len(bench.recall("kiln", Filters(kind=("delve",)), mode="semantic")) == 10
    with pytest.raises(AssertionError, match="asked"):
        bench.recall("kiln", mode="semantic")
    bench.close()


def test_a_passage_without_a_vector_is_left_out(bench: Bench) -> None:
    """What the cache lost is not answered for; it comes back when it is there again."""
    passage = bench.catalog.passages_of(bench.catalog.all_rows().tolist())[0]
    kept = bench.vectors.get([passage.key])[passage.key]
    bench.vectors.db.execute("DELETE FROM vector WHERE key = ?", (passage.key,))
    matrix = Matrix(bench.catalog, bench.vectors)
    assert (passage.row, passage.ordinal) not in {(n.row, n.ordinal) for n in nearest(bench, matrix, "kiln", Filters(), 1_000)}
    bench.vectors.put([passage.key], np.stack([kept]))
    bench.catalog.revision += 1
    assert passage.row in {n.row for n in nearest(bench, matrix, "kiln", Filters(), 1_000)}


def test_nothing_is_near_to_nothing(bench: Bench) -> None:
    """Without allowed entries, or without any, there is no answer."""
    matrix = Matrix(bench.catalog, bench.vectors)
    assert nearest(bench, matrix, "kiln", Filters(kind=("swarm",))) == []
    write_tiers(bench.pools[0], HEADER, b"# Dream Sparks Archive\n")
    bench.sync()
    assert nearest(bench, matrix, "kiln", Filters()) == []
