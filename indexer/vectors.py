"""The vector cache: an embedding once computed is never computed again, whatever moves or is rebuilt."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer.database import Database

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_SCHEMA = "CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
_TOLERANCE = 0.01
"""How far from 1 a sound embedding's squared length may be."""
_AT_ONCE = 500
"""Keys in one statement; SQLite's limit is 999 in old builds."""


def cache_key(fingerprint: str, text: str) -> bytes:
    """Names an embedding by model and embedded text."""
    return hashlib.sha256(f"{fingerprint}\0{text}".encode("utf-8", "surrogatepass")).digest()


class VectorCache(Database):
    """Embeddings by key, float32."""

    def __init__(self, path: Path) -> None:
        self.is_in_doubt = path.with_name(f"{path.name}-wal").exists()
        """Whether the last owner died, or an embedding was found spoilt: then all are looked at by the next sync."""
        super().__init__(path, _SCHEMA)

    def missing(self, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that have no embedding, or a spoilt one."""
        wanted = list(dict.fromkeys(keys))
        found: set[bytes] = set()
        for part, _ in _parts(wanted):
            found.update(_sound(self._rows(part))[0])
        return set(wanted) - found

    def absent(self, keys: Iterable[bytes]) -> set[bytes]:
        """The keys that have no embedding; quicker, since none is read."""
        wanted = list(dict.fromkeys(keys))
        found: set[bytes] = set()
        for part, marks in _parts(wanted):
            found.update(row[0] for row in self.db.execute(f"SELECT key FROM vector WHERE key IN ({marks})", part))
        return set(wanted) - found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Vectors]:
        """Embeddings by key; keys without one, or with a spoilt one, are left out."""
        found: dict[bytes, Vectors] = {}
        for part, _ in _parts(keys):
            sound, spoilt = _sound(self._rows(part))
            found.update(sound)
            self.is_in_doubt |= bool(spoilt)
        return found

    def _rows(self, keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        return self.db.execute(f"SELECT key, value FROM vector WHERE key IN ({','.join('?' * len(keys))})", keys).fetchall()

    def put(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Stores embeddings, shape (len(keys), dimensions)."""
        with self.transaction() as db:
            rows = zip(keys, (v.astype(np.float32).tobytes() for v in vectors), strict=True)
            db.executemany("INSERT OR REPLACE INTO vector VALUES (?, ?)", rows)


def _sound(rows: list[tuple[bytes, bytes]]) -> tuple[dict[bytes, Vectors], int]:
    """The embeddings that have the usual width and unit length, as all had when they were put in; and how many have not."""
    if not rows:
        return {}, 0
    ((width, _),) = Counter(len(value) for _, value in rows).most_common(1)
    usual = [(key, value) for key, value in rows if len(value) == width and width % 4 == 0]
    vectors = np.frombuffer(b"".join(value for _, value in usual), np.float32).reshape(len(usual), -1)
    with np.errstate(all="ignore"):  # what is spoilt may be infinite
        is_unit = np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < _TOLERANCE
    sound = {key: vector for (key, _), vector, is_sound in zip(usual, vectors, is_unit.tolist(), strict=True) if is_sound}
    return sound, len(rows) - len(sound)


def _parts(keys: Sequence[bytes]) -> Iterator[tuple[Sequence[bytes], str]]:
    for i in range(0, len(keys), _AT_ONCE):
        part = keys[i : i + _AT_ONCE]
        yield part, ",".join("?" * len(part))
