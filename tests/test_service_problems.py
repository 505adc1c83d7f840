"""Every bad input is answered by a problem document that names the field; none is an unforeseen failure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
from fastapi.testclient import TestClient

from tests.fakes import FakeEmbedder
from tests.samples import KILN, TIDE, log
from tests.service_support import PROBLEM, ready, settings_for

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An application over two entries; its tests change nothing."""
    with ready(settings_for(tmp_path_factory.mktemp("problems"), log(KILN, TIDE))) as client:
        yield client


class Answer(Protocol):
    """What the tests read of a response."""

    @property
    def status_code(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers."""

    def json(self) -> Any:
        """The body."""


def is_problem(answer: Answer, status: int) -> dict[str, Any]:
    """The problem document that *answer* must be."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM)
    body: dict[str, Any] = answer.json()
    assert set(body) >= {"type", "title", "status", "detail"}
    assert body["status"] == status
    return body


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "x", "limit": 0}, "limit"),
        ({"query": "x", "limit": -5}, "limit"),
        ({"query": "x", "limit": "abc"}, "limit"),
        ({"query": "x", "limit": True}, "limit"),
        ({"query": "x", "limit": 1.5}, "limit"),
        ({"query": "x", "limit": None}, "limit"),
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "   "}, "query"),
        ({"query": "\u200b"}, "query"),
        ({"query": "a" * 100_000}, "query"),
        ({"query": 5}, "query"),
        ({"query": None}, "query"),
        ({"query": ["x"]}, "query"),
        ({"query": "\ud800"}, "query"),
        ({"query": "x", "mode": "fuzzy"}, "mode"),
        ({"query": "x", "text": "all"}, "text"),
        ({"query": "x", "tier": "active"}, "tier"),  # a filter in the wrong place
        ({"query": "x", "bogus": 1}, "bogus"),
        ({"query": "x", "filters": []}, "filters"),
        ({"query": "x", "filters": {"bogus": 1}}, "filters.bogus"),
        ({"query": "x", "filters": {"tier": "active"}}, "filters.tier"),
        ({"query": "x", "filters": {"tier": ["cold"]}}, "filters.tier"),
        ({"query": "x", "filters": {"tier": []}}, "filters.tier"),
        ({"query": "x", "filters": {"verdict": ["maybe"]}}, "filters.verdict"),
        ({"query": "x", "filters": {"tags": []}}, "filters.tags"),
        ({"query": "x", "filters": {"tags": [5]}}, "filters.tags"),
        ({"query": "x", "filters": {"kind": ["\ud800"]}}, "filters.kind"),
        ({"query": "x", "filters": {"source": " "}}, "filters.source"),
        ({"query": "x", "filters": {"since": "2026-05-05", "until": "2026-05-04"}}, "filters"),
        ({"query": "x", "filters": {"since": 20260504}}, "filters.since"),
        ({"query": "x", "filters": {"since": True}}, "filters.since"),
        ({"query": "x", "filters": {"since": ""}}, "filters.since"),
        ({"query": "x", "filters": {"since": "2026-02-30"}}, "filters.since"),
        ({"query": "x", "filters": {"since": "2026-05-04T00:00"}}, "filters.since"),
        ({"query": "x", "filters": {"until": "20260504"}}, "filters.until"),  # ISO too, but not the documented form
        ({"query": "x", "filters": {"until": "2026-W19-1"}}, "filters.until"),
        ({"query": "x", "filters": {"pool": ["nope"]}}, "nope"),
    ],
)
def test_bad_recall_names_its_field(client: TestClient, body: dict[str, Any], field: str) -> None:
    """A question that cannot be asked is refused, with the name of what is wrong in it."""
    problem = is_problem(client.post("/v1/recall", content=json.dumps(body), headers=JSON), 422)
    named = [e["field"] for e in problem.get("errors", [])]
    assert any(name == field or name.startswith(f"{field}.") for name in named) or repr(field) in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'"x"', b"5", b"null", b'{"query":"x"}{}', b"\xff", b'{"query":"\xff"}', b'{"query":"x",}', b"query=x",
        b'{"a":' * 100_000,  # deeper than the interpreter's stack
        b"[" * 200_000,
        b'{"query":"x","limit":' + b"9" * 5_000 + b"}",  # more digits than Python reads
        b'{"query":"x","limit":NaN}',
        b'{"query":"x","\\ud800":1}',
    ],
    ids=lambda body: body[:24].decode("ascii", "replace") + str(len(body)),
)  # fmt: skip
def test_body_that_is_no_question(client: TestClient, body: bytes) -> None:
    """Whatever the bytes, the answer is a problem document with status 422."""
    is_problem(client.post("/v1/recall", content=body, headers=JSON), 422)


