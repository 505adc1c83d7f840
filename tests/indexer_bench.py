"""A pool, its index in a temporary folder, and what a test wants to know of both: used by the tests of `indexer`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from indexer.catalog import Catalog, Indexed, Known
from indexer.chroma import Record, VectorStore
from indexer.embedder import Embedder
from indexer.search import Search
from indexer.sync import Sync
from indexer.vectors import VectorCache
from models.pool import TIERS, Pool, Tier
from models.query import Filters, Mode, RecallRequest
from models.results import Hit, IndexResult
from models.snapshot import PlacedEntry, PoolSnapshot, read_pool
from tests.fakes import FakeEmbedder, MemoryStore


def write_tiers(pool: Pool, active: bytes | None, archive: bytes | None = None) -> None:
    """Makes the pool's two files hold these bytes; None leaves a file as it is."""
    for path, data in ((pool.active, active), (pool.archive, archive)):
        if data is not None:
            path.write_bytes(data)


class InterruptedError_(Exception):  # noqa: N801, N818 - InterruptedError is Python's own
    """The process dies here."""


@dataclass
class Mine:
    """Goes off at call number `at` (from 1; never when 0), before the call takes effect or behind it."""

    at: int = 0
    after: bool = False
    calls: int = 0

    def guard(self, action: Callable[[], None]) -> None:
        """Runs *action*, unless it is the one."""
        self.calls += 1
        struck = self.calls == self.at
        if struck and not self.after:
            raise InterruptedError_
        action()
        if struck:
            raise InterruptedError_


class MinedStore(MemoryStore):
    """A store whose writes may be interrupted; upserts arrive one record at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.mine = Mine()

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Upserts until the mine goes off."""
        for record in records:
            self.mine.guard(lambda record=record: super(MinedStore, self).upsert(tier, [record]))  # type: ignore[misc]

    def delete(self, tier: Tier, ids: Sequence[str]) -> None:
        """Deletes until the mine goes off."""
        for record_id in ids:
            self.mine.guard(lambda record_id=record_id: super(MinedStore, self).delete(tier, [record_id]))  # type: ignore[misc]


class MinedCatalog(Catalog):
    """A catalog whose transactions may be interrupted."""

    mine = Mine()

    def set_meta(self, name: str, value: str) -> None:
        """Sets, unless the mine goes off."""
        self.mine.guard(lambda: super(MinedCatalog, self).set_meta(name, value))

    def write(
        self, indexed: Sequence[Indexed], moved: Sequence[PlacedEntry], gone: Sequence[Known], surplus: Sequence[tuple[Tier, str]]
    ) -> None:
        """Writes, unless the mine goes off."""
        self.mine.guard(lambda: super(MinedCatalog, self).write(indexed, moved, gone, surplus))

    def forget_surplus(self) -> None:
        """Forgets, unless the mine goes off."""
        self.mine.guard(lambda: super(MinedCatalog, self).forget_surplus())


@dataclass
class Bench:
    """An index over some pools, with the collaborators in reach."""

    folder: Path
    pools: list[Pool]
    embedder: Embedder = field(default_factory=FakeEmbedder)
    store: VectorStore = field(default_factory=MemoryStore)
    mine: Mine | None = None

    def __post_init__(self) -> None:
        """Opens catalog and vector cache."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.vectors = VectorCache(self.folder / "vectors.sqlite3")
        self.catalog = Catalog(self.folder / "catalog.sqlite3")
        if self.mine is not None:
            mined = MinedCatalog(self.folder / "catalog.sqlite3")
            store = MinedStore()
            mined.mine = store.mine = self.mine
            self.catalog, self.store = mined, store

    def snapshots(self) -> list[PoolSnapshot]:
        """The pools as they are on disk."""
        return [read_pool(pool) for pool in self.pools]

    def sync(self) -> IndexResult:
        """One sync."""
        return Sync(self.catalog, self.vectors, lambda: self.store, self.embedder).run(self.snapshots())

    @property
    def search(self) -> Search:
        """Recall over the index."""
        return Search(self.catalog, self.vectors, lambda: self.store, self.embedder)

    def recall(self, query: str, filters: Filters | None = None, mode: Mode = "hybrid", limit: int = 10) -> list[Hit]:
        """The hits of one question."""
        return self.search.recall(RecallRequest(query=query, mode=mode, limit=limit, filters=filters or Filters())).hits

    def state(self) -> dict[str, object]:
        """Everything that two indexes of the same files must agree on, whatever their history."""
        rows = self.catalog.known()
        return {
            "entries": {key: (k.version, k.tier, k.file, k.view, k.passages) for key, k in rows.items()},
            "wanted": {tier: self.catalog.records(tier) for tier in TIERS},
            "stored": {tier: self.store.ids(tier) for tier in TIERS},
            "surplus": self.catalog.surplus(),
        }

    def lose_vectors(self) -> None:
        """Deletes the vector cache, as its owner may at any time."""
        self.vectors.close()
        for path in self.folder.glob("vectors.sqlite3*"):
            path.unlink()
        self.vectors = VectorCache(self.folder / "vectors.sqlite3")

    def close(self) -> None:
        """Lets go of the files."""
        self.catalog.close()
        self.vectors.close()
