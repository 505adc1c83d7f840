"""Whether a service is of use to anybody: what it is doing, and how long ago it last did something."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

_LOOKING = frozenset({"/healthz", "/readyz", "/metrics"})
"""Checks of a supervisor, who asks whether anybody listens or not."""


class Activity:
    """Counts work that is going on; safe for several threads.

    *clock* gives seconds. It stands still while the machine sleeps: a night with the lid closed is no hour that nobody had a
    question, and whoever opens it finds the service warm.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._guard = threading.Lock()
        self._running = 0
        self._last = clock()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Work that goes on for the `with` block."""
        with self._guard:
            self._running += 1
        try:
            yield
        finally:
            with self._guard:
                self._running -= 1
                self._last = self._clock()

    @property
    def running(self) -> int:
        """How much work is going on."""
        with self._guard:
            return self._running

    def idle_seconds(self) -> float:
        """How long ago the last work ended; 0 while some goes on."""
        with self._guard:
            return 0.0 if self._running else self._clock() - self._last


class Used:
    """ASGI middleware that counts requests as activity, health checks aside."""

    def __init__(self, app: ASGIApp, *, activity: Activity) -> None:
        self.app = app
        self.activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on."""
        if scope["type"] != "http" or scope["path"] in _LOOKING:
            await self.app(scope, receive, send)
            return
        with self.activity.busy():
            await self.app(scope, receive, send)
