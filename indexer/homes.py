"""Where the vector store of an index lives: opened when first needed, looked after when it fails.

The embedded one lies in a folder. Before it is opened its seal is broken, and put on again when it was closed well; without
a seal it is probed in a child process first. One that fails is set aside as `chroma.damaged`, and an empty one takes its
place, which the next sync fills from catalog and vector cache. One that fails again and again is left alone for a while.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from indexer.chroma import COLLECTIONS, VectorStore, open_embedded
from indexer.chroma_server import ServerStore, WrongSpaceError, open_server
from indexer.probe import Finding, probe
from indexer.seal import Seal
from models.errors import ForeignStoreError, StoreBusyError, StoreDamagedError, StoreError, StoreFullError

_PATIENCE = 2
"""Stores in a row that may fail before they are left alone for a while."""
_FIRST_PAUSE_SECONDS = 600.0
_LONGEST_PAUSE_SECONDS = 86_400.0

log = logging.getLogger("coldspark")


class StoreHome(Protocol):
    """A vector store's place. `trouble` is why it cannot be asked now."""

    trouble: StoreError | None

    @property
    def is_open(self) -> bool:
        """Whether the store was needed yet."""

    @property
    def is_untouched(self) -> bool:
        """Whether the store is surely as the last sync left it, so that it need not be opened to see."""

    def store(self) -> VectorStore:
        """The store, for asking. Raises StoreError at once while there is trouble."""

    def store_to_sync(self) -> VectorStore:
        """The store, for a sync: looks into the trouble first. Raises StoreError."""

    def note(self, error: StoreError) -> None:
        """The store gave this error: it is not asked again before a sync has looked at it."""

    def close(self) -> None:
        """Lets go of the store."""


