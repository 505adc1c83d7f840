"""The routes under /v1: the shapes of their answers, and that they give the file's own bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from models.settings import Settings
from service import __version__
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import PROBLEM, ready, settings_for, until

ODD = b"### [delve] Odd bytes (2026-05-18)\r\n**Source:** caf\xff\xfe \xe2\x80\xa8 tail \r\n\r\n**Verdict:** park -- ok"
ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-05-19 \xe2\x80\x94 1 entries (date range: 2026-05-07 to 2026-05-07)\n\n"
HIT = {
    "id", "score", "tier", "pool", "file", "line_start", "line_end", "batch_date", "kind", "tags", "title", "date", "verdict", "signal",
    "text", "passage",
}  # fmt: skip
ENTRY = {
    "id", "pool", "tier", "file", "line_start", "line_end", "byte_start", "byte_end", "kind", "tags", "title", "date", "time", "verdict",
    "verdict_reason", "signal", "fields", "warnings",
}  # fmt: skip


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """Three active entries, one of them of odd bytes, and an archived one."""
    return settings_for(tmp_path_factory.mktemp("api"), HEADER + log(KILN, TIDE, ODD), ARCHIVE + ledger("release -- stale"))


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    """An application over them; its tests change nothing."""
    with ready(settings) as client:
        yield client


def recall(client: TestClient, query: str, **more: Any) -> dict[str, Any]:
    """A recall that must succeed."""
    answer = client.post("/v1/recall", json={"query": query, **more})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_healthz_says_who_answers(client: TestClient) -> None:
    """The health check names the service and its version."""
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "service": "coldspark", "version": __version__})


def test_recall_answers_in_the_documented_shape(client: TestClient, settings: Settings) -> None:
    """A hit carries its place, its verbatim text and a passage that is a slice of it."""
    found = recall(client, "cooling a kiln in steps")
    assert set(found) >= {"query", "mode", "degraded", "stale", "hits", "took_ms"}
    assert (found["query"], found["mode"], found["degraded"], found["stale"]) == ("cooling a kiln in steps", "hybrid", None, None)
    hit = found["hits"][0]
    assert set(hit) >= HIT
    shown = {name: hit[name] for name in ("tier", "pool", "kind", "tags", "title", "date", "verdict", "signal", "batch_date")}
    assert shown == {
        "tier": "active", "pool": "default", "kind": "dream", "tags": ["dream", "ext-signal"],
        "title": "Kiln cooling and staged eviction", "date": "2026-05-04", "verdict": None, "signal": "resonant", "batch_date": None,
    }  # fmt: skip
    file = settings.all_pools()[0].active
    lines = file.read_bytes().split(b"\n")[hit["line_start"] - 1 : hit["line_end"]]
    assert hit["file"] == str(file)
    assert hit["text"].encode() == b"\n".join(lines) == KILN.rstrip(b"\n")
    passage = hit["passage"]
    assert hit["text"].encode()[passage["start"] : passage["end"]] == passage["text"].encode()


def test_scores_fall_and_stay_within_0_and_1(client: TestClient) -> None:
    """Higher is better, in every mode."""
    for mode in ("hybrid", "semantic", "lexical"):
        scores = [h["score"] for h in recall(client, "kiln cooling cracks", mode=mode)["hits"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


def test_archived_hit_has_its_batch_date(client: TestClient) -> None:
    """An entry of the archive says when it was archived."""
    hit = recall(client, "two writers fork a ledger")["hits"][0]
    assert (hit["tier"], hit["batch_date"], hit["verdict"], hit["line_start"]) == ("archive", "2026-05-19", "release", 5)


@pytest.mark.parametrize(("form", "shown"), [("full", KILN.decode().rstrip("\n")), ("none", None)])
def test_text_form_is_obeyed(client: TestClient, form: str, shown: str | None) -> None:
    """The whole text comes by default only; `none` leaves it out and keeps the passage."""
    hit = recall(client, "cooling a kiln", text=form)["hits"][0]
    assert hit["text"] == shown
    assert hit["passage"] is not None


@pytest.mark.parametrize("limit", [4, 5, 1_000_000, 2**63, 10**30])
def test_more_than_there_are_gives_all_there_are(client: TestClient, limit: int) -> None:
    """However large the limit, all four entries answer, each once."""
    ids = [h["id"] for h in recall(client, "kiln", limit=limit)["hits"]]
    assert len(ids) == len(set(ids)) == 4
    near = client.get(f"/v1/entries/{ids[0]}/related", params={"limit": limit})
    assert sorted(h["id"] for h in near.json()["hits"]) == sorted(ids[1:])


def test_limit_is_met_whatever_the_score(client: TestClient) -> None:
    """There is no hidden cut-off: a question that fits nothing has its hits all the same."""
    assert len(recall(client, "zzz qqq xxx", limit=3)["hits"]) == 3


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({"tier": ["archive"]}, {"Ledger forks"}),
        ({"tier": ["ACTIVE"], "kind": ["Delve"]}, {"Odd bytes"}),
        ({"verdict": ["Park", "release"]}, {"Odd bytes", "Ledger forks"}),
        ({"signal": ["FAINT"]}, {"Tide tables and cron jitter"}),
        ({"tags": ["EXT-signal"], "since": "2026-05-05"}, {"Tide tables and cron jitter"}),
        ({"since": "2026-05-04", "until": "2026-05-04"}, {"Kiln cooling and staged eviction"}),  # both ends count
        ({"source": "POTTERY"}, {"Kiln cooling and staged eviction"}),
        ({"pool": ["Default"], "kind": ["swarm"]}, set()),
        ({"kind": ["unheard-of"]}, set()),
    ],
)
def test_filters_decide_who_may_answer(client: TestClient, filters: dict[str, Any], titles: set[str]) -> None:
    """Lists mean any of, several filters all of, whatever their case."""
    assert {h["title"] for h in recall(client, "kiln", filters=filters)["hits"]} == titles


@pytest.mark.parametrize("query", ["*", '"', "NEAR(a b) AND OR", "kiln\x00tide", "title:kiln -tide ^", "'; DROP TABLE entry", "🦊 深夜"])
def test_query_syntax_has_no_meaning(client: TestClient, query: str) -> None:
    """Marks that search engines read as operators are plain text, and the query comes back as it was."""
    assert recall(client, query)["query"] == query


def test_entry_as_json(client: TestClient) -> None:
    """An entry has the listed fields and its whole text."""
    entry_id = recall(client, "two writers fork a ledger")["hits"][0]["id"]
    found = client.get(f"/v1/entries/{entry_id}").json()
    assert set(found) >= ENTRY
    assert (found["verdict"], found["verdict_reason"]) == ("release", "stale")
    assert (found["text"], found["lossy"]) == (ledger("release -- stale").decode().rstrip("\n"), False)


def test_entry_as_markdown_is_byte_exact(client: TestClient, settings: Settings) -> None:
    """CRLF and bytes that are no UTF-8 come as they stand in the file, with the version as ETag."""
    hit = recall(client, "odd bytes", filters={"kind": ["delve"], "tier": ["active"]})["hits"][0]
    answer = client.get(f"/v1/entries/{hit['id']}", headers={"Accept": "text/markdown"})
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.content == ODD
    assert answer.headers["etag"] == f'"{hashlib.sha256(ODD).hexdigest()}"'
    found = client.get(f"/v1/entries/{hit['id']}").json()
    assert found["lossy"] is True
    place = found
    assert settings.all_pools()[0].active.read_bytes()[place["byte_start"] : place["byte_end"]] == ODD


def test_beginning_of_an_id_is_enough(client: TestClient) -> None:
    """A prefix that only one entry has names it."""
    entry_id = recall(client, "cooling a kiln")["hits"][0]["id"]
    assert client.get(f"/v1/entries/{entry_id[:8]}").json()["id"] == entry_id


def test_ambiguous_beginning_is_refused(tmp_path: Path) -> None:
    """With more entries than hexadecimal digits, one digit cannot name one."""
    with ready(settings_for(tmp_path, log(*(delve(f"Spark {n}", "2026-05-18") for n in range(17))))) as client:
        ids = [h["id"] for h in recall(client, "spark", limit=17)["hits"]]
        digit = next(d for d in "0123456789abcdef" if sum(i.startswith(d) for i in ids) > 1)
        answer = client.get(f"/v1/entries/{digit}")
        assert (answer.status_code, answer.headers["content-type"], answer.json()["title"]) == (422, PROBLEM, "Ambiguous entry")


def test_related_leaves_the_entry_itself_out(client: TestClient) -> None:
    """The neighbours of an entry are all the others, in the shape of a recall."""
    entry_id = recall(client, "cooling a kiln")["hits"][0]["id"]
    found = client.get(f"/v1/entries/{entry_id}/related", params={"limit": 2, "text": "none"}).json()
    assert found["query"] == "Kiln cooling and staged eviction"
    assert len(found["hits"]) == 2
    assert entry_id not in [h["id"] for h in found["hits"]]
    assert {h["text"] for h in found["hits"]} == {None}


def test_status_shows_both_tiers(client: TestClient, settings: Settings) -> None:
    """Sizes are the files' own, and the index holds every entry."""
    found = client.get("/v1/status").json()
    (pool,) = found["pools"]
    files = settings.all_pools()[0]
    assert pool["active"]["bytes"] == len(files.active.read_bytes())
    assert pool["active"]["entries"] == 3
    assert pool["archive"] == {"file": str(files.archive), "bytes": len(files.archive.read_bytes()), "entries": 1}
    assert found["index"]["entries"] == {"active": 3, "archive": 1}
    assert (found["index"]["stale"], found["stale"], found["version"]) == (None, None, __version__)


