"""Odd questions to a running service: filters answer as the parsed files would, and broken requests break nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.settings import Settings
from models.snapshot import PlacedEntry, read_pool
from models.views import entry_view
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import ready, settings_for
from tests.slow_service import SlowService, slow_service

ENTRIES = [
    KILN, TIDE, ledger("park -- later"), delve("Absorbed", "2026-03-01", "absorb -- fits"), delve("Released", "2026-05-04"),
    b"### [daydream] Whisper (2026-05-04 23:30)\n**Whisper:** quiet\n**Signal:** faint\n",
    b"### [swarm-7] [prior-work] Swarm (2026-05-05 00:10)\n**Sources:** Pottery Manual; notes\n",
    b"### [dream] Undated\n**Signal:** resonant\n",
]  # fmt: skip
ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-05-19 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)\n\n"
DAYS = ["2026-01-01", "2026-03-01", "2026-05-04", "2026-05-05", "2026-05-07", "2026-06-30"]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Entries of every sort, one of them archived."""
    return settings_for(tmp_path_factory.mktemp("inputs"), HEADER + log(*ENTRIES), ARCHIVE + delve("Old", "2026-01-01"))


@pytest.fixture(scope="module")
def client(pool: Settings) -> Iterator[TestClient]:
    """An application over them."""
    with ready(pool) as client:
        yield client


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlowService]:
    """A real process, for what a client library would not send."""
    with slow_service(settings_for(tmp_path_factory.mktemp("raw"), log(KILN, TIDE))) as service:
        service.until_ready()
        yield service


def passes(placed: PlacedEntry, filters: dict[str, Any]) -> bool:
    """Whether an entry passes, by the words of the contract alone."""
    view = entry_view(placed)
    sources = " ".join(v for k, v in view.fields.items() if k.casefold() in ("source", "sources")).casefold()
    tests: dict[str, Callable[[Any], bool]] = {
        "tier": lambda v: view.tier in v,
        "kind": lambda v: any(view.kind == k or (k == "swarm" and view.kind.startswith("swarm-")) for k in v),
        "tags": lambda v: any(t in view.tags for t in v),
        "verdict": lambda v: view.verdict in v,
        "signal": lambda v: view.signal in v,
        "pool": lambda v: view.pool in v,
        "source": lambda v: v.casefold() in sources,
        "since": lambda v: view.date is not None and view.date >= v,
        "until": lambda v: view.date is not None and view.date <= v,
    }
    return all(tests[name](value) for name, value in filters.items())


def some(*values: str) -> st.SearchStrategy[list[str]]:
    """One or more of these, perhaps twice."""
    return st.lists(st.sampled_from(values), min_size=1, max_size=4)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "tier": some("active", "archive"),
    "kind": some("dream", "daydream", "delve", "swarm", "swarm-7", "unheard-of"),
    "tags": some("dream", "ext-signal", "prior-work", "nope"),
    "verdict": some("absorb", "park", "release"),
    "signal": some("resonant", "faint", "noise"),
    "pool": some("default"),
    "source": st.sampled_from(["pottery", "POTTERY MANUAL", "thought", "x", "nowhere"]),
    "since": st.sampled_from(DAYS),
    "until": st.sampled_from(DAYS),
}


def in_order(filters: dict[str, Any]) -> bool:
    """Whether the first day does not lie after the last one, which would be refused."""
    return bool(filters.get("since", "0") <= filters.get("until", "9"))


@given(filters=st.fixed_dictionaries({}, optional=VALUES).filter(in_order), mode=st.sampled_from(["hybrid", "semantic", "lexical"]))
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_filters_answer_as_the_files_would(client: TestClient, pool: Settings, filters: dict[str, Any], mode: str) -> None:
    """Whatever the filters, none or all of them, the hits are those entries of the parsed files that pass them."""
    answer = client.post("/v1/recall", json={"query": "kiln", "limit": 100, "mode": mode, "filters": filters, "text": "none"})
    assert answer.status_code == 200
    expected = {placed.id for placed in read_pool(pool.all_pools()[0]).entries if passes(placed, filters)}
    assert {hit["id"] for hit in answer.json()["hits"]} == expected


@pytest.mark.parametrize("limit", [1, 2, 8, 9, 10])
def test_limit_is_met_under_a_filter(client: TestClient, limit: int) -> None:
    """A filter takes nothing from the limit."""
    found = client.post("/v1/recall", json={"query": "kiln", "limit": limit, "filters": {"tier": ["active"]}}).json()["hits"]
    assert len(found) == min(limit, len(ENTRIES))


