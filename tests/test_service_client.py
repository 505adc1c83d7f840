"""The client of the running service: what it asks, and how it tells that it was not answered."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from models.errors import OtherMemoryError, OtherVersionError, ServiceFailedError, ServiceGoneError
from models.query import RecallRequest
from service.client import RemoteBackend
from service.owner import Address, owned, published
from service.wiring import running_service
from tests.service_support import settings_for

HEALTHY = b'{"status": "ok", "service": "coldspark", "version": "0.1.0"}'


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[RemoteBackend, list[tuple[str, str | None, bytes]]]]:
    """A client of a server that answers everything alike, and what it was asked: request line, Authorization, body."""
    asked: list[tuple[str, str | None, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            taken = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            asked.append((f"{self.command} {self.path}", self.headers.get("Authorization"), taken))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - http.server's own name

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield RemoteBackend(Address(f"http://127.0.0.1:{server.server_port}", "t0ken", os.getpid(), "0.1.0", ())), asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("status", "body", "version"),
    [
        (200, HEALTHY, "0.1.0"),
        (200, b"<html>some other server</html>", None),
        (200, b"", None),
        (200, b"[]", None),
        (200, b'{"service": "coldspark"}', None),
        (200, b'{"service": "other", "version": "0.1.0"}', None),
        (200, b"[" * 100_000, None),
        (403, HEALTHY, None),
        (500, b"oops", None),
    ],
)
def test_only_a_coldspark_service_has_a_version(status: int, body: bytes, version: str | None) -> None:
    """Another server on the port is not taken for the service."""
    with answering(status, body) as (remote, asked):
        assert remote.version() == version
        assert [line for line, _, _ in asked] == ["GET /healthz"]


def test_nobody_has_no_version() -> None:
    """A port on which nobody listens is no service."""
    assert RemoteBackend(Address("http://127.0.0.1:1", "t", 1, "0.1.0", ())).version() is None


@pytest.mark.parametrize(
    ("status", "body", "starting"),
    [
        (503, b'{"detail": "the embedding model is still loading", "starting": true}', True),
        (503, b'{"detail": "the model is missing", "starting": false}', False),
        (503, b'{"detail": "something else"}', False),
        (503, b"[]", False),
        (503, b"oops", False),
        (200, b'{"status": "ready", "starting": true}', False),
    ],
)
def test_service_that_starts_is_worth_waiting_for(status: int, body: bytes, starting: bool) -> None:  # noqa: FBT001 - a column
    """Only one that says so will be ready by itself before long."""
    with answering(status, body) as (remote, asked):
        assert remote.is_starting() is starting
        assert [line for line, _, _ in asked] == ["GET /readyz"]


def test_published_service_that_answers_is_found(tmp_path: Path) -> None:
    """The address is read from the state folder and tried."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    with answering(200, HEALTHY) as (remote, _):
        address = replace(remote.address, folders=(str(settings.memory_dir),))
        with owned(settings.state_dir, 0.0), published(settings.state_dir, address):
            found = running_service(settings)
    assert found is not None
    assert found.address == address


def test_service_of_another_memory_is_not_asked(tmp_path: Path) -> None:
    """A service that keeps the index of other folders is named, instead of answering for the one that was asked for."""
    settings = settings_for(tmp_path)
    settings.state_dir.mkdir()
    with (
        answering(200, HEALTHY) as (remote, _),
        owned(settings.state_dir, 0.0),
        published(settings.state_dir, replace(remote.address, folders=("/elsewhere",))),
        pytest.raises(OtherMemoryError) as caught,
    ):
        running_service(settings)
    assert str(caught.value) == (
        f"The service at {remote.address.url} serves /elsewhere, not the memory folder asked for: name another --state-dir, or stop it."
    )


