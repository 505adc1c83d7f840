"""The index in this process. The caller holds the index lock; one object serves all threads."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from indexer.catalog import StoredEntry
from indexer.embedder import Embedder, find_embedder
from indexer.index import IndexFolder, is_damage
from indexer.leases import EndedError
from indexer.opened import Index
from models.errors import (
    AmbiguousEntryError,
    BusyError,
    IndexDamagedError,
    IndexMissingError,
    ModelChangedError,
    ModelMissingError,
    StoreError,
    UnknownEntryError,
    UnknownPoolError,
    WriteFailedError,
)
from models.memory_file import FileState, state_of
from models.pool import Pool
from models.query import RecallRequest, TextForm
from models.results import EntryResult, IndexResult, RecallResult
from models.settings import Settings
from models.snapshot import PoolSnapshot, read_pool
from models.views import entry_result
from service.backend import Progress, silent

log = logging.getLogger("coldspark")

_LET_GO_WITHIN_SECONDS = 30.0

States = tuple[tuple[str, FileState | None], ...]


class LocalBackend:
    """Sync and recall over the index in the state folder.

    Questions hold a lease of the index that is in use; a sync that makes a new one lets them finish before the old one is closed.
    """

    def __init__(self, settings: Settings, embedder: Embedder | None = None) -> None:
        self.settings = settings
        self.loading: str | None = None
        self._syncing = threading.Lock()
        self._opening = threading.Lock()
        self._seen: States | None = None
        self._compared_states: States | None = None
        self._problem: str | None = None
        self._model_error: ModelMissingError | ModelChangedError | None = None
        self.embedder = embedder or find_embedder(settings.model)
        self.folder = IndexFolder(settings.state_dir, self.embedder, settings.chroma_url)
        self._index: Index | None = None
        self._damage: str | None = None
        self._told: str | None = None
        self._closed = threading.Event()
        self._closed.set()

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
                self._wait_until_closed()
                self._index = self.folder.open(create=create)
            return self._index

    @contextmanager
    def leased(self) -> Iterator[Index]:
        """The index that is in use, which stays open for the `with` block.

        Raises IndexMissingError, also when its files were removed; IndexDamagedError when what it says cannot be trusted.
        """
        while True:
            index = self.index()
            if not index.is_there:
                raise IndexMissingError(self.folder.folder)
            with suppress(EndedError), index.leases.lease(), self._watched(index):
                yield index
                return

    @contextmanager
    def _watched(self, index: Index) -> Iterator[None]:
        """Remembers damage for the next sync."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._damage = str(error)
            index.suspect()
            raise IndexDamagedError(index.folder, str(error)) from error

    def close(self) -> None:
        """Lets go of the index when the last question is answered."""
        with self._opening:
            self._let_go()

    def _let_go(self) -> None:
        index, self._index = self._index, None
        if index is not None:
            self._closed.clear()
            index.leases.end(lambda: self._close(index))

    def _close(self, index: Index) -> None:
        try:
            index.close()
            self.folder.close_vectors()
        finally:
            self._closed.set()

    def _wait_until_closed(self) -> None:
        """No folder is opened while it is open: raises BusyError while a question keeps the index that was let go of."""
        if not self._closed.wait(_LET_GO_WITHIN_SECONDS):
            raise BusyError("index", self.folder.folder, "a question that does not end")

    # Using

    def sync(self, *, rebuild: bool = False, progress: Progress = silent) -> IndexResult:
        """Brings the index in line with the Markdown; a rebuild makes a new one beside it and switches.

        Raises WriteFailedError when the disk is full.
        """
        with self._syncing:
            pools = self.settings.all_pools()
            states = _states(pools)
            snapshots = [read_pool(pool) for pool in pools]
            problems = [problem for s in snapshots for problem in s.problems]
            if problems and not any(s.files for s in snapshots):
                raise problems[0]
            try:
                result = self._sync(snapshots, progress, rebuild=rebuild)
            except sqlite3.Error as error:
                if not isinstance(error, sqlite3.DatabaseError) or not is_damage(error):
                    raise WriteFailedError(self.folder.folder, str(error)) from error
                self._damage = str(error)  # seen only now; the index is opened anew, and checked
                if self._index is not None:
                    self._index.suspect()
                result = self._sync(snapshots, progress, rebuild=rebuild)
            self._seen, self._problem = states, result.stale
            self._tell(result.degraded)
            return result

    def _tell(self, degraded: str | None) -> None:
        """Logs once that answers go by words alone, and once that they do no longer."""
        if degraded is not None and degraded != self._told:
            log.info("answers go by words alone: %s", degraded)
        elif degraded is None and self._told is not None:
            log.info("answers go by meaning again")
        self._told = degraded

    def _sync(self, snapshots: Sequence[PoolSnapshot], progress: Progress, *, rebuild: bool) -> IndexResult:
        if self._damage is not None or (self._index is not None and not self._index.is_there):
            self._reopen()
        index = self.index(create=True)
        self._damage = None
        successor, result = self.folder.sync(index, snapshots, progress, rebuild=rebuild)
        if successor is not index:
            with self._opening:
                self._index = successor
            index.leases.end(index.close)
        successor.catalog.set_meta("synced_at", self.settings.clock().isoformat(timespec="seconds"))
        return result

    def _reopen(self) -> None:
        """Closes the index so that the next use opens, and checks, it anew."""
        self.close()

    def recall(self, request: RecallRequest) -> RecallResult:
        """Entries that answer a question; by words alone while model or vector store cannot be had."""
        self._check_pools(request)
        with self.leased() as index:
            degraded = self._degraded(index)
            if degraded is None and request.mode != "lexical":
                self.load_model()
                degraded = self._degraded(index)
            if degraded and request.mode == "semantic" and self._model_error is not None:
                raise self._model_error
            stale = self.stale()
            return self._asked(
                index,
                lambda: index.search.recall(request, degraded if request.mode != "lexical" else None, stale),
                lambda reason: index.search.recall(request, reason, stale),
            )

    def _asked(self, index: Index, full: Callable[[], RecallResult], by_words: Callable[[str], RecallResult]) -> RecallResult:
        """A full answer, or one by words alone when the vectors fail over it."""
        try:
            return full()
        except StoreError as error:
            index.home.note(error)
            return by_words(str(error))
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._damage = str(error)  # if it is the catalog's, the answer by words fails as well
            index.vectors.is_in_doubt = True
            return by_words(f"the index is damaged ({error}) and is mended by the next sync")

    def entry(self, entry_id: str, pool: str | None = None) -> EntryResult:
        """One entry. Raises UnknownEntryError, AmbiguousEntryError."""
        stored = self.stored(entry_id, pool)
        return entry_result(stored.view, stored.text, self.stale())

    def stored(self, entry_id: str, pool: str | None = None) -> StoredEntry:
        """One entry with its exact bytes."""
        with self.leased() as index:
            return _chosen(index, entry_id, pool)

    def related(self, entry_id: str, limit: int, text: TextForm) -> RecallResult:
        """Entries near one entry in meaning; by the words of its title alone while the vector store cannot be had."""
        with self.leased() as index:
            entry = _chosen(index, entry_id, None)
            request = RecallRequest(query=entry.view.title or entry.view.id, limit=limit + 1, text=text)

            def by_words(reason: str) -> RecallResult:
                found = index.search.recall(request, reason, self.stale())
                return found.model_copy(update={"hits": [h for h in found.hits if h.id != entry.view.id][:limit]})

            reason = index.degraded
            if reason is not None:
                return by_words(reason)
            return self._asked(index, lambda: index.search.related(entry, limit, text, self.stale()), by_words)

    def warm_up(self) -> None:
        """Asks something, so that the first person to ask does not wait for lazy parts."""
        self.recall(RecallRequest(query="kiln", limit=1, text="none"))

    # Telling

    def degraded(self) -> str | None:
        """Why recall goes by words alone, if it does."""
        try:
            return self._degraded(self._index)
        except sqlite3.Error as error:
            return f"the index cannot be read ({error})"

    def _degraded(self, index: Index | None) -> str | None:
        error = str(self._model_error) if self._model_error else None
        return self.loading or error or (index.degraded if index is not None else None)

    def stale(self) -> str | None:
        """Why the index may lag behind the Markdown, if it may."""
        pools = self.settings.all_pools()
        if self._seen is None:
            index = self._index
            if index is None:
                return "the index is being opened"
            return self._compared(index, pools)
        if self._seen != _states(pools):
            return "the memory files changed since the last sync"
        return self._problem

    def _compared(self, index: Index, pools: Sequence[Pool]) -> str | None:
        """What reading the files says before the first sync; they are read once for each of their states."""
        states = _states(pools)
        if states != self._compared_states:
            matches = index.matches([read_pool(pool) for pool in pools if pool.memory_dir.is_dir()])
            self._seen = states if matches else None
            self._compared_states = states
        return None if self._seen == states else "the memory files changed since the last sync; run `coldspark index`"

    def has_changed(self) -> bool:
        """Whether a sync has something to do: a memory file differs from what the last one read, or the index needs care."""
        return not self.is_whole or self._seen != _states(self.settings.all_pools())

    @property
    def is_whole(self) -> bool:
        """Whether the last sync could read every file, and the index needs no care."""
        return self._problem is None and not self._needs_care

    @property
    def _needs_care(self) -> bool:
        index = self._index
        if self._damage is not None or index is None or not index.is_there:
            return True
        return index.vectors.is_in_doubt or index.home.trouble is not None

    def _check_pools(self, request: RecallRequest) -> None:
        known = [p.name for p in self.settings.all_pools()]
        for name in request.filters.pool or ():
            if name not in [k.casefold() for k in known]:
                raise UnknownPoolError(name, known)


def _chosen(index: Index, entry_id: str, pool: str | None) -> StoredEntry:
    found = [s for s in index.catalog.find(entry_id) if pool is None or s.view.pool == pool]
    if not found:
        raise UnknownEntryError(entry_id)
    if len({s.view.id for s in found}) > 1:
        raise AmbiguousEntryError(entry_id, [s.view.id for s in found])
    return found[0]


def _states(pools: Sequence[Pool]) -> States:
    paths = [path for pool in pools for path in (pool.active, *pool.archive_files())]
    return tuple((str(path), state_of(path)) for path in paths)
