"""The index in this process. The caller holds the index lock; one object serves all threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from indexer.catalog import StoredEntry
from indexer.embedder import Embedder, find_embedder
from indexer.index import Index, IndexFolder
from models.errors import (
    AmbiguousEntryError,
    ModelChangedError,
    ModelMissingError,
    UnknownEntryError,
    UnknownPoolError,
)
from models.memory_file import FileState, state_of
from models.pool import Pool
from models.query import RecallRequest, TextForm
from models.results import EntryResult, IndexResult, RecallResult
from models.settings import Settings
from models.snapshot import read_pool
from models.views import entry_result
from service.backend import Progress, silent

States = tuple[tuple[str, FileState | None], ...]


class LocalBackend:
    """Sync and recall over the index in the state folder."""

    def __init__(self, settings: Settings, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.loading: str | None = None
        self._syncing = threading.Lock()
        self._opening = threading.Lock()
        self._seen: States | None = None
        self._problem: str | None = None
        self._model_error: ModelMissingError | ModelChangedError | None = None
        self.embedder = embedder or find_embedder(settings.model)
        self.folder = IndexFolder(settings.state_dir, self.embedder, settings.chroma_url)
        self._index: Index | None = None
        self._retired: list[Index] = []

    # Opening

    def load_model(self) -> None:
        """Loads the model; a failure is remembered, and recall answers by words alone."""
        try:
            self.embedder.load()
        except (ModelMissingError, ModelChangedError) as error:
            self._model_error = error
        else:
            self._model_error = None

    def index(self, *, create: bool = False) -> Index:
        """The open index. Raises IndexMissingError; ModelMissingError when one must be created without a model."""
        with self._opening:
            if self._index is None:
                self._index = self.folder.open(create=create)
            return self._index

    def close(self) -> None:
        """Lets go of the index."""
        self._close_retired()
        if self._index is not None:
            self._index.close()
            self.folder.vectors.close()
            self._index = None

    def _close_retired(self) -> None:
        while self._retired:
            self._retired.pop().close()

    # Using

    def sync(self, *, rebuild: bool = False, progress: Progress = silent) -> IndexResult:
        """Brings the index in line with the Markdown; a rebuild makes a new one beside it and switches."""
        with self._syncing:
            pools = self.settings.all_pools()
            states = _states(pools)
            snapshots = [read_pool(pool) for pool in pools]
            problems = [problem for s in snapshots for problem in s.problems]
            if problems and not any(s.files for s in snapshots):
                raise problems[0]
            self._close_retired()
            index = self.index(create=True)
            self._index, result = self.folder.sync(index, snapshots, progress, rebuild=rebuild)
            if self._index is not index:
                self._retired.append(index)  # a question may still be at it; closed at the next sync
            self.index().catalog.set_meta("synced_at", self.settings.clock().isoformat(timespec="seconds"))
            self._seen, self._problem = states, result.stale
            return result

    def recall(self, request: RecallRequest) -> RecallResult:
        """Entries that answer a question; by words alone while the model cannot be had."""
        self._check_pools(request)
        index = self.index()
        degraded = self.degraded() or index.outdated
        if degraded is None and request.mode != "lexical":
            self.load_model()
            degraded = self.degraded()
        if degraded and request.mode == "semantic" and self._model_error is not None:
            raise self._model_error
        return index.search.recall(request, degraded if request.mode != "lexical" else None, self.stale())

    def entry(self, entry_id: str, pool: str | None = None) -> EntryResult:
        """One entry. Raises UnknownEntryError, AmbiguousEntryError."""
        stored = self.stored(entry_id, pool)
        return entry_result(stored.view, stored.text, self.stale())

    def stored(self, entry_id: str, pool: str | None = None) -> StoredEntry:
        """One entry with its exact bytes."""
        found = [s for s in self.index().catalog.find(entry_id) if pool is None or s.view.pool == pool]
        if not found:
            raise UnknownEntryError(entry_id)
        if len({s.view.id for s in found}) > 1:
            raise AmbiguousEntryError(entry_id, [s.view.id for s in found])
        return found[0]

    def related(self, entry_id: str, limit: int, text: TextForm) -> RecallResult:
        """Entries near one entry in meaning."""
        return self.index().search.related(self.stored(entry_id), limit, text, self.stale())

    def warm_up(self) -> None:
        """Asks something, so that the first person to ask does not wait for lazy parts."""
        self.index().search.recall(RecallRequest(query="kiln", limit=1, text="none"))

    # Telling

    def degraded(self) -> str | None:
        """Why recall goes by words alone, if it does."""
        return self.loading or (str(self._model_error) if self._model_error else None)

    def stale(self) -> str | None:
        """Why the index may lag behind the Markdown, if it may."""
        pools = self.settings.all_pools()
        if self._seen is None:
            if self.index().matches([read_pool(pool) for pool in pools if pool.memory_dir.is_dir()]):
                self._seen = _states(pools)
                return None
            return "the memory files changed since the last sync; run `coldspark index`"
        if self._seen != _states(pools):
            return "the memory files changed since the last sync"
        return self._problem

    def has_changed(self) -> bool:
        """Whether any memory file differs from what the last sync read, or could not be read then."""
        return not self.is_whole or self._seen != _states(self.settings.all_pools())

    @property
    def is_whole(self) -> bool:
        """Whether the last sync could read every file."""
        return self._problem is None

    def _check_pools(self, request: RecallRequest) -> None:
        known = [p.name for p in self.settings.all_pools()]
        for name in request.filters.pool or ():
            if name not in [k.casefold() for k in known]:
                raise UnknownPoolError(name, known)


def _states(pools: Sequence[Pool]) -> States:
    paths = [path for pool in pools for path in (pool.active, *pool.archive_files())]
    return tuple((str(path), state_of(path)) for path in paths)
