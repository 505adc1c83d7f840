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

from models.errors import StoreUnreachableError
from models.pool import Tier

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection
    from chromadb.api.types import QueryResult

    from indexer.embedder import Vectors

COLLECTIONS: dict[Tier, str] = {"active": "sparks-active", "archive": "sparks-archive"}
_SEARCH_BREADTH = 400
"""HNSW's ef_search: how many neighbours a query looks at."""
_AT_ONCE = 1_000

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

    def vectors(self, tier: Tier, ids: Sequence[str]) -> dict[str, Vectors]:
        """Vectors by id, of those records that are there."""

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
        """The collection; one that somebody made in another space is made anew, empty."""
        found = self._create(name)
        if found.configuration_json["hnsw"]["space"] != "cosine":
            self._client.delete_collection(name)
            found = self._create(name)
        return found

    def _create(self, name: str) -> Collection:
        return self._client.get_or_create_collection(
            name, configuration={"hnsw": {"space": "cosine", "ef_search": _SEARCH_BREADTH}}, embedding_function=None
        )

    def reset(self) -> None:
        """Empties both tiers, for vectors of any other width too."""
        for tier, name in COLLECTIONS.items():
            self._client.delete_collection(name)
            self._collections[tier] = self._create(name)

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Adds or replaces records, in batches that Chroma takes."""
        for part in _batched(records, self._batch):
            self._collections[tier].upsert(
                ids=[r.id for r in part], embeddings=np.stack([r.vector for r in part]),
                metadatas=[dict(r.metadata) for r in part], documents=[r.document for r in part],
            )  # fmt: skip

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Removes records; unknown ids are ignored."""
        for part in _batched(ids, _AT_ONCE):
            self._collections[tier].delete(ids=list(part))

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest records' (id, cosine), nearest first, among *ids* if given."""
        most = min(limit, self.count(tier) if ids is None else len(ids))
        if most < 1:
            return []
        try:
            found = self._nearest(tier, vector, most, ids)
        except _unknown_id():
            known = self._existing(tier, ids or [])
            if ids is None or len(known) == len(ids):
                raise
            return self.query(tier, vector, limit, known)
        distances = found["distances"] or [[]]
        return [(i, 1.0 - d) for i, d in zip(found["ids"][0], distances[0], strict=True)]

    def _nearest(self, tier: Tier, vector: Vectors, most: int, ids: Sequence[str] | None) -> QueryResult:
        chosen: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
        return self._collections[tier].query(query_embeddings=vector[None, :], n_results=most, include=["distances"], **chosen)

    def _existing(self, tier: Tier, ids: Sequence[str]) -> list[str]:
        parts = (self._collections[tier].get(ids=part, include=[])["ids"] for part in _batched(ids, _AT_ONCE))
        return [name for part in parts for name in part]

    def vectors(self, tier: Tier, ids: Sequence[str]) -> dict[str, Vectors]:
        """Vectors by id, of those records that are there."""
        found: dict[str, Vectors] = {}
        for part in _batched(ids, _AT_ONCE):
            page = self._collections[tier].get(ids=part, include=["embeddings"])
            embeddings = page["embeddings"]
            if embeddings is not None:
                found.update((i, np.asarray(v, np.float32)) for i, v in zip(page["ids"], embeddings, strict=True))
        return found

    def count(self, tier: Tier) -> int:
        """How many records the tier has."""
        return self._collections[tier].count()

    def ids(self, tier: Tier) -> set[str]:
        """Every record's id, read in pages: Chroma cannot name 100,000 at once."""
        found: set[str] = set()
        while page := self._collections[tier].get(include=[], limit=_AT_ONCE, offset=len(found))["ids"]:
            found.update(page)
        return found

    def close(self) -> None:
        """Lets go of the store's files."""
        self._client.close()  # type: ignore[attr-defined]
        for part in (self._client, getattr(self._client, "_admin_client", None)):
            session = getattr(getattr(part, "_server", None), "_session", None)
            if session is not None:  # the HTTP client leaves its connections open
                session.close()


def open_embedded(folder: Path) -> ChromaStore:
    """Chroma's own engine over a folder; no other process may open it meanwhile."""
    import chromadb

    folder.mkdir(parents=True, exist_ok=True)
    return ChromaStore(chromadb.PersistentClient(path=str(folder), settings=_settings()))


def open_server(url: str) -> ChromaStore:
    """A Chroma server or cluster. Raises StoreUnreachableError."""
    import chromadb

    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 8000)
    try:
        client = chromadb.HttpClient(host=parts.hostname or "localhost", port=port, ssl=parts.scheme == "https", settings=_settings())
    except ValueError as error:
        raise StoreUnreachableError(url, str(error)) from error
    return ChromaStore(client)


def _unknown_id() -> type[Exception]:
    from chromadb.errors import InternalError

    return InternalError


def _settings() -> Any:
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def _batched(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
