"""Several services on one Chroma server: none harms another's records, and all come back from whatever befalls the server."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexer.chroma import COLLECTIONS, Metadata, Record
from indexer.chroma_server import ServerStore, open_server
from models.errors import ForeignStoreError, InvalidSettingError, StoreUnreachableError
from models.pool import TIERS
from models.query import RecallRequest
from models.results import RecallResult
from models.settings import Settings
from service.local import LocalBackend
from tests.chroma_servers import Server, free_port, running
from tests.fakes import FakeEmbedder
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import settings_for

_METADATA: Metadata = {"pool": "p", "tier": "active", "entry": "e", "kind": "", "tags": [""], "verdict": "", "signal": "", "date": 0}
_UNIT = np.eye(64, dtype=np.float32)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests here."""
    with running(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def server(lasting: Server) -> Server:
    """The server, without a collection."""
    store = open_server(lasting.url)
    for found in store._client.list_collections():
        store._client.delete_collection(found.name)
    store.close()
    return lasting


def stranger(name: str) -> Record:
    """A record of somebody else's."""
    return Record(name, _UNIT[0], _METADATA, "theirs")


def settings(tmp_path: Path, url: str, name: str = "one") -> Settings:
    """Settings of one machine: its own state, the same memory as the others."""
    if not (tmp_path / "memory").exists():
        settings_for(tmp_path, HEADER + log(KILN, TIDE), ledger("release -- stale"))
    return Settings.model_validate({"memory_dir": tmp_path / "memory", "state_dir": tmp_path / name, "chroma_url": url})


def ask(backend: LocalBackend, query: str = "kiln cooling") -> RecallResult:
    """One question."""
    return backend.recall(RecallRequest(query=query, limit=3))


def stored(url: str) -> dict[str, set[str]]:
    """Ids of what the server holds."""
    store = open_server(url)
    found: dict[str, set[str]] = {tier: store.ids(tier) for tier in TIERS}
    store.close()
    return found


def collections(url: str) -> list[str]:
    """Names of the server's collections."""
    store = open_server(url)
    found = sorted(c.name for c in store._client.list_collections())
    store.close()
    return found


def wanted(backend: LocalBackend) -> dict[str, set[str]]:
    """Ids of what the catalog has."""
    return {tier: backend.index().catalog.records(tier) for tier in TIERS}


@pytest.fixture
def one(tmp_path: Path, server: Server) -> Iterator[LocalBackend]:
    """A machine that has synced."""
    backend = LocalBackend(settings(tmp_path, server.url), FakeEmbedder())
    assert backend.sync().status == "ok"
    yield backend
    backend.close()


@pytest.mark.parametrize(
    "url",
    ["", "chroma.example:8000", "ftp://127.0.0.1", "http://", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://127.0.0.1:x",
     "http://me:secret@127.0.0.1", "http://127.0.0.1/?collection=x", "http://127.0.0.1/#x", "http://[::1"],
)  # fmt: skip
def test_an_address_that_makes_no_sense_is_refused(url: str) -> None:
    """It is a setting to correct, not a server to wait for."""
    with pytest.raises(InvalidSettingError, match=r"chroma_url.*is no address such as http://chroma.example:8000"):
        open_server(url)


def test_a_database_may_be_named(server: Server) -> None:
    """One that is not there is said to be so; the one there is works, with a slash behind the address too."""
    with pytest.raises(StoreUnreachableError, match=r"(?i)nowhere|database"):
        open_server(f"{server.url}/?database=nowhere")
    store = open_server(f"{server.url}/?tenant=default_tenant&database=default_database")
    assert store.count("active") == 0
    store.close()


def test_nobody_there() -> None:
    """A port on which nobody listens, or one that never answers, is told in a sentence with what to do."""
    with pytest.raises(StoreUnreachableError, match=r"cannot be reached \(.*refused\): start it, or correct chroma_url\.$"):
        open_server(f"http://127.0.0.1:{free_port()}")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(StoreUnreachableError, match=r"timed out"):
            open_server(f"http://127.0.0.1:{silent.getsockname()[1]}")


class Nonsense(http.server.BaseHTTPRequestHandler):
    """Answers everything with a page."""

    def do_GET(self) -> None:
        """A page."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Says nothing."""


def test_some_other_server() -> None:
    """A web server that is no Chroma counts as unreachable."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nonsense) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            with pytest.raises(StoreUnreachableError):
                open_server(f"http://127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
            thread.join()


def test_records_of_others_stay(one: LocalBackend, server: Server) -> None:
    """What the catalog does not know is neither deleted nor shown, and does not take the place of an answer."""
    store = open_server(server.url)
    store.upsert("active", [stranger("other/x#0"), *(Record(f"other/{n}#0", _UNIT[n % 64], _METADATA, "theirs") for n in range(300))])
    store.close()
    (pool,) = one.settings.all_pools()
    pool.active.write_bytes(HEADER + log(TIDE, delve("Salt", "2026-05-01")))
    assert (one.sync().removed, one.sync().status) == (1, "ok")
    assert stored(server.url)["active"] - wanted(one)["active"] == {"other/x#0", *(f"other/{n}#0" for n in range(300))}
    assert wanted(one)["active"] < stored(server.url)["active"]
    assert ask(one, "tide tables").hits[0].title == "Tide tables and cron jitter"
    assert len(ask(one).hits) == 3


def test_two_machines_share(one: LocalBackend, server: Server, tmp_path: Path) -> None:
    """A second machine with the same memory finds all; what one drops too early the other's next sync puts back or drops as well."""
    two = LocalBackend(settings(tmp_path, server.url, "two"), FakeEmbedder())
    assert two.sync().status == "ok"
    (pool,) = one.settings.all_pools()
    with pool.active.open("ab") as file:
        file.write(b"\n" + delve("Salt", "2026-05-01"))
    one.sync()
    assert two.has_changed()
    two.sync()
    assert [b.recall(RecallRequest(query="salt")).hits[0].title for b in (one, two)] == ["Salt", "Salt"]
    pool.active.write_bytes(HEADER + log(TIDE))
    one.sync()
    assert ask(two).degraded is None  # it still knows KILN, whose record is gone
    two.sync()
    assert stored(server.url) == wanted(one) == wanted(two)
    two.close()


def test_what_is_missing_on_the_server_comes_back(one: LocalBackend, server: Server) -> None:
    """Fewer records than after the last sync are noticed by the next, and put again without an embedding."""
    before = stored(server.url)
    store = open_server(server.url)
    store.delete("active", sorted(before["active"])[:1])
    store.close()
    assert one.sync().embedded == 0
    assert stored(server.url) == before


def test_a_rebuild_exchanges_the_collections(one: LocalBackend, server: Server, tmp_path: Path) -> None:
    """While it runs all answer in full; then the old collections are gone, and another machine follows by itself."""
    two = LocalBackend(settings(tmp_path, server.url, "two"), FakeEmbedder())
    two.sync()
    store = open_server(server.url)
    store._client.create_collection("sparks-active-gdeadbeef", embedding_function=None)
    marks = {tier: store.mark(tier) for tier in TIERS}
    store.close()
    during: list[RecallResult] = []
    result = one.sync(rebuild=True, progress=lambda _done, _all: during.extend((ask(one), ask(two))))
    assert (result.status, result.embedded, result.rebuild) == ("ok", 0, "it was asked for")
    assert {(a.degraded, len(a.hits)) for a in during} == {(None, 3)}
    assert collections(server.url) == sorted(COLLECTIONS.values())
    store = open_server(server.url)
    assert all(store.mark(tier) != marks[tier] for tier in TIERS)
    store.close()
    assert [(a.degraded, len(a.hits)) for a in (ask(one), ask(two))] == [(None, 3)] * 2
    assert (two.sync().status, stored(server.url)) == ("ok", wanted(two))
    two.close()


def test_another_model_of_ours_exchanges_the_collections(one: LocalBackend, server: Server, tmp_path: Path) -> None:
    """The only machine's new model takes over; a second machine with that model shares what the first has built."""
    one.close()
    new = LocalBackend(one.settings, FakeEmbedder(fingerprint="fake:2"))
    assert ask(new).mode == "lexical"
    result = new.sync()
    assert (result.status, result.rebuild, ask(new).degraded) == ("ok", "the index was made with another model", None)
    assert collections(server.url) == sorted(COLLECTIONS.values())
    two = LocalBackend(settings(tmp_path, server.url, "two"), FakeEmbedder(fingerprint="fake:2"))
    assert (two.sync().status, ask(two).degraded) == ("ok", None)
    new.close()
    two.close()


def test_somebody_else_s_model_is_left_alone(one: LocalBackend, server: Server, tmp_path: Path) -> None:
    """A machine with another model answers by words with advice and harms nothing; a rebuild that is asked for takes over."""
    before = stored(server.url)
    two = LocalBackend(settings(tmp_path, server.url, "two"), FakeEmbedder(fingerprint="fake:2"))
    for _ in range(2):
        result = two.sync()
        assert (result.status, result.entries.active) == ("degraded", 2)
        assert result.degraded is not None
        assert "holds vectors of fake:1" in result.degraded
        assert "take its collections over with `coldspark index --rebuild`" in result.degraded
        assert (ask(two).mode, len(ask(two).hits), ask(one).degraded) == ("lexical", 3, None)
    assert stored(server.url) == before
    assert (two.sync(rebuild=True).status, ask(two).mode, ask(two).degraded) == ("ok", "hybrid", None)
    found = ask(one)
    assert (found.mode, len(found.hits)) == ("lexical", 3)
    assert one.sync().status == "degraded"
    assert ask(two).degraded is None
    two.close()


def test_collections_of_another_space_are_exchanged(server: Server, tmp_path: Path) -> None:
    """Ones that somebody made with Chroma's default space are replaced by ones that compare by cosine."""
    store = open_server(server.url)
    for name in COLLECTIONS.values():
        store._client.delete_collection(name)
        store._client.create_collection(name, embedding_function=None)
    store.close()
    backend = LocalBackend(settings(tmp_path, server.url), FakeEmbedder())
    result = backend.sync()
    assert (result.status, ask(backend).degraded) == ("ok", None)
    assert result.rebuild is not None
    assert "does not compare by cosine" in result.rebuild
    backend.close()


def test_a_collection_from_before_is_taken_for_ours(server: Server, tmp_path: Path) -> None:
    """Collections that do not say what they were made with are adopted and say so from then on."""
    old = open_server(server.url)
    old.upsert("active", [stranger("default/x#0")])
    old.close()
    backend = LocalBackend(settings(tmp_path, server.url), FakeEmbedder())
    assert backend.sync().status == "ok"
    backend.close()
    with pytest.raises(ForeignStoreError):
        open_server(server.url, "another")


def test_a_server_that_comes_and_goes(tmp_path: Path) -> None:
    """Down at the start, killed, emptied, or both: words meanwhile, the reason in one sentence, and all whole again behind it."""
    server = Server(tmp_path)
    backend = LocalBackend(settings(tmp_path, server.url), FakeEmbedder())
    try:
        for round_ in ("down at the start", "killed", "emptied"):
            result = backend.sync()
            down = round_ != "emptied"
            assert (result.status, result.entries.active) == ("degraded" if down else "ok", 2), round_
            found = ask(backend)
            assert (found.mode, len(found.hits)) == (("lexical" if down else "hybrid"), 3), round_
            assert backend.has_changed() is down
            if down:
                assert f"The Chroma server at {server.url} cannot be reached" in str(found.degraded)
                server.start()
            assert backend.sync().status == "ok"
            assert (ask(backend).degraded, backend.has_changed()) == (None, False)
            assert stored(server.url) == wanted(backend)
            if round_ == "down at the start":
                server.kill()
                found = ask(backend)  # the first to notice
                assert (found.mode, len(found.hits)) == ("lexical", 3)
            elif round_ == "killed":
                server.lose_all()
        server.lose_all()
        assert (ask(backend).mode, backend.has_changed()) == ("lexical", True)
        assert (backend.sync().status, ask(backend).degraded, stored(server.url)) == ("ok", None, wanted(backend))
    finally:
        server.kill()
        backend.close()


def test_a_rebuild_over_a_server_that_is_down_keeps_the_index(tmp_path: Path) -> None:
    """Nothing is exchanged, nothing is left over, and the old index answers."""
    lone = Server(tmp_path)
    lone.start()
    backend = LocalBackend(settings(tmp_path, lone.url, "three"), FakeEmbedder())
    try:
        backend.sync()
        lone.kill()
        result = backend.sync(rebuild=True)
        assert (result.status, result.rebuild) == ("degraded", "it was asked for")
        assert len([p for p in (tmp_path / "three" / "index").iterdir() if p.is_dir()]) == 1
        assert len(ask(backend).hits) == 3
    finally:
        lone.kill()
        backend.close()


def test_closing_ends_the_connections_of_a_refused_store(one: LocalBackend, server: Server) -> None:
    """A store that turns out to be somebody else's holds no connection open, which a warning would tell."""
    with pytest.raises(ForeignStoreError) as raised:
        open_server(server.url, "another")
    assert (raised.value.theirs, isinstance(one.index().store, ServerStore)) == ("fake:1, passage rules 2", True)