class EmbeddedHome:
    """A folder with Chroma's own engine over it."""

    def __init__(
        self,
        folder: Path,
        in_doubt: Callable[[str | None], None],
        *,
        look: Callable[[Path], Finding] = probe,
        opener: Callable[[Path], VectorStore] = open_embedded,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*in_doubt* is told before a store is opened whose records must be compared, with the damage if it was set aside."""
        self.folder = folder / "chroma"
        self.seal = Seal(self.folder)
        self.trouble: StoreError | None = None
        self._in_doubt = in_doubt
        self._look, self._opener, self._clock = look, opener, clock
        self._store: VectorStore | None = None
        self._opening = threading.Lock()
        self._looking = False
        self._doubts = 0
        self._failures = self.folder.with_name("chroma.failures")

    @property
    def is_open(self) -> bool:
        """Whether the store was needed yet."""
        return self._store is not None

    @property
    def is_untouched(self) -> bool:
        """Whether the seal holds."""
        return not self.is_open and self.trouble is None and self.seal.holds

    def store(self) -> VectorStore:
        """The store, for asking. Raises StoreError at once while there is trouble, or while it is looked at."""
        if self.trouble is not None:
            raise self.trouble
        if self._looking:
            raise StoreBusyError(str(self.folder))
        return self._opened(may_lose=False)

    def store_to_sync(self) -> VectorStore:
        """The store, for a sync; one that gave trouble is closed, probed, and set aside if need be. Raises StoreError."""
        if self.trouble is not None:
            self._let_go()
            self.trouble = None
        return self._opened(may_lose=True)

    def note(self, error: StoreError) -> None:
        """The store gave this error."""
        if not isinstance(error, StoreBusyError):
            self.trouble = error
            self._doubts += isinstance(error, StoreDamagedError)

    def close(self) -> None:
        """Closes the store, and seals it if it never gave trouble."""
        if self._store is None:
            return
        self._let_go()
        if self.trouble is None:
            self.seal.put()
            self._failures.unlink(missing_ok=True)

    def _let_go(self) -> None:
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _opened(self, *, may_lose: bool) -> VectorStore:
        with self._opening:
            if self._store is None:
                self._store = self._open(may_lose=may_lose)
            return self._store

    def _open(self, *, may_lose: bool) -> VectorStore:
        if not self.seal.holds:
            self._check(may_lose=may_lose)
            self._in_doubt(None)
        self.seal.take_off()
        return self._opener(self.folder)

    def _check(self, *, may_lose: bool) -> None:
        """Sees that what lies there may be opened. Raises StoreError, also over damage unless an empty store will do."""
        self._wait_after_failures()
        if not self.folder.exists():
            return
        self._looking = True
        try:
            finding = self._look(self.folder)
        finally:
            self._looking = False
        if finding.no_room:
            raise StoreFullError(str(self.folder))
        damage = finding.damage or ("it fails though it looks whole" if self._doubts >= _PATIENCE else None)
        if damage is not None:
            self._doubts = 0
            self._set_aside(damage)
            if not may_lose:
                raise StoreDamagedError(self.folder, damage, "it was set aside, and is filled again by the next sync")

    def _set_aside(self, damage: str) -> None:
        aside = self.folder.with_name("chroma.damaged")
        self._in_doubt(damage)
        self._remember_failure(damage)
        try:
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(self.folder, aside)
        except OSError as error:
            raise StoreDamagedError(self.folder, damage, f"it cannot be set aside ({error.strerror}): remove it") from error
        log.warning("the vector store %s is damaged (%s) and was set aside as %s; it is filled again", self.folder, damage, aside.name)
        self._wait_after_failures()

    def _past_failures(self) -> tuple[int, float, str]:
        try:
            told = json.loads(self._failures.read_text(encoding="utf-8"))
            return int(told["count"]), float(told["at"]), str(told["damage"])
        except (OSError, ValueError, TypeError, KeyError):
            return 0, 0.0, ""

    def _remember_failure(self, damage: str) -> None:
        count = self._past_failures()[0] + 1
        with suppress(OSError):
            self._failures.write_text(json.dumps({"count": count, "at": self._clock(), "damage": damage}), encoding="utf-8")

    def _wait_after_failures(self) -> None:
        count, at, damage = self._past_failures()
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** (max(0, count - _PATIENCE)))
        if count >= _PATIENCE and 0 <= self._clock() - at < pause:
            again = time.strftime("%H:%M", time.localtime(at + pause))
            advice = f"it failed {count} times in a row, so answers go by words alone until it is tried again at {again}"
            raise StoreDamagedError(self.folder, damage, advice)


class ServerHome:
    """A Chroma server. `names` are the collections of a rebuild until they are published."""

    def __init__(
        self, url: str, identity: str, in_doubt: Callable[[str | None], None], opener: Callable[..., ServerStore] = open_server
    ) -> None:
        """*in_doubt* is told when a connection begins: what the server has must be compared."""
        self.url = url
        self.identity = identity
        self.names = dict(COLLECTIONS)
        self.trouble: StoreError | None = None
        self._in_doubt = in_doubt
        self._opener = opener
        self._store: ServerStore | None = None
        self._opening = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._store is not None

    @property
    def is_untouched(self) -> bool:
        """Never known of a server."""
        return False

    def store(self) -> ServerStore:
        """The store, for asking. Raises StoreError at once while there is trouble."""
        if self.trouble is not None:
            raise self.trouble
        return self._opened()

    def store_to_sync(self) -> ServerStore:
        """The store, for a sync; connects anew after trouble. Raises StoreError."""
        if self.trouble is not None:
            self.close()
        store = self._opened()
        self.trouble = None
        return store

    def note(self, error: StoreError) -> None:
        """The server gave this error, or none."""
        if not isinstance(error, StoreBusyError):
            self.trouble = error

    def unfit(self) -> str | None:
        """Why the collections must be made anew, whatever their records."""
        try:
            self.store_to_sync()
        except WrongSpaceError as error:
            return str(error)
        except StoreError as error:
            self.note(error)
        return None

    def must_exchange(self, before: str | None) -> bool:
        """Whether what is on the server is our own of *before*, or of no use to anybody. Raises StoreUnreachableError."""
        try:
            self.store_to_sync()
        except WrongSpaceError:
            return True
        except ForeignStoreError as error:
            return error.theirs == before
        return False

    def go_beside(self, generation: str) -> None:
        """Uses new collections of that generation, until `publish`; drops what a rebuild that died left. Raises StoreError."""
        self.close()
        self.names = {tier: f"{name}-{generation}" for tier, name in COLLECTIONS.items()}
        self.store_to_sync().clear_leftovers()

    def publish(self, generation: str) -> None:
        """Puts the new collections in the place of the ones in use. Raises StoreError."""
        self.store_to_sync().publish(generation)
        self.names = dict(COLLECTIONS)

    def close(self) -> None:
        """Ends the connection."""
        with self._opening:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def _opened(self) -> ServerStore:
        with self._opening:
            if self._store is None:
                self._store = self._opener(self.url, self.identity, self.names)
                self._in_doubt(None)
            return self._store