def test_service_of_another_version_is_named(tmp_path: Path) -> None:
    """A service that was installed before or after this command is not talked to, and can be told from its process id."""
    settings = settings_for(tmp_path)
    with (
        answering(200, HEALTHY.replace(b"0.1.0", b"9.9")) as (remote, asked),
        owned(settings.state_dir, 0.0),
        published(settings.state_dir, replace(remote.address, folders=(str(settings.memory_dir),))),
        pytest.raises(OtherVersionError) as caught,
    ):
        running_service(settings)
    pid = os.getpid()
    assert str(caught.value) == (
        f"The service at {remote.address.url} (process {pid}) is version 9.9, this command 0.1.0: end it (`kill {pid}`) and run again."
    )
    assert [line for line, _, _ in asked] == ["GET /healthz"]


def test_question_is_sent_as_json_with_the_token() -> None:
    """Only what differs from the defaults is sent, and the caller shows its token."""
    answer = b'{"query": "kiln", "mode": "hybrid", "degraded": null, "stale": null, "hits": [], "took_ms": 1.0}'
    request = RecallRequest.model_validate({"query": "kiln 深夜", "limit": 3, "filters": {"since": "2026-05-04", "kind": ["Delve"]}})
    with answering(200, answer) as (remote, asked):
        result = remote.recall(request)
    assert (result.query, result.hits) == ("kiln", [])
    ((line, token, body),) = asked
    assert (line, token) == ("POST /v1/recall", "Bearer t0ken")
    assert json.loads(body) == {"query": "kiln 深夜", "limit": 3, "filters": {"since": "2026-05-04", "kind": ["delve"]}}


@pytest.mark.parametrize(
    ("entry_id", "pool", "line"),
    [
        ("ab12", None, "GET /v1/entries/ab12"),
        ("../../etc/hosts", None, "GET /v1/entries/..%2F..%2Fetc%2Fhosts"),
        ("a b?c#d", "two words&x=1", "GET /v1/entries/a%20b%3Fc%23d?pool=two%20words%26x%3D1"),
    ],
)
def test_names_are_quoted(entry_id: str, pool: str | None, line: str) -> None:
    """An id or a pool name stays one part of the address, whatever it holds."""
    with answering(404, b"{}") as (remote, asked):
        with pytest.raises(ServiceFailedError):
            remote.entry(entry_id, pool)
        assert [asked_line for asked_line, _, _ in asked] == [line]


@pytest.mark.parametrize(
    ("status", "body", "says", "code"),
    [
        (404, b'{"detail": "No entry has the id \'x\'.", "exit_code": 3}', "No entry has the id 'x'.", 3),
        (403, b'{"detail": "Host: refused."}', "Host: refused.", 1),
        (500, b"Internal Server Error", "HTTP status 500", 1),
        (502, b"[]", "HTTP status 502", 1),
        (422, b'{"detail": "x", "exit_code": "three"}', "HTTP status 422", 1),
    ],
)
def test_refusal_keeps_its_sentence_and_code(status: int, body: bytes, says: str, code: int) -> None:
    """What the service says of a failure is what the command says, with the service's address before it."""
    with answering(status, body) as (remote, _), pytest.raises(ServiceFailedError) as caught:
        remote.sync()
    assert (str(caught.value), caught.value.code) == (f"The service at {remote.address.url} answered: {says}", code)


def test_service_that_goes_away_is_told() -> None:
    """A connection that is refused is a failure of the service, not of the command."""
    with pytest.raises(ServiceGoneError) as caught:
        RemoteBackend(Address("http://127.0.0.1:1", "t", 1, "0.1.0", ())).related("ab", 3, "none")
    assert str(caught.value) == "The service at http://127.0.0.1:1 answered: [Errno 111] Connection refused"


def test_answer_of_another_version_is_told() -> None:
    """An answer that does not have the agreed shape is a failure of the service, told in one sentence."""
    with answering(200, b'{"hits": 5}') as (remote, _), pytest.raises(ServiceFailedError):
        remote.recall(RecallRequest(query="kiln"))