@pytest.mark.parametrize("body", [None, {}, {"rebuild": True}])
def test_sync_embeds_nothing_twice(client: TestClient, body: dict[str, Any] | None) -> None:
    """A sync without changes, and a rebuild too, cost no embedding."""
    found = client.post("/v1/sync", json=body) if body is not None else client.post("/v1/sync")
    assert found.status_code == 200
    assert (found.json()["status"], found.json()["embedded"], found.json()["entries"]) == ("ok", 0, {"active": 3, "archive": 1})
    assert recall(client, "cooling a kiln")["hits"][0]["title"] == "Kiln cooling and staged eviction"


@pytest.mark.parametrize("body", [None, {}, {"force": True}, {"dry_run": True, "force": True, "today": "2026-06-30"}])
def test_compaction_is_a_dry_run_unless_told(client: TestClient, settings: Settings, body: dict[str, Any] | None) -> None:
    """Without `dry_run: false` nothing is written, whatever else is asked for."""
    pool = settings.all_pools()[0]
    before = {p.name: p.read_bytes() for p in pool.memory_dir.iterdir()}
    answer = client.post("/v1/compact", json=body) if body is not None else client.post("/v1/compact")
    assert (answer.status_code, answer.json()["status"]) == (200, "planned" if body and body.get("force") else "already-compact")
    assert {p.name: p.read_bytes() for p in pool.memory_dir.iterdir()} == before


