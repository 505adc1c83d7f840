"""Stand-ins for the slow collaborators: an embedder without torch, a vector store without Chroma."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from indexer.chroma import Metadata, Record
from models.pool import TIERS, Tier

if TYPE_CHECKING:
    from indexer.embedder import Vectors

DIMENSIONS = 64


class FakeEmbedder:
    """Embeds a text as the sum of its words' fixed random directions, so that shared words mean nearness."""

    def __init__(self, max_tokens: int = 40, fingerprint: str = "fake:1") -> None:
        self.fingerprint = fingerprint
        self.max_tokens = max_tokens
        self.embedded: list[str] = []
        self.loaded = False

    def token_offsets(self, texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        """One token a word or mark."""
        return [[m.span() for m in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeds, and remembers what."""
        self.embedded += texts
        return np.stack([_direction(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """Embeds a question."""
        return _direction(text)

    def legible(self, text: str) -> float:
        """All of it."""
        return 1.0

    def load(self) -> None:
        """Nothing to load."""
        self.loaded = True


def _direction(text: str) -> Vectors:
    total = np.full(DIMENSIONS, 1e-3)
    for word in re.findall(r"\w+", text.casefold()):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        total += np.random.default_rng(seed).normal(size=DIMENSIONS)
    unit: Vectors = (total / np.linalg.norm(total)).astype(np.float32)
    return unit


class MemoryStore:
    """A vector store in a dictionary, exact and small."""

    is_shared = False

    def __init__(self) -> None:
        self.records: dict[Tier, dict[str, Record]] = {tier: {} for tier in TIERS}
        self.closed = False

    def mark(self, tier: Tier) -> str:
        """Another for every store."""
        return f"{tier} {id(self)}"

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Adds or replaces; like Chroma, keeps metadata keys that an update leaves out."""
        for record in records:
            old = self.records[tier].get(record.id)
            metadata: Metadata = {**(old.metadata if old else {}), **record.metadata}
            self.records[tier][record.id] = Record(record.id, record.vector, metadata, record.document)

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Removes records; unknown ids are ignored."""
        for record_id in ids:
            self.records[tier].pop(record_id, None)

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest by brute force."""
        chosen = self.records[tier].values() if ids is None else [self.records[tier][i] for i in ids if i in self.records[tier]]
        scored = sorted(((float(r.vector @ vector), r.id) for r in chosen), key=lambda pair: (-pair[0], pair[1]))
        return [(record_id, cosine) for cosine, record_id in scored[:limit]]

    def vectors(self, tier: Tier, ids: Sequence[str]) -> dict[str, Vectors]:
        """Vectors by id."""
        return {i: self.records[tier][i].vector for i in ids if i in self.records[tier]}

    def count(self, tier: Tier) -> int:
        """How many records the tier has."""
        return len(self.records[tier])

    def ids(self, tier: Tier) -> set[str]:
        """Every record's id."""
        return set(self.records[tier])

    def close(self) -> None:
        """Remembers that it was closed."""
        self.closed = True
