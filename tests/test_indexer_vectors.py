"""The vector cache gives back what was put in, or nothing: a spoilt embedding counts as missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from indexer.vectors import VectorCache, cache_key

KEYS = [cache_key("m", f"text {n}") for n in range(700)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A cache of many embeddings, closed."""
    cache = VectorCache(tmp_path / "vectors.sqlite3")
    vectors = np.random.default_rng(3).normal(size=(len(KEYS), 16)).astype(np.float32)
    cache.put(KEYS, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    cache.close()
    return cache.path


@pytest.fixture
def cache(path: Path) -> Iterator[VectorCache]:
    """The cache opened again."""
    cache = VectorCache(path)
    yield cache
    cache.close()


def spoil(path: Path, value: bytes) -> None:
    """Gives one embedding other bytes."""
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE vector SET value = ? WHERE key = ?", (value, KEYS[3]))
        db.commit()


UNIT = np.eye(16, dtype=np.float32)[0]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00" * 64,
        b"\xff" * 64,  # not a number
        UNIT.tobytes()[:32] + b"\x00" * 31,  # cut within a number
        np.eye(8, dtype=np.float32)[0].tobytes(),  # of another width
        (UNIT * 2).tobytes(),
        (UNIT * np.float32(1e38)).tobytes(),  # its square is infinite
        np.full(16, np.inf, np.float32).tobytes(),
    ],
    ids=["empty", "zeros", "nan", "torn", "narrow", "long", "huge", "infinite"],
)
def test_a_spoilt_embedding_is_missing(path: Path, cache: VectorCache, value: bytes) -> None:
    """It is not given out, is named as missing, casts doubt on the cache, and can be put anew; its neighbours are untouched."""
    spoil(path, value)
    assert (cache.absent(KEYS), cache.is_in_doubt) == (set(), False)
    assert cache.missing(KEYS) == {KEYS[3]}
    assert not cache.is_in_doubt
    assert set(cache.get(KEYS)) == set(KEYS) - {KEYS[3]}
    assert cache.is_in_doubt
    cache.put([KEYS[3]], UNIT[None, :])
    assert (cache.missing(KEYS), np.array_equal(cache.get(KEYS)[KEYS[3]], UNIT)) == (set(), True)


def test_a_sound_cache_is_in_no_doubt(path: Path, cache: VectorCache) -> None:
    """Reading all of it raises none; finding the log of an owner that died does."""
    assert (len(cache.get(KEYS)), cache.is_in_doubt) == (700, False)
    again = VectorCache(path)  # the log of the one that is open lies there
    assert again.is_in_doubt
    again.close()
