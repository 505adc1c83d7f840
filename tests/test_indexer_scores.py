"""Words, BM25, fusion and the vector cache: the small parts that scores are made of."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import words
from indexer.fusion import fuse
from indexer.lexical import K1, B, bm25
from indexer.postings import Postings, Scope
from indexer.question import Question
from indexer.vectors import VectorCache, cache_key
from indexer.words import Stemmer
from models.pool import Pool
from tests.indexer_bench import Bench, write_tiers
from tests.samples import delve, log


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("the kilns were cooling", ["kiln", "cool"]),
        ("Kiln kiln KILNS", ["kiln"]),
        ("OPS-377", ["op", "377"]),  # Porter takes the s
        ("to be or not to be", ["to", "be", "or", "not"]),  # nothing but stop words: all of them
        ("窑炉", ["窑", "炉"]),
        ("🦊🦊 fox", ["🦊", "fox"]),
        ("Cafe\u0301", ["cafe"]),
        ("-> ** ?", []),
        ("", []),
        ('"quoted" NEAR(a) OR col:x*', ["quot", "near", "col", "x"]),  # FTS5's own syntax is just text
        ("a\x00b", ["b"]),
    ],
)
def test_query_terms(query: str, terms: list[str]) -> None:
    """A query's terms are stems, distinct, in order, without stop words."""
    assert Stemmer().terms(query) == terms


@settings(deadline=None)
@given(st.text())
def test_any_text_has_terms_and_a_count(text: str) -> None:
    """Whatever the characters, terms are distinct and normalising twice changes nothing."""
    terms = Stemmer().terms(text)
    assert len(set(terms)) == len(terms)
    assert words.count(words.normalised(text)) >= 0
    assert words.normalised(words.normalised(text)).split() == words.normalised(text).split()


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 1)), max_size=9))
def test_fused_scores_lie_in_0_to_1(pairs: list[tuple[float, float]]) -> None:
    """Every score is in range, and more of either part never scores lower."""
    cosine, share = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    scores = fuse(cosine, share)
    assert all(0 <= s <= 1 for s in scores)
    assert (fuse(np.ones(len(pairs)), share) >= scores).all()
    assert (fuse(cosine, np.ones(len(pairs))) >= scores).all()


def test_fusion_is_a_mean_of_both_parts() -> None:
    """The share of the query that was literally there weighs a little more than the cosine; a negative cosine counts as none."""
    assert fuse(np.array([0.9, -0.3, 0.45, 0.0]), np.array([0.0, 0.0, 0.36, 0.9])).tolist() == pytest.approx([0.4, 0.0, 0.4, 0.5])


def test_bm25_is_the_formula(pool: Pool, tmp_path: Path) -> None:
    """Scores are Okapi BM25 with df and N counted among the allowed entries; the ceiling is never passed."""
    write_tiers(pool, log(delve("amber amber", "2026-05-01"), delve("amber salt", "2026-05-01"), delve("salt", "2026-05-01")), b"")
    bench = Bench(tmp_path / "state", [pool])
    bench.sync()
    postings = Postings(bench.catalog)
    everyone = postings.population()
    rows = everyone.rows
    found = bm25(postings, Question(("amber",)), Scope(everyone, rows))
    assert found.rows.tolist() == rows[:2].tolist()
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    norm = 1 - B + B * everyone.lengths[0] / everyone.lengths.mean()
    tf = 4  # two in the title, each of which counts twice
    assert found.scores[0] == pytest.approx(idf * tf * (K1 + 1) / (tf + K1 * norm))
    assert found.ceiling == pytest.approx(idf * (K1 + 1))
    narrow = bm25(postings, Question(("amber", "absent")), Scope(everyone, rows[1:]))
    assert narrow.rows.tolist() == [rows[1]]
    assert 0 < narrow.shares(rows.tolist())[1] < 1
    assert narrow.shares(rows.tolist())[[0, 2]].tolist() == [0, 0]
    assert bm25(postings, Question(("amber",)), Scope(everyone, rows[:0])).best(9) == []
    assert bm25(postings, Question(), Scope(everyone, rows)).shares(rows.tolist()).tolist() == [0, 0, 0]
    bench.close()


def test_the_cache_gives_back_what_was_put(tmp_path: Path) -> None:
    """Vectors come back exactly, by model and text; unknown keys are left out; thousands at once are no trouble."""
    cache = VectorCache(tmp_path / "vectors.sqlite3")
    keys = [cache_key("m", f"text {n}") for n in range(2_500)]
    vectors = np.random.default_rng(3).normal(size=(2_500, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cache.put(keys, vectors)
    found = cache.get([*keys, cache_key("other", "text 1")])
    assert list(found) == keys or set(found) == set(keys)
    assert all(np.array_equal(found[key], vector) for key, vector in zip(keys, vectors, strict=True))
    new = {cache_key("other", "text 1"), cache_key("m", "new")}
    assert cache.missing([keys[0], *new]) == new
    assert (cache.get([]), cache.missing([])) == ({}, set())
    cache.close()


@pytest.mark.parametrize(("a", "b"), [(("m", "1\0x"), ("m", "1")), (("m:1", "x"), ("m", "1x")), (("m", "\udcff"), ("m", "\ufffd"))])
def test_cache_keys_tell_models_and_texts_apart(a: tuple[str, str], b: tuple[str, str]) -> None:
    """No two pairs of model and text share a key."""
    assert cache_key(*a) != cache_key(*b)


def test_a_failed_put_leaves_nothing(tmp_path: Path) -> None:
    """A batch is stored whole or not at all."""
    cache = VectorCache(tmp_path / "vectors.sqlite3")
    keys = [cache_key("m", text) for text in "ab"]
    with pytest.raises(ValueError, match="shorter"):
        cache.put(keys, np.ones((1, 4), np.float32))
    assert cache.missing(keys) == set(keys)
    cache.close()


def test_a_database_serves_several_threads(tmp_path: Path) -> None:
    """Each thread reads and writes through a connection of its own, and all see all."""
    cache = VectorCache(tmp_path / "vectors.sqlite3")

    def put(n: int) -> None:
        for i in range(20):
            cache.put([cache_key("m", f"{n} {i}")], np.full((1, 4), (-1) ** n / 2, np.float32))

    threads = [threading.Thread(target=put, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.missing(cache_key("m", f"{n} {i}") for n in range(4) for i in range(20)) == set()
    cache.close()
    assert len(cache.get([cache_key("m", "1 1")])) == 1
    cache.close()
