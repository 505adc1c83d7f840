"""Counted use of something that is to be closed: it ends when the last user has let go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class EndedError(Exception):
    """Nothing is handed out any more."""


class Leases:
    """Counts who uses a thing; safe for several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._count = 0
        self._ended = False
        self._closing: list[Callable[[], None]] = []

    @contextmanager
    def lease(self) -> Iterator[None]:
        """Keeps the thing open for the `with` block. Raises EndedError."""
        with self._guard:
            if self._ended:
                raise EndedError
            self._count += 1
        try:
            yield
        finally:
            with self._guard:
                self._count -= 1
                last = self._take()
            _run(last)

    def end(self, close: Callable[[], None]) -> None:
        """Hands out no more, and runs *close* when the last user has let go, which may be now."""
        with self._guard:
            self._ended = True
            self._closing.append(close)
            last = self._take()
        _run(last)

    def end_and_wait(self, close: Callable[[], None], seconds: float) -> bool:
        """The same, and waits for it at most so long; answers whether it is done."""
        done = threading.Event()

        def close_and_tell() -> None:
            close()
            done.set()

        self.end(close_and_tell)
        return done.wait(seconds)

    def _take(self) -> list[Callable[[], None]]:
        if not self._ended or self._count:
            return []
        taken, self._closing = self._closing, []
        return taken


def _run(actions: list[Callable[[], None]]) -> None:
    for action in actions:
        action()