def test_malformed_json_is_named_by_its_place(client: TestClient) -> None:
    """What is no JSON at all has no field; the body itself is named."""
    problem = is_problem(client.post("/v1/recall", content=b'{"query":', headers=JSON), 422)
    assert [e["field"] for e in problem["errors"]] == ["body"]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/sync", {"bogus": 1}, "bogus"),
        ("/v1/sync", {"rebuild": "maybe"}, "rebuild"),
        ("/v1/compact", {"bogus": 1}, "bogus"),
        ("/v1/compact", {"dry-run": False}, "dry-run"),  # the flag's spelling
        ("/v1/compact", {"dry_run": "perhaps"}, "dry_run"),
        ("/v1/compact", {"dry_run": None}, "dry_run"),
        ("/v1/compact", {"today": "2026-13-01"}, "today"),
        ("/v1/compact", {"today": 20260520}, "today"),
        ("/v1/compact", {"today": 86_400}, "today"),  # would be a day of 1970
        ("/v1/compact", {"pool": 5}, "pool"),
    ],
)
def test_bad_command_names_its_field(client: TestClient, path: str, body: dict[str, Any], field: str) -> None:
    """Commands are as strict as questions."""
    problem = is_problem(client.post(path, json=body), 422)
    assert [e["field"] for e in problem["errors"]] == [field]


def test_unknown_pool_is_named(client: TestClient) -> None:
    """A pool that the settings do not list is refused with the ones they do."""
    problem = is_problem(client.post("/v1/compact", json={"pool": "x"}), 422)
    assert problem["detail"] == "There is no pool named 'x': the settings list default."


@pytest.mark.parametrize(
    ("query", "field"), [("limit=0", "limit"), ("limit=-1", "limit"), ("limit=abc", "limit"), ("text=all", "text"), ("bogus=1", "bogus")]
)
def test_bad_parameter_names_itself(client: TestClient, query: str, field: str) -> None:
    """Parameters behind the question mark are checked like fields, unknown ones too."""
    entry_id = client.post("/v1/recall", json={"query": "kiln"}).json()["hits"][0]["id"]
    problem = is_problem(client.get(f"/v1/entries/{entry_id}/related?{query}"), 422)
    assert [e["field"] for e in problem["errors"]] == [field]


@pytest.mark.parametrize(
    "name",
    [
        "ffffffffffffffff", "../../etc/hosts", "%2e%2e%2f%2e%2e%2fetc%2fhosts", "..%2f..%2fetc%2fhosts", "%252e%252e%252f",
        "%2Fetc%2Fhosts", "/etc/hosts", "%00", "a%00b", "%", "%ff", "%ed%a0%80", "_", "*", "dream-sparks.md", "a" * 5_000,
    ],
    ids=lambda name: name[:20],
)  # fmt: skip
@pytest.mark.parametrize("tail", ["", "/related"])
@pytest.mark.parametrize("accept", ["application/json", "text/markdown"])
def test_only_ids_name_entries(client: TestClient, name: str, tail: str, accept: str) -> None:
    """A path, a NUL, a wildcard or an unknown id finds nothing."""
    problem = is_problem(client.get(f"/v1/entries/{name}{tail}", headers={"Accept": accept}), 404)
    assert "localhost" not in problem["detail"]


@pytest.mark.parametrize("pool", ["../..", "/etc", "%00", "nope"])
def test_only_names_name_pools(client: TestClient, pool: str) -> None:
    """An entry is looked for in a listed pool or in none."""
    entry_id = client.post("/v1/recall", json={"query": "kiln"}).json()["hits"][0]["id"]
    assert client.get(f"/v1/entries/{entry_id}?pool={pool}").status_code in (404, 422)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/entries/", 404),
        ("GET", "/v1/recall", 405),
        ("DELETE", "/v1/entries/ffff", 405),
        ("PUT", "/v1/entries/ffff", 405),
        ("POST", "/v1/status", 405),
        ("OPTIONS", "/v1/recall", 405),
    ],
)
def test_unknown_route_and_wrong_method(client: TestClient, method: str, path: str, status: int) -> None:
    """There is nothing there, and no method edits or removes an entry; the answer says so in the usual form."""
    answer = client.request(method, path)
    is_problem(answer, status)
    assert ("allow" in answer.headers) == (status == 405)


def test_unforeseen_failure_is_a_problem_document(tmp_path: Path) -> None:
    """A failure that nobody foresaw is told in the usual form, without its inner workings, and the next request is served."""

    class Broken(FakeEmbedder):
        def embed_query(self, text: str) -> Any:
            if text == "break":
                raise RuntimeError("secret inner workings")
            return super().embed_query(text)

    with ready(settings_for(tmp_path, log(KILN)), Broken()) as client:
        answer = client.post("/v1/recall", json={"query": "break"})
        assert "secret" not in answer.text
        assert client.get("/healthz").status_code == 200
        is_problem(answer, 500)
