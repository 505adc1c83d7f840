"""Whether a service is of use: what counts as work, and since when there was none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from service.activity import Activity, Used
from service.app import Idle, create_app
from service.local import LocalBackend
from service.runtime import Runtime
from tests.fakes import FakeEmbedder
from tests.samples import KILN, log
from tests.service_support import settings_for


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The present moment."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


def test_idleness_is_counted_from_the_last_work(clock: Clock) -> None:
    """Nothing was done since the start, then since the end of the last work; during work there is no idleness."""
    activity = Activity(clock)
    clock.now += 5
    assert activity.idle_seconds() == 5
    with activity.busy():
        clock.now += 50
        assert (activity.running, activity.idle_seconds()) == (1, 0)
        with activity.busy():
            assert activity.running == 2
        assert activity.idle_seconds() == 0
    assert (activity.running, activity.idle_seconds()) == (0, 0)
    clock.now += 3
    assert activity.idle_seconds() == 3


def test_work_that_fails_ends_too(clock: Clock) -> None:
    """A failure leaves nothing running behind."""
    activity = Activity(clock)
    with pytest.raises(KeyError), activity.busy():
        raise KeyError
    assert activity.running == 0


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("/v1/recall", True), ("/v1/status", True), ("/docs", True), ("/nope", True), ("/v1/healthz", True),
        ("/healthz", False), ("/readyz", False), ("/metrics", False),
    ],
)  # fmt: skip
def test_health_checks_are_no_use(clock: Clock, path: str, counts: bool) -> None:  # noqa: FBT001 - a column of the table
    """A supervisor that asks every minute keeps nothing alive; a person's question does."""
    activity = Activity(clock)
    clock.now += 60
    seen: list[int] = []

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(activity.running)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(_message: Message) -> None:
        """Nobody is there."""

    asyncio.run(Used(app, activity=activity)({"type": "http", "path": path}, receive, send))
    assert seen == [int(counts)]
    assert activity.idle_seconds() == (0 if counts else 60)


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """The life of a service over one entry."""
    settings = settings_for(tmp_path, log(KILN))
    return Runtime(settings, LocalBackend(settings, FakeEmbedder()))


def test_idle_application_says_so_once(runtime: Runtime) -> None:
    """The end comes once nobody asked for so long, not before the first sync is done."""
    ended = asyncio.Event()
    app = create_app(runtime, "t", idle=Idle(0.05, ended.set))

    async def life() -> bool:
        async with app.router.lifespan_context(app):
            await asyncio.wait_for(ended.wait(), 20)
        return True

    assert asyncio.run(life())
    assert not runtime.is_working


def test_application_that_is_used_does_not_end(runtime: Runtime) -> None:
    """While something is being done, however long it takes, nothing is idle."""
    ended = asyncio.Event()
    app = create_app(runtime, "t", idle=Idle(0.01, ended.set))

    async def life() -> bool:
        with runtime.activity.busy():
            async with app.router.lifespan_context(app):
                await asyncio.sleep(0.1)
                return ended.is_set()

    assert not asyncio.run(life())
