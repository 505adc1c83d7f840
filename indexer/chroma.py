"""The vector store: one Chroma collection a tier, in cosine space. This module and `chroma_server` alone import chromadb."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np

from indexer.leases import EndedError, Leases
from models.errors import StoreBusyError, StoreDamagedError, StoreError, StoreFullError
from models.pool import Tier

if TYPE_CHECKING:
    from chromadb.api import ClientAPI
    from chromadb.api.models.Collection import Collection
    from chromadb.api.types import GetResult, QueryResult

    from indexer.embedder import Vectors

COLLECTIONS: dict[Tier, str] = {"active": "sparks-active", "archive": "sparks-archive"}
_GRAPH: Any = {"space": "cosine", "ef_search": 400, "ef_construction": 200, "max_neighbors": 32}
"""HNSW's settings: asked for 200 of 100,000 clustered passages, 99 % of the nearest ten are there; with Chroma's own 91 %."""
_AT_ONCE = 1_000
_CLOSE_WITHIN_SECONDS = 30.0
_NO_ROOM = ("database or disk is full", "no space left on device", "disk quota exceeded")

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")

Metadata = Mapping[str, str | int | list[str | int | float | bool]]


@dataclass(frozen=True, slots=True)
class Record:
    """One passage as stored. Every record has the same metadata keys, since an update keeps keys that it does not name."""

    id: str
    vector: Vectors
    metadata: Metadata
    document: str


class VectorStore(Protocol):
    """Passages' vectors by tier. Ids are unique within a tier. Every method may raise StoreError."""

    @property
    def is_shared(self) -> bool:
        """Whether records that the catalog does not know may be somebody else's."""

    def mark(self, tier: Tier) -> str:
        """Names the very collection: one that was made anew has another mark."""

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
    """Chroma, embedded in a folder; safe for several threads."""

    is_shared: ClassVar[bool] = False

    def __init__(self, client: ClientAPI, place: str, names: Mapping[Tier, str] = COLLECTIONS) -> None:
        """*place* is what messages call the store. Raises StoreError."""
        self._client = client
        self.place = place
        self.names = dict(names)
        self._leases = Leases()
        with self._reported():
            self._batch = client.get_max_batch_size()
            self._collections: dict[Tier, Collection] = {tier: self._collection(name) for tier, name in self.names.items()}

    def _collection(self, name: str) -> Collection:
        """The collection; one that somebody made in another space is made anew, empty."""
        found = self._create(name)
        if not is_cosine(found):
            self._client.delete_collection(name)
            found = self._create(name)
        return found

    def _create(self, name: str, metadata: dict[str, Any] | None = None) -> Collection:
        return self._client.get_or_create_collection(name, configuration={"hnsw": _GRAPH}, embedding_function=None, metadata=metadata)

    def _again(self, tier: Tier) -> Collection:
        """The collection of that name, when the one that we knew is gone."""
        return self._client.get_collection(self.names[tier], embedding_function=None)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Turns what Chroma raises into StoreError."""
        try:
            yield
        except StoreError:
            raise
        except BaseException as error:  # Chroma's native part panics past Exception; `_meaning` lets all else through
            meaning = self._meaning(error)
            if meaning is None:
                raise
            raise meaning from error

    def _meaning(self, error: BaseException) -> StoreError | None:
        from chromadb.errors import ChromaError

        if not isinstance(error, ChromaError | OSError) and type(error).__name__ != "PanicException":
            return None
        reason = first_line(error)
        return StoreFullError(self.place) if is_no_room(reason) else StoreDamagedError(Path(self.place), reason)

    def _ask(self, tier: Tier, question: Callable[[Collection], _Answer]) -> _Answer:
        """The answer of the tier's collection, looked up once more by its name if it was exchanged."""
        from chromadb.errors import NotFoundError

        try:
            with self._leases.lease(), self._reported():
                try:
                    return question(self._collections[tier])
                except NotFoundError:
                    self._collections[tier] = self._again(tier)
                    return question(self._collections[tier])
        except EndedError as error:
            raise StoreBusyError(self.place) from error

    def mark(self, tier: Tier) -> str:
        """The collection's own id."""
        return str(self._collections[tier].id)

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Adds or replaces records, in batches that Chroma takes."""
        for part in batched(records, min(self._batch, _AT_ONCE)):
            values = {
                "ids": [r.id for r in part], "embeddings": np.stack([r.vector for r in part]),
                "metadatas": [dict(r.metadata) for r in part], "documents": [r.document for r in part],
            }  # fmt: skip
            self._ask(tier, lambda c, values=values: c.upsert(**values))  # type: ignore[misc]

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Removes records; unknown ids are ignored."""
        for part in batched(ids, _AT_ONCE):
            self._ask(tier, lambda c, part=part: c.delete(ids=part))  # type: ignore[misc]

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest records' (id, cosine), nearest first, among *ids* if given."""
        most = limit if ids is None else min(limit, len(ids))
        if most < 1:
            return []
        try:
            found = self._nearest(tier, vector, most, ids)
        except StoreError:  # it fails over an id that is not there
            known = self._existing(tier, ids or [])
            if ids is None or len(known) == len(ids):
                raise
            return self.query(tier, vector, limit, known)
        distances = found["distances"] or [[]]
        return [(i, 1.0 - d) for i, d in zip(found["ids"][0], distances[0], strict=True)]

    def _nearest(self, tier: Tier, vector: Vectors, most: int, ids: Sequence[str] | None) -> QueryResult:
        chosen: dict[str, Any] = {} if ids is None else {"ids": list(ids)}
        return self._ask(tier, lambda c: c.query(query_embeddings=vector[None, :], n_results=most, include=["distances"], **chosen))

    def _existing(self, tier: Tier, ids: Sequence[str]) -> list[str]:
        return [name for part in batched(ids, _AT_ONCE) for name in self._get(tier, ids=part)["ids"]]

    def _get(self, tier: Tier, **wanted: Any) -> GetResult:
        return self._ask(tier, lambda c: c.get(**{"include": [], **wanted}))

    def vectors(self, tier: Tier, ids: Sequence[str]) -> dict[str, Vectors]:
        """Vectors by id, of those records that are there."""
        found: dict[str, Vectors] = {}
        for part in batched(ids, _AT_ONCE):
            page = self._get(tier, ids=part, include=["embeddings"])
            embeddings = page["embeddings"]
            if embeddings is not None:
                found.update((i, np.asarray(v, np.float32)) for i, v in zip(page["ids"], embeddings, strict=True))
        return found

    def count(self, tier: Tier) -> int:
        """How many records the tier has."""
        return self._ask(tier, lambda c: c.count())

    def ids(self, tier: Tier) -> set[str]:
        """Every record's id, read in pages: Chroma cannot name 100,000 at once."""
        found: set[str] = set()
        read = 0
        while page := self._get(tier, limit=_AT_ONCE, offset=read)["ids"]:
            found.update(page)
            read += len(page)
        return found

    def close(self) -> None:
        """Lets go of the store's files, when whoever asks it now has an answer."""
        self._leases.end_and_wait(self._close, _CLOSE_WITHIN_SECONDS)

    def _close(self) -> None:
        self._client.close()  # type: ignore[attr-defined]


