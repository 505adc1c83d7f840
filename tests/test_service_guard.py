"""What the guard lets pass: requests to this host's own names, from no other page, in JSON, of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from service.guard import LARGEST_BODY, hostname
from tests.samples import KILN, TIDE, delve, log
from tests.service_support import PROBLEM, client_over, ready, settings_for

JSON = {"Content-Type": "application/json"}
QUESTION = b'{"query": "kiln"}'
OLD = log(KILN, TIDE, delve("Old", "2026-01-01"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """An application over old entries that any accepted compaction would move."""
    with ready(settings_for(tmp_path_factory.mktemp("guard"), OLD, target_lines=1)) as client:
        yield client


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8765", "[::1]", "[::1]:8000", "localhost."]
)
def test_loopback_names_pass_with_any_port(client: TestClient, host: str) -> None:
    """Every name of this machine's loopback is its own, whatever the port that a tunnel shows."""
    assert client.get("/healthz", headers={"Host": host}).status_code == 200
    assert client.post("/v1/recall", content=QUESTION, headers={**JSON, "Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", "192.168.0.7",
        "[::]", "::1", "", " ", "[", "[::1", "127.0.0.2", "2130706433", "evil.example,localhost",
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/healthz", "/v1/status", "/docs", "/nope"])
def test_other_hosts_are_refused(client: TestClient, host: str, path: str) -> None:
    """A name that leads here by DNS rebinding, or is malformed, reaches no route."""
    answer = client.get(path, headers={"Host": host})
    assert (answer.status_code, answer.headers["content-type"]) == (403, PROBLEM)
    assert answer.json()["detail"] == "Host: this service answers only under its own address."


@pytest.mark.parametrize("host", ["user@localhost", "localhost/evil", "localhost:port", "localhost?x", "localhost#x"])
def test_host_is_a_name_and_a_port_and_no_more(client: TestClient, host: str) -> None:
    """A Host that is no name with a port is refused, even if a loopback name stands in it."""
    assert client.get("/healthz", headers={"Host": host}).status_code == 403


def test_host_must_be_named_once(client: TestClient) -> None:
    """Two Host headers are refused, even when one of them is right."""
    doubled = [("Host", "127.0.0.1"), ("Host", "evil.example")]
    assert client.get("/healthz", headers=doubled).status_code == 403
    assert client.get("/healthz", headers=[("Host", "127.0.0.1"), ("Host", "127.0.0.1")]).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example", "http://evil.example:8765", "null", "", "http://127.0.0.1.evil.example", "http://localhost",
        "http://127.0.0.1:9999", "file://",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/x-www-form-urlencoded"])
def test_other_pages_change_nothing(client: TestClient, origin: str, kind: str) -> None:
    """A post from another page is refused before it has an effect, and nothing invites the browser to share the answer."""
    headers = {"Origin": origin, "Content-Type": kind}
    answer = client.post("/v1/compact", content=b'{"dry_run": false, "force": true}', headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (403, PROBLEM)
    assert [name for name in answer.headers if name.startswith("access-control-")] == []
    assert client.get("/v1/status").json()["pools"][0]["active"]["entries"] == 3


def test_own_page_passes(client: TestClient) -> None:
    """A request of this service's own pages names it as origin."""
    headers = {**JSON, "Host": "127.0.0.1:8765", "Origin": "http://127.0.0.1:8765"}
    assert client.post("/v1/recall", content=QUESTION, headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1"])
def test_preflight_is_never_answered(client: TestClient, origin: str) -> None:
    """No OPTIONS request is told that anything is allowed to another origin."""
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    answer = client.options("/v1/recall", headers=headers)
    assert answer.status_code in (403, 405)
    assert [name for name in answer.headers if name.startswith("access-control-")] == []


@pytest.mark.parametrize(
    "kind", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "json"]
)
def test_other_media_types_are_refused(client: TestClient, kind: str) -> None:
    """What a form can send without asking is refused, without an Origin header too."""
    for path in ("/v1/recall", "/v1/sync", "/v1/compact"):
        answer = client.post(path, content=QUESTION, headers={"Content-Type": kind})
        assert (answer.status_code, answer.headers["content-type"]) == (415, PROBLEM)


def test_json_with_a_charset_passes(client: TestClient) -> None:
    """Parameters of the media type, and its case, do not matter."""
    answer = client.post("/v1/recall", content=QUESTION, headers={"Content-Type": "Application/JSON; charset=utf-8"})
    assert answer.status_code == 200


def test_answers_are_hardened(client: TestClient) -> None:
    """No answer may be sniffed, cached or shared."""
    for path in ("/healthz", "/v1/status", "/docs", "/nope"):
        answer = client.get(path)
        assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
        assert [name for name in answer.headers if name.startswith("access-control-")] == []


def test_announced_size_is_limited(client: TestClient) -> None:
    """A body that says it is too large is refused; one of the largest size reaches the route."""
    fitting = QUESTION + b" " * (LARGEST_BODY - len(QUESTION))
    assert client.post("/v1/recall", content=fitting, headers=JSON).status_code == 200
    answer = client.post("/v1/recall", content=fitting + b" ", headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)
    assert answer.json()["detail"] == "Body: at most 1048576 bytes are taken."


def test_streamed_size_is_limited(client: TestClient) -> None:
    """A body that grows without having said so is refused at the limit."""

    def chunks() -> Iterator[bytes]:
        yield QUESTION
        for _ in range(64):
            yield b" " * 65_536

    answer = client.post("/v1/recall", content=chunks(), headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


def test_streamed_question_is_answered(client: TestClient) -> None:
    """A small body in pieces is as good as one in one."""
    assert client.post("/v1/recall", content=iter([QUESTION[:5], QUESTION[5:]]), headers=JSON).status_code == 200


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        ("Bearer s3cret", 200), ("bearer s3cret", 200), ("Bearer  s3cret ", 200),
        (None, 401), ("", 401), ("s3cret", 401), ("Basic s3cret", 401), ("Bearer", 401), ("Bearer ", 401), ("Bearer s3cre", 401),
        ("Bearer s3crett", 401), ("Bearer S3CRET", 401), ("Bearer caf\u00e9", 401),
    ],
)  # fmt: skip
def test_token_is_asked_for(tmp_path: Path, authorization: str | None, status: int) -> None:
    """With a token set, every route wants exactly it."""
    client = client_over(settings_for(tmp_path, log(KILN)), token="s3cret")  # noqa: S106 - made up here
    headers = [] if authorization is None else [(b"Authorization", authorization.encode("latin-1"))]
    for path in ("/healthz", "/openapi.json"):
        answer = client.get(path, headers=headers)
        assert answer.status_code == status
        assert "s3cret" not in answer.text


def test_named_address_is_its_own_host(tmp_path: Path) -> None:
    """A service that listens on another address answers under that address too, and under no third."""
    client = client_over(settings_for(tmp_path, log(KILN), host="192.168.0.7"), token="s3cret")  # noqa: S106 - made up here
    shown = {"Authorization": "Bearer s3cret"}
    assert client.get("/healthz", headers={**shown, "Host": "192.168.0.7:8765"}).status_code == 200
    assert client.get("/healthz", headers={**shown, "Host": "192.168.0.8:8765"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "name"),
    [("localhost:80", "localhost"), ("[::1]:80", "::1"), ("LOCALHOST", "localhost"), ("localhost.", "localhost"), ("[", ""), ("", "")],
)
def test_hostname_is_read_without_its_port(host: str, name: str) -> None:
    """The name is what stands before the port, in lower case; nothing when there is none."""
    assert hostname(host) == name
