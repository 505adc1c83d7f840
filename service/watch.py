"""Noticing that a memory file changed: by the file system's own notices, and a slow look where there are none."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.pool import Pool, real, stub_of

LOOK_SECONDS = 15.0
"""Between two looks at files whose folders are watched: network folders and unmounted ones send no notice."""
POLL_SECONDS = 2.0
"""Between two looks at files whose folders cannot be watched."""
_BURST_MS = 1_000
"""Changes that follow one another more closely than the next figure are one, for up to this long."""
_QUIET_MS = 100
_PULSE_MS = 2_000

log = logging.getLogger("coldspark")


class WatchError(Exception):
    """The system sends no notices for these folders, e.g. because its limit is reached."""


Changes = Callable[[Sequence[Path], threading.Event], Iterator[frozenset[str]]]
"""Names of changed files in some folders, a burst at a time, none every few seconds, until told to stop. Raises WatchError."""


def notices(folders: Sequence[Path], stop: threading.Event) -> Iterator[frozenset[str]]:
    """Changes as the operating system tells them. Raises WatchError."""
    from watchfiles import watch

    try:
        for found in watch(
            *folders, watch_filter=None, debounce=_BURST_MS, step=_QUIET_MS, stop_event=stop, rust_timeout=_PULSE_MS,
            yield_on_timeout=True, recursive=False, raise_interrupt=False,
        ):  # fmt: skip
            yield frozenset(Path(path).name for _, path in found)
    except (OSError, RuntimeError) as error:
        raise WatchError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of the memory files, those of links' targets too, each with device and inode; and the files' names."""

    folders: dict[Path, tuple[int, int] | None]
    names: frozenset[str]

    @classmethod
    def of(cls, pools: Sequence[Pool]) -> Places:
        """As they are now."""
        files = [file for pool in pools for file in (pool.active, *pool.archive_files())]
        both = [path for file in files for path in (file, real(file))]
        folders = sorted({path.parent for path in both} | {pool.memory_dir for pool in pools})
        names = frozenset(name for path in both for name in (path.name, stub_of(path).name))
        return cls({folder: _identity(folder) for folder in folders}, names)

    @property
    def is_whole(self) -> bool:
        """Whether every folder is there."""
        return None not in self.folders.values()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class Watcher:
    """Tells when a memory file changed (True), or may have (False)."""

    def __init__(self, pools: Callable[[], Sequence[Pool]], tell: Callable[[bool], None], changes: Changes = notices) -> None:
        self._pools = pools
        self._tell = tell
        self._changes = changes
        self._refused: str | None = None
        self.is_watching = False

    @property
    def look_every(self) -> float:
        """After how many seconds the files should be looked at though nothing was told."""
        return LOOK_SECONDS if self.is_watching else POLL_SECONDS

    def run(self, stop: threading.Event) -> None:
        """Watches until *stop*; folders that are replaced, or come later, are watched as soon as they are seen."""
        while not stop.is_set():
            places = Places.of(self._pools())
            if places.is_whole and self._watch(places, stop):
                continue
            if self.is_watching:
                self.is_watching = False
                self._tell(False)
            stop.wait(POLL_SECONDS)
            if Places.of(self._pools()) != places:
                self._tell(False)

    def _watch(self, places: Places, stop: threading.Event) -> bool:
        """Watches these places until they change; answers False when it cannot."""
        try:
            for changed in self._changes(list(places.folders), stop):
                if not self.is_watching:
                    self.is_watching = True
                    self._tell(False)  # of what changed before the watch began
                now = Places.of(self._pools())
                if changed & (places.names | now.names):
                    self._tell(True)
                if now.folders != places.folders:
                    self._tell(False)
                    return True
        except WatchError as error:
            if str(error) != self._refused:
                log.warning("the memory folders cannot be watched (%s); they are looked at every %d seconds", error, POLL_SECONDS)
            self._refused = str(error)
            return False
        return stop.is_set()
