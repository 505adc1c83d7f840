"""The web application: routes, guard and problem documents put together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from service import __version__, api, problems
from service.activity import Activity, Used
from service.ending import Ending
from service.guard import LOOPBACK, Guard
from service.runtime import Runtime

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - recognised here, never a default
_LOOKS_AT_ONCE = 2
_LONGEST_NAP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Idle:
    """After how many seconds without use what happens."""

    seconds: float
    end: Callable[[], object]


def create_app(
    runtime: Runtime, token: str, *, required: bool = False, told: asyncio.Event | None = None, idle: Idle | None = None
) -> FastAPI:
    """The application over *runtime*; the token must fit where it is shown, and be shown where it is *required*.

    Once *told*, it refuses what it has not answered yet.
    """

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        runtime.start()
        waiting = asyncio.ensure_future(_idleness(runtime.activity, idle)) if idle else None
        yield
        if waiting:
            waiting.cancel()
        runtime.stop()

    app: FastAPI = FastAPIOffline(
        title="Coldspark", version=__version__, lifespan=lifespan, redoc_url=None,
        description="Recall by meaning over the sparks of both Markdown tiers.",
    )  # fmt: skip
    app.state.runtime = runtime
    app.state.looks = CapacityLimiter(_LOOKS_AT_ONCE)
    app.include_router(api.router)
    problems.register(app)
    app.add_middleware(Guard, token=token, required=required, hosts=_names_of(runtime.settings.host))
    app.add_middleware(Used, activity=runtime.activity)
    app.add_middleware(Ending, told=told or asyncio.Event())
    return app


async def _idleness(activity: Activity, idle: Idle) -> None:
    while (left := idle.seconds - activity.idle_seconds()) > 0:  # noqa: ASYNC110 - what is awaited is that nothing happens
        await asyncio.sleep(min(left, _LONGEST_NAP_SECONDS))
    idle.end()


def _names_of(host: str) -> frozenset[str] | None:
    """What a request's Host may say: loopback and the address itself; anything when all addresses are listened on."""
    return None if host in EVERYWHERE else LOOPBACK | {host}
