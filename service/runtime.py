"""The service's life behind its routes: load the model, sync at start, and sync again whenever the Markdown changes."""

from __future__ import annotations

import logging
import threading

from models.errors import ColdsparkError
from models.query import RecallRequest
from models.results import RecallResult
from models.settings import Settings
from service.local import LocalBackend

_LOOK_EVERY_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 120.0
"""Between two looks while something keeps failing."""
_LOADING = "the embedding model is still loading"

log = logging.getLogger("coldspark")


class StoppedError(Exception):
    """The service ends, and the sync with it."""


class Runtime:
    """One backend and the thread that keeps it fresh."""

    def __init__(self, settings: Settings, backend: LocalBackend | None = None) -> None:
        self.settings = settings
        self.backend = backend or LocalBackend(settings)
        self.backend.loading = _LOADING
        self.not_ready: str | None = "the index is being opened"
        self._failure: str | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coldspark-sync", daemon=True)

    def start(self) -> None:
        """Begins to load and sync in the background."""
        self._thread.start()

    def stop(self, wait_seconds: float = 5.0) -> None:
        """Ends the background work, and closes the index if that ended in time."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(wait_seconds)
        if not self.is_working:
            self.backend.close()

    @property
    def is_working(self) -> bool:
        """Whether the background work goes on, be it only in a library's native code."""
        return self._thread.is_alive()

    def _run(self) -> None:
        pause = _LOOK_EVERY_SECONDS
        while not self._stopping.is_set():
            try:
                went_well = self._look()
            except StoppedError:
                return
            except Exception:  # the thread must outlive whatever goes wrong, and its owner must hear of it
                log.exception("the background sync failed unexpectedly; it begins again")
                self.not_ready = "the background sync failed unexpectedly; the service's log says how"
                self.backend.close()
                went_well = False
            pause = _LOOK_EVERY_SECONDS if went_well else min(_LONGEST_PAUSE_SECONDS, 2 * pause)
            self._stopping.wait(pause)

    def _look(self) -> bool:
        """Does what there is to do; answers whether all is well."""
        if self.not_ready:
            return self._get_ready()
        return not self.backend.has_changed() or (self._try_sync() is None and self.backend.is_whole)

    def _get_ready(self) -> bool:
        self.not_ready = _LOADING
        self.backend.load_model()
        self.backend.loading = None
        self.not_ready = "the first sync since the start is running"
        problem = self._try_sync() or self.backend.degraded()
        if problem is None:
            self.backend.warm_up()
        self.not_ready = problem
        return problem is None

    def _try_sync(self) -> str | None:
        """Syncs; a failure is told, logged when it is a new one, and tried again at the next look."""
        try:
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

    def recall(self, request: RecallRequest) -> RecallResult:
        """Answers from the index as it is; a stale one says so."""
        return self.backend.recall(request)