def open_embedded(folder: Path) -> ChromaStore:
    """Chroma's own engine over a folder; no other process may open it meanwhile. Raises StoreError."""
    import chromadb

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        client = chromadb.PersistentClient(path=str(folder), settings=settings())
    except BaseException as error:  # as in `_reported`
        reason = first_line(error)
        if is_no_room(reason):
            raise StoreFullError(str(folder)) from error
        if isinstance(error, chromadb.errors.ChromaError | OSError | ValueError) or type(error).__name__ == "PanicException":
            raise StoreDamagedError(folder, reason) from error
        raise
    return ChromaStore(client, str(folder))


def is_cosine(collection: Collection) -> bool:
    """Whether the collection compares by cosine."""
    hnsw = collection.configuration_json.get("hnsw") or collection.configuration_json.get("spann") or {}
    return bool(hnsw.get("space") == "cosine")


def is_no_room(reason: str) -> bool:
    """Whether a failure's text says that the disk is full."""
    return any(words in reason.casefold() for words in _NO_ROOM)


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def settings() -> Any:
    """Chroma's settings: nothing is reported to anybody."""
    os.environ["ANONYMIZED_TELEMETRY"] = "False"
    from chromadb.config import Settings

    return Settings(anonymized_telemetry=False)


def batched(items: Sequence[_Item], size: int) -> Iterator[list[_Item]]:
    """The items in lists of at most *size*."""
    iterator = iter(items)
    while part := list(islice(iterator, size)):
        yield part