def test_compaction_moves_and_the_index_follows(tmp_path: Path) -> None:
    """A real run archives what the plan said, verbatim, and recall soon finds it in the archive."""
    settings = settings_for(tmp_path, HEADER + log(KILN, TIDE, ledger("absorb -- fits")))
    with ready(settings) as client:
        plan = client.post("/v1/compact", json={"force": True}).json()
        done = client.post("/v1/compact", json={"force": True, "dry_run": False, "pool": "default"}).json()
        assert (plan["status"], done["status"], done["archived"], done["kept"]) == ("planned", "compacted", 2, 1)
        assert plan["decisions"] == done["decisions"]
        assert set(done) >= {"status", "pool", "today", "archived", "kept", "active", "archive", "decisions", "warnings"}
        assert set(done["decisions"][0]) == {"id", "title", "rule", "action", "age_days"}
        archive = settings.all_pools()[0].archive.read_bytes()
        assert KILN in archive
        assert TIDE in archive
        until(lambda: {h["tier"] for h in recall(client, "kiln", filters={"signal": ["faint", "resonant"]})["hits"]} == {"archive"})


def test_documentation_loads_nothing_from_elsewhere(client: TestClient) -> None:
    """The page and all it names come from this host."""
    page = client.get("/docs")
    assert page.status_code == 200
    assert "http://" not in page.text.replace("http://127.0.0.1", "")
    assert "https://" not in page.text
    parts = [word.strip("\"'") for word in page.text.replace(">", " ").replace("=", " ").split() if "/static-offline-docs/" in word]
    assert parts
    assert [client.get(part).status_code for part in parts] == [200] * len(parts)


def test_openapi_names_every_route(client: TestClient) -> None:
    """The interface describes itself."""
    assert set(client.get("/openapi.json").json()["paths"]) >= {
        "/healthz", "/readyz", "/v1/recall", "/v1/entries/{entry_id}", "/v1/entries/{entry_id}/related", "/v1/status", "/v1/sync",
        "/v1/compact",
    }  # fmt: skip
