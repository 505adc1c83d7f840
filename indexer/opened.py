"""One generation of the index, open: catalog, vector store and vector cache together."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from indexer.catalog import Catalog
from indexer.chroma import VectorStore
from indexer.embedder import Embedder
from indexer.homes import EmbeddedHome, StoreHome
from indexer.leases import Leases
from indexer.search import Search
from indexer.sync import Progress, Sync, compare, digest_of
from indexer.vectors import VectorCache
from models.memory_file import state_of
from models.results import IndexResult
from models.snapshot import PoolSnapshot


class Index:
    """One generation of the index, open; the caller holds the index lock. Those who ask it hold one of its `leases`.

    `outdated` says why its vectors do not fit the present model or rules; then it answers by words alone.
    """

    def __init__(self, folder: Path, vectors: VectorCache, embedder: Embedder, home: StoreHome | None = None) -> None:
        self.folder = folder
        self.vectors = vectors
        self.embedder = embedder
        self.outdated: str | None = None
        self.leases = Leases()
        self.catalog = Catalog(folder / "catalog.sqlite3")
        self.home: StoreHome = home or EmbeddedHome(folder, self.doubt)
        self._state = state_of(self.catalog.path)
        self._suspicion = folder / "suspect"
        self._is_retired = False

    @property
    def store(self) -> VectorStore:
        """The vector store, opened once, when first needed: chromadb takes a second to import. Raises StoreError."""
        return self.home.store()

    @property
    def store_is_open(self) -> bool:
        """Whether the vector store was needed yet."""
        return self.home.is_open

    @property
    def is_there(self) -> bool:
        """Whether the files that are open here are still the ones in the folder."""
        now, opened = state_of(self.catalog.path), self._state
        return now is not None and opened is not None and (now.dev, now.ino) == (opened.dev, opened.ino)

    @property
    def degraded(self) -> str | None:
        """Why it answers by words alone, if it does."""
        if self.outdated or self.home.trouble is not None:
            return self.outdated or str(self.home.trouble)
        refill = self.catalog.meta("refill")
        return f"the vector store was damaged ({refill}) and is to be filled again; run `coldspark index`" if refill else None

    def doubt(self, damage: str | None) -> None:
        """The next sync compares the store's records with the catalog's; until then a store with *damage* is not asked."""
        self.catalog.set_meta("unfinished", "yes")
        if damage:
            self.catalog.set_meta("refill", damage)

    def suspect(self) -> None:
        """Notes, for whoever opens this generation next, that every text must be looked at."""
        with suppress(OSError):
            self._suspicion.touch()

    def trust(self) -> None:
        """Every text was looked at."""
        self._suspicion.unlink(missing_ok=True)

    @property
    def is_suspect(self) -> bool:
        """Whether somebody noted that."""
        return self._suspicion.exists()

    @cached_property
    def search(self) -> Search:
        """Recall over this index."""
        return Search(self.catalog, self.vectors, lambda: self.store, self.embedder)

    def sync(self, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None) -> IndexResult:
        """Brings the index in line with the Markdown."""
        return self._sync.run(snapshots, progress)

    def unchanged(self, snapshots: Sequence[PoolSnapshot]) -> IndexResult:
        """What a sync says that could do nothing."""
        return self._sync.unchanged(compare(self.catalog.known(), snapshots))

    @property
    def _sync(self) -> Sync:
        home = self.home
        return Sync(self.catalog, self.vectors, home.store_to_sync, self.embedder, untouched=lambda: home.is_untouched, failed=home.note)

    def matches(self, snapshots: Sequence[PoolSnapshot]) -> bool:
        """Whether the index holds just what these files say."""
        return self.catalog.meta("digest") == digest_of(snapshots)

    def retire(self) -> None:
        """Another generation is in use: this one's files go when it is closed."""
        self._is_retired = True

    def close(self) -> None:
        """Lets go of all files but the vector cache."""
        if "search" in self.__dict__:
            self.search.close()
        self.home.close()
        self.catalog.close()
        if self._is_retired:
            shutil.rmtree(self.folder, ignore_errors=True)
