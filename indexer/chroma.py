"""The vector store: one Chroma collection a tier, in cosine space. The only module that imports chromadb."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

import numpy as np

from models.pool import Tier

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection

    from indexer.embedder import Vectors

COLLECTIONS: dict[Tier, str] = {"active": "sparks-active", "archive": "sparks-archive"}
_SEARCH_BREADTH = 400
"""HNSW's ef_search: how many neighbours a query looks at."""
_DELETE_AT_ONCE = 1_000

_Item = TypeVar("_Item")

Metadata = Mapping[str, str | int | list[str | int | float | bool]]


@dataclass(frozen=True, slots=True)
class Record:
    """One passage as stored. Every record has the same metadata keys, since an update keeps keys that it does not name."""

    id: str
    vector: Vectors
    metadata: Metadata
    document: str


class VectorStore(Protocol):
    """Passages' vectors by tier. Ids are unique within a tier."""

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Adds or replaces records, however many."""

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Removes records; unknown ids are ignored."""

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest records' (id, cosine), nearest first, among *ids* if given."""

    def count(self, tier: Tier) -> int:
        """How many records the tier has."""

    def ids(self, tier: Tier) -> set[str]:
        """Every record's id."""

    def close(self) -> None:
        """Lets go of the store's files."""


class ChromaStore:
    """Chroma, embedded in a folder, or on a server."""

    def __init__(self, client: ClientAPI) -> None:
        self._client = client
        self._batch = client.get_max_batch_size()
        self._collections: dict[Tier, Collection] = {tier: self._collection(name) for tier, name in COLLECTIONS.items()}

    def _collection(self, name: str) -> Collection:
        return self._client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine", "ef_search": _SEARCH_BREADTH}}, embedding_function=None
        )

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Adds or replaces records, in batches that Chroma takes."""
        for part in _batched(records, self._batch):
            self._collections[tier].upsert(
                ids=[r.id for r in part], embeddings=np.stack([r.vector for r in part]),
                metadatas=[dict(r.metadata) for r in part], documents=[r.document for r in part],
            )  # fmt: skip

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Removes records; unknown ids are ignored."""
        for part in _batched(ids, _DELETE_AT_ONCE):
            self._collections[tier].delete(ids=list(part))

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest records' (id, cosine), nearest first, among *ids* if given."""
        most = min(limit, self.count(tier) if ids is None else len(ids))
        if most < 1:
            return []
        chosen: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
        found = self._collections[tier].query(query_embeddings=vector[None, :], n_results=most, include=["distances"], **chosen)
        distances = found["distances"] or [[]]
        return [(i, 1.0 - d) for i, d in zip(found["ids"][0], distances[0], strict=True)]

    def count(self, tier: Tier) -> int:
        """How many records the tier has."""
        return self._collections[tier].count()

    def ids(self, tier: Tier) -> set[str]:
        """Every record's id, read in pages: Chroma cannot name 100,000 at once."""
        found: set[str] = set()
        while page := self._collections[tier].get(include=[], limit=_DELETE_AT_ONCE, offset=len(found))["ids"]:
            found.update(page)
        return found

    def close(self) -> None:
        """Lets go of the store's files."""
        self._client.close()  # type: ignore[attr-defined]


def open_embedded(folder: Path) -> ChromaStore:
    """Chroma's own engine over a folder; no other process may open it meanwhile."""
    import chromadb

    folder.mkdir(parents=True, exist_ok=True)
    return ChromaStore(chromadb.PersistentClient(path=str(folder), settings=_settings()))


def open_server(url: str) -> ChromaStore:
    """A Chroma server or cluster."""
    import chromadb

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 8000)
    client = chromadb.HttpClient(host=parts.hostname or "localhost", port=port, ssl=parts.scheme == "https", settings=_settings())
    return ChromaStore(client)


def _settings() -> Any:
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _batched(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