def raw(service: SlowService, data: bytes, timeout: float = 5.0) -> bytes:
    """What the service answers to these bytes, until it closes or falls silent."""
    host, _, port = service.netloc.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=timeout) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65_536):
            found += part
    return found


def post(body: bytes, *headers: str, path: str = "/v1/recall") -> bytes:
    """A request as bytes."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


JSON = "Content-Type: application/json"


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        (post(b'{"query":"kiln"}', JSON), {200}),
        (post(b'{"query":"a","query":"kiln"}', JSON), {200, 422}),  # a duplicate key
        (post(b"{" + b'"a":' * 50_000, JSON), {422}),
        (post(b'{"query":"' + b"a" * 100_000 + b'"}', JSON), {422}),
        (post(b'{"query":"\\u0000"}', JSON), {422}),
        (post(b'{"query":"kiln\\u0000"}', JSON), {200}),
        (post(b'{"query":"\\ud800"}', JSON), {422}),
        (post('{"query":"kiln"}'.encode("utf-16"), JSON), {200, 422}),
        (post('{"query":"café"}'.encode("latin-1"), JSON), {422}),
        (post(b'\xef\xbb\xbf{"query":"kiln"}', JSON), {200, 422}),
        (post(b'{"query":"kiln"}', "Content-Type: text/plain", "Origin: https://evil.example"), {403}),
        (post(b'{"query":"kiln"}', "Content-Type: text/plain"), {415}),
        (post(b"\x1f\x8b\x08" + b"\0" * 20, JSON, "Content-Encoding: gzip"), {422}),
        (post(b"", JSON, "Transfer-Encoding: chunked"), {400, 422}),
        (post(b"x" * 100, JSON).replace(b"Content-Length: 100", b"Content-Length: -5"), {400}),
        (post(b"x", JSON).replace(b"Content-Length: 1", b"Content-Length: 99999999999999"), {413}),
        (post(b"{}", JSON).replace(b"Host: 127.0.0.1\r\n", b""), {400, 403}),
        (post(b"{}", JSON).replace(b"Host: 127.0.0.1", b"Host: evil.example:8000"), {403}),
        (b"GET /v1/entries/../../etc/hosts HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", {404}),
        (b"GET /v1/entries/%00 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", {404}),
        (b"GET //etc/hosts HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", {404}),
        (b"GET http://evil.example/healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", {403}),
        (b"\x16\x03\x01\x02\x00\x01\x00", {400}),  # TLS
        (b"GET / HTTP/9.9\r\n\r\n", {400}),
        (b"\0" * 100 + b"\r\n\r\n", {400}),
    ],
)
def test_raw_request_is_answered_or_refused(service: SlowService, request_bytes: bytes, statuses: set[int]) -> None:
    """Whatever bytes come, the answer is a documented one, and never a failure that nobody foresaw."""
    began = time.monotonic()
    answer = raw(service, request_bytes)
    assert time.monotonic() - began < 2  # the requirement for the largest question
    assert int(answer.split(b" ", 2)[1]) in statuses
    assert b"access-control" not in answer.lower()
    assert service.call("GET", "/healthz")[0] == 200


def test_connection_that_says_nothing_holds_nobody_up(service: SlowService) -> None:
    """Half a request, and a body that never comes, leave the service to others."""
    host, _, port = service.netloc.rpartition(":")
    with (
        socket.create_connection((host, int(port))) as silent,
        socket.create_connection((host, int(port))) as half,
    ):
        silent.sendall(b"GET /hea")
        half.sendall(post(b"x" * 1_000, JSON)[:-900])
        assert service.recall("kiln")[0] == 200


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo"])
def test_days_do_not_depend_on_the_zone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    """An index made under UTC and served elsewhere finds the same entries for a day: stamps are the headings' own."""
    late, early, whole = (delve(f"At {s[-5:]}", s) for s in ("2026-05-04 23:30", "2026-05-05 00:10", "2026-05-04"))
    made = settings_for(tmp_path, log(late, early, whole))
    with ready(made):
        pass
    monkeypatch.setenv("TZ", zone)
    with slow_service(made) as service:
        service.until_ready()
        filters = {"since": "2026-05-04", "until": "2026-05-04"}
        hits = service.call("POST", "/v1/recall", {"query": "at", "filters": filters})[1]["hits"]
    assert {h["title"] for h in hits} == {"At 23:30", "At 05-04"}
