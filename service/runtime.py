"""The service's life behind its routes: load the model, sync at start, and sync again whenever the Markdown changes."""

from __future__ import annotations

import logging
import threading
import time

from indexer.catalog import StoredEntry
from indexer.overview import overview
from models.errors import ColdsparkError, IndexMissingError, ServiceEndingError
from models.query import RecallRequest, TextForm
from models.results import EntryResult, IndexResult, ReadyResult, RecallResult
from models.settings import Settings
from service.activity import Activity
from service.local import LocalBackend
from service.watch import POLL_SECONDS, Changes, Watcher, notices

_LONGEST_PAUSE_SECONDS = 30.0
"""Between two looks while something keeps failing."""
_LONGEST_REST_SECONDS = 3.0
"""Between two syncs while a file changes without end; else as long as the last one took."""
_LOADING = "the embedding model is still loading"

log = logging.getLogger("coldspark")


class StoppedError(Exception):
    """The service ends, and the sync with it."""


class Runtime:
    """One backend and the threads that keep it fresh."""

    def __init__(self, settings: Settings, backend: LocalBackend | None = None, changes: Changes = notices) -> None:
        self.settings = settings
        self.backend = backend or LocalBackend(settings)
        self.backend.loading = _LOADING
        self.activity = Activity()
        self.not_ready: str | None = "the index is being opened"
        self.is_starting = True
        self._at_work = Activity()
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._changed = False
        self._watcher = Watcher(settings.all_pools, self._noticed, changes)
        self._threads = [
            threading.Thread(target=self._run, name="coldspark-sync", daemon=True),
            threading.Thread(target=self._watcher.run, args=[self._stopping], name="coldspark-watch", daemon=True),
        ]

    def start(self) -> None:
        """Begins to load, watch and sync in the background."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_seconds: float = 3.0) -> None:
        """Ends the background work, and closes the index if nobody is at it any more; may be called again."""
        self._stopping.set()
        self._wake.set()
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        if not self.is_working:
            self.backend.close()

    @property
    def is_working(self) -> bool:
        """Whether work goes on, be it only in a library's native code."""
        return self._at_work.running > 0 or any(thread.is_alive() for thread in self._threads)

    # Keeping fresh

    def _noticed(self, sure: bool) -> None:  # noqa: FBT001 - the watcher's own word
        """Called by the watcher; has the other thread look."""
        if sure:
            self._changed = True
        self._wake.set()

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            self._wake.clear()
            began, was_ready = time.monotonic(), self.not_ready is None
            try:
                went_well = self._look()
            except StoppedError:
                return
            except Exception:  # the thread must outlive whatever goes wrong, and its owner must hear of it
                log.exception("the background sync failed unexpectedly; it begins again")
                self.not_ready = "the background sync failed unexpectedly; the service's log says how"
                self.backend.close()
                went_well = False
            if was_ready:
                self._stopping.wait(min(_LONGEST_REST_SECONDS, time.monotonic() - began))
            failures = 0 if went_well else failures + 1
            pause = min(_LONGEST_PAUSE_SECONDS, POLL_SECONDS * 2**failures) if failures else self._watcher.look_every
            self._wake.wait(pause)

    def _look(self) -> bool:
        """Does what there is to do; answers whether all is well."""
        changed, self._changed = self._changed, False
        if self.not_ready:
            return self._get_ready()
        return not (changed or self.backend.has_changed()) or (self._try_sync() is None and self.backend.is_whole)

    def _get_ready(self) -> bool:
        with self.activity.busy():
            self.not_ready = _LOADING
            self.backend.load_model()
            self.backend.loading = None
            self.not_ready = "the first sync since the start is running"
            problem = self._try_sync() or self.backend.degraded()
            if problem is None:
                self.backend.warm_up()
            self.not_ready = problem
            self.is_starting = False
        return problem is None

    def _try_sync(self) -> str | None:
        """Syncs; a failure is told, logged when it is a new one, and tried again at the next look."""
        try:
            with self.activity.busy():
                result = self.backend.sync(progress=self._go_on)
        except ColdsparkError as error:
            if str(error) != self._failure:
                log.warning("sync failed: %s", error)
            self._failure = str(error)
            return self._failure
        self._failure = None
        if result.added or result.moved or result.removed or result.embedded:
            log.info("synced: %d added, %d moved, %d removed, %d embedded", result.added, result.moved, result.removed, result.embedded)
        return None

    def _go_on(self, _done: int, _all: int) -> None:
        """Called between two batches of a sync, which may end there at any time."""
        if self._stopping.is_set():
            raise StoppedError

    # Answering

    def recall(self, request: RecallRequest) -> RecallResult:
        """Answers from the index as it is; a stale one says so."""
        with self._at_work.busy():
            return self.backend.recall(request)

    def entry(self, entry_id: str, pool: str | None) -> EntryResult:
        """One entry. Raises UnknownEntryError, AmbiguousEntryError."""
        with self._at_work.busy():
            return self.backend.entry(entry_id, pool)

    def stored(self, entry_id: str, pool: str | None) -> StoredEntry:
        """One entry with its exact bytes. Raises UnknownEntryError, AmbiguousEntryError."""
        with self._at_work.busy():
            return self.backend.stored(entry_id, pool)

    def related(self, entry_id: str, limit: int, text: TextForm) -> RecallResult:
        """Entries near one entry in meaning."""
        with self._at_work.busy():
            return self.backend.related(entry_id, limit, text)

    def sync(self, *, rebuild: bool) -> IndexResult:
        """Brings the index in line with the Markdown. Raises ServiceEndingError when the service ends meanwhile."""
        try:
            with self._at_work.busy():
                return self.backend.sync(rebuild=rebuild, progress=self._go_on)
        except StoppedError:
            raise ServiceEndingError from None

    def readiness(self) -> ReadyResult | str:
        """How fresh the answers are, or why questions are not answered in full."""
        with self._at_work.busy():
            if why := self.not_ready or self.backend.degraded():
                return why
            found = overview(self.settings.state_dir)
            if found is None:
                return str(IndexMissingError(self.settings.state_dir / "index"))
            return ReadyResult(stale=self.backend.stale(), synced_at=found.synced_at, entries=found.entries)
