"""How a service process ends: in time, with code 0, whatever it was doing, and nobody is left without an answer."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compactor.lock import holder
from models.settings import Settings
from service.owner import address_file, index_lock
from tests.samples import KILN, TIDE, ledger, log
from tests.service_support import settings_for
from tests.slow_service import SlowService, slow_service

TOO_LONG = 120.0
HEALTHY_SECONDS = 0.5


def ended(service: SlowService) -> int:
    """The exit code, which must come within ten seconds; everything that the process held is free at once."""
    code = service.process.wait(10)
    assert not address_file(service.settings.state_dir).exists()
    assert holder(index_lock(service.settings.state_dir)) is None
    port = int(service.netloc.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        pass
    return code


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A pool of two entries."""
    return settings_for(tmp_path, log(KILN, TIDE))


def test_recall_that_is_soon_done_is_answered(settings: Settings) -> None:
    """SIGTERM lets a running recall finish, though another connection is held open."""
    with slow_service(settings) as service, ThreadPoolExecutor(1) as thread:
        service.until_ready()
        held = http.client.HTTPConnection(service.netloc, timeout=30)
        held.request("GET", "/healthz")
        held.getresponse().read()
        service.slow("query", 1)
        asked = thread.submit(service.recall, "tide")
        service.until_at("query")
        service.process.send_signal(signal.SIGTERM)
        assert ended(service) == 0
        held.close()
        status, answer = asked.result(30)
        assert (status, len(answer["hits"])) == (200, 2)


def test_recall_that_takes_too_long_is_refused(settings: Settings) -> None:
    """SIGTERM answers a recall that does not end with a problem document."""
    with slow_service(settings) as service, ThreadPoolExecutor(1) as thread:
        service.until_ready()
        service.slow("query", TOO_LONG)
        asked = thread.submit(service.recall, "tide")
        service.until_at("query")
        service.process.send_signal(signal.SIGTERM)
        assert ended(service) == 0
        status, problem = asked.result(30)
        assert (status, problem["title"], problem["exit_code"]) == (503, "Service ending", 4)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("what", ["load", "passages"])
def test_signal_at_the_start(settings: Settings, what: str, sign: signal.Signals) -> None:
    """A service that is told to end, or loses its terminal, while its model loads or its first sync runs ends well."""
    with slow_service(settings, slow={what: TOO_LONG}) as service:
        service.until_at(what)
        service.process.send_signal(sign)
        assert ended(service) == 0


def test_signal_during_a_sync_on_request(settings: Settings) -> None:
    """A sync that somebody waits for is given up, and who waits is told."""
    with slow_service(settings) as service, ThreadPoolExecutor(1) as thread:
        service.until_ready()
        service.slow("passages", TOO_LONG)
        with settings.all_pools()[0].active.open("ab") as file:
            file.write(b"\n" + ledger("park -- later"))
        asked = thread.submit(service.call, "POST", "/v1/sync", {"rebuild": False})
        service.until_at("passages")
        service.process.send_signal(signal.SIGTERM)
        assert ended(service) == 0
        assert asked.result(30)[0] == 503


def test_signal_during_a_rebuild(settings: Settings) -> None:
    """A rebuild that is cut short leaves the index in use as it was."""
    with slow_service(settings) as service, ThreadPoolExecutor(1) as thread:
        service.until_ready()
        service.slow("cutting", TOO_LONG)
        asked = thread.submit(service.call, "POST", "/v1/sync", {"rebuild": True})
        service.until_at("cutting")
        service.process.send_signal(signal.SIGTERM)
        assert ended(service) == 0
        assert asked.result(30)[0] == 503
    (settings.state_dir / "slow-cutting").unlink()
    with slow_service(settings) as service:
        service.until_ready()
        assert len(service.recall("kiln")[1]["hits"]) == 2


def test_impatience_ends_it_too(settings: Settings) -> None:
    """A second Ctrl-C, while a recall runs, ends the service at once and as cleanly."""
    with slow_service(settings) as service, ThreadPoolExecutor(1) as thread:
        service.until_ready()
        service.slow("query", TOO_LONG)
        asked: Future[Any] = thread.submit(service.recall, "tide")
        service.until_at("query")
        service.process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # two signals at once are one
        service.process.send_signal(signal.SIGINT)
        assert ended(service) == 0
        assert asked.exception(30) is not None or asked.result()[0] == 503


def test_terminal_that_is_gone_ends_nothing(settings: Settings) -> None:
    """With nobody left to read what it logs, the service goes on, syncs, and ends with code 0."""
    reading, writing = os.pipe()
    os.close(reading)
    with slow_service(settings, error=writing) as service:
        os.close(writing)
        service.until_ready()
        with settings.all_pools()[0].active.open("ab") as file:
            file.write(b"\n" + ledger("park -- later"))
        assert service.call("POST", "/v1/sync", {"rebuild": False})[1]["entries"]["active"] == 3
        service.process.send_signal(signal.SIGTERM)
        assert ended(service) == 0


def test_health_needs_none_of_the_threads_of_recalls(settings: Settings) -> None:
    """While more recalls wait for the model than there are threads, health and readiness answer within half a second."""
    with slow_service(settings) as service, ThreadPoolExecutor(60) as threads:
        service.until_ready()
        service.slow("query", 0.1)
        asked = [threads.submit(service.recall, f"kiln {n}") for n in range(60)]
        service.until_at("query")
        while not all(f.done() for f in asked):
            for path in ("/healthz", "/readyz"):
                began = time.monotonic()
                assert service.call("GET", path)[0] == 200
                assert time.monotonic() - began < HEALTHY_SECONDS
        assert [f.result()[0] for f in asked] == [200] * 60
