"""The vector cache: an embedding once computed is never computed again, whatever moves or is rebuilt."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.database import Database

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_SCHEMA = "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
_AT_ONCE = 500
"""Keys in one statement; SQLite's limit is 999 in old builds."""


def cache_key(fingerprint: str, text: str) -> bytes:
    """Names an embedding by model and embedded text."""
    return hashlib.sha256(f"{fingerprint}\0{text}".encode("utf-8", "surrogatepass")).digest()


class VectorCache(Database):
    """Embeddings by key, float32."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that have no embedding yet."""
        wanted = list(dict.fromkeys(keys))
        found: set[bytes] = set()
        for part, marks in _parts(wanted):
            found.update(row[0] for row in self.db.execute(f"SELECT key FROM vector WHERE key IN ({marks})", part))
        return set(wanted) - found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Embeddings by key; keys without one are left out."""
        found: dict[bytes, Vectors] = {}
        for part, marks in _parts(keys):
            rows = self.db.execute(f"SELECT key, value FROM vector WHERE key IN ({marks})", part)
            found.update((key, np.frombuffer(value, np.float32)) for key, value in rows)
        return found

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Stores embeddings, shape (len(keys), dimensions)."""
        with self.transaction() as db:
            rows = zip(keys, (v.astype(np.float32).tobytes() for v in vectors), strict=True)
            db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)


def _parts(keys: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], str]]:
    for i in range(0, len(keys), _AT_ONCE):
        part = keys[i : i + _AT_ONCE]
        yield part, ",".join("?" * len(part))
