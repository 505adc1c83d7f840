"""The life behind the routes: ready only when questions are answered in full, fresh by itself, alive whatever happens."""

from __future__ import annotations

import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

from models.errors import ModelMissingError
from tests.fakes import FakeEmbedder
from tests.samples import HEADER, KILN, TIDE, ledger, log
from tests.service_support import PROBLEM, client_over, ready, settings_for, until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from indexer.embedder import Vectors


class Gate(FakeEmbedder):
    """Waits at chosen doors until it is let through."""

    def __init__(self, *doors: str) -> None:
        super().__init__()
        self.doors = set(doors)
        self.open = threading.Event()
        self.waiting = threading.Semaphore(0)

    def _pass(self, door: str) -> None:
        if door in self.doors:
            self.waiting.release()
            assert self.open.wait(30)

    def load(self) -> None:
        """Waits at `load`."""
        self._pass("load")

    def embed_query(self, text: str) -> Vectors:
        """Waits at `query`."""
        self._pass("query")
        return super().embed_query(text)


class Missing(FakeEmbedder):
    """A model that is not there."""

    def load(self) -> None:
        """Never succeeds."""
        raise ModelMissingError("nowhere", "there is no such folder")


def recall(client: TestClient, query: str, **more: Any) -> dict[str, Any]:
    """A recall that must succeed."""
    answer = client.post("/v1/recall", json={"query": query, **more})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_not_ready_while_the_model_loads(tmp_path: Path) -> None:
    """Readiness is 503 with the reason until model and first sync are done, then 200; health is 200 all along."""
    gate = Gate("load")
    with client_over(settings_for(tmp_path, log(KILN)), gate) as client:
        assert gate.waiting.acquire(timeout=10)
        answer = client.get("/readyz")
        assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM)
        assert answer.json()["detail"] == "the embedding model is still loading"
        assert client.get("/healthz").status_code == 200
        gate.open.set()
        until(lambda: client.get("/readyz").status_code == 200)
        found = client.get("/readyz").json()
        assert (found["status"], found["stale"], found["entries"]) == ("ready", None, {"active": 1, "archive": 0})
        assert found["synced_at"] == "2026-05-20T12:00:00+00:00"


def test_recall_before_anything_is_indexed_says_what_to_run(tmp_path: Path) -> None:
    """Without an index there is no answer, but the command that makes one."""
    gate = Gate("load")
    settings = settings_for(tmp_path, log(KILN))
    with client_over(settings, gate) as client:
        assert gate.waiting.acquire(timeout=10)
        answer = client.post("/v1/recall", json={"query": "kiln"})
        assert (answer.status_code, answer.headers["content-type"]) == (503, PROBLEM)
        assert answer.json()["detail"] == f"There is no index at {settings.state_dir / 'index'}: run `coldspark index`."
        gate.open.set()


def test_words_answer_while_the_model_loads(tmp_path: Path) -> None:
    """Over an index from before, recall goes by words alone meanwhile, and says so."""
    settings = settings_for(tmp_path, log(KILN, TIDE))
    with ready(settings):
        pass
    gate = Gate("load")
    with client_over(settings, gate) as client:
        assert gate.waiting.acquire(timeout=10)
        found = recall(client, "harbour tide tables")
        assert (found["mode"], found["degraded"]) == ("lexical", "the embedding model is still loading")
        assert found["hits"][0]["title"] == "Tide tables and cron jitter"
        assert recall(client, "tide", mode="lexical")["degraded"] is None
        gate.open.set()
        until(lambda: client.get("/readyz").status_code == 200)
        assert recall(client, "tide")["mode"] == "hybrid"


@pytest.mark.parametrize("active", [b"", HEADER, b"\x00\xff\r" * 1_000], ids=["empty", "prose", "noise"])
def test_ready_over_an_empty_index(tmp_path: Path, active: bytes) -> None:
    """A file without entries is served: ready, and no hits."""
    with ready(settings_for(tmp_path, active)) as client:
        assert recall(client, "kiln")["hits"] == []
        assert client.get("/v1/status").json()["index"]["entries"] == {"active": 0, "archive": 0}


def test_missing_model_is_told(tmp_path: Path) -> None:
    """Without the model the service is alive, not ready, and says what to install."""
    with client_over(settings_for(tmp_path, log(KILN)), Missing()) as client:
        until(lambda: "nowhere" in client.get("/readyz").json()["detail"])
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        semantic = client.post("/v1/recall", json={"query": "kiln", "mode": "semantic"})
        assert (semantic.status_code, semantic.headers["content-type"]) == (503, PROBLEM)


def test_missing_memory_folder_is_told_and_mended(tmp_path: Path) -> None:
    """A memory folder that comes later is served as soon as it is there."""
    settings = settings_for(tmp_path, log(KILN))
    memory = settings.all_pools()[0].memory_dir
    memory.rename(tmp_path / "away")
    with client_over(settings) as client:
        until(lambda: f"The memory folder {memory} does not exist" in client.get("/readyz").json()["detail"])
        assert client.get("/v1/status").status_code == 503
        (tmp_path / "away").rename(memory)
        until(lambda: client.get("/readyz").status_code == 200)
        assert len(recall(client, "kiln")["hits"]) == 1


def test_health_answers_while_recalls_are_slow(tmp_path: Path) -> None:
    """Ten recalls wait for the model at once; health and readiness answer before any of them is done."""
    gate = Gate()
    with ready(settings_for(tmp_path, log(KILN)), gate) as client, ThreadPoolExecutor(10) as threads:
        gate.doors.add("query")
        slow = [threads.submit(recall, client, f"kiln {'word ' * 200}{n}") for n in range(10)]
        try:
            assert gate.waiting.acquire(timeout=10)  # the others wait for their turn
            until(lambda: sum(future.running() for future in slow) == 10)
            assert client.get("/healthz").status_code == 200
            assert client.get("/readyz").status_code == 200
            assert not any(future.done() for future in slow)
        finally:
            gate.open.set()
        assert [len(future.result(30)["hits"]) for future in slow] == [1] * 10


def test_appended_entry_is_served_without_a_command(tmp_path: Path) -> None:
    """The service sees a changed file by itself."""
    settings = settings_for(tmp_path, log(KILN))
    with ready(settings) as client, settings.all_pools()[0].active.open("ab") as file:
        file.write(b"\n" + ledger("park -- later"))
        file.flush()
        until(lambda: len(recall(client, "ledger")["hits"]) == 2)
        assert recall(client, "two writers fork a ledger")["stale"] is None


def test_change_of_same_size_and_time_is_served(tmp_path: Path) -> None:
    """An edit that keeps size and modification time is found by the next sync."""
    settings = settings_for(tmp_path, log(KILN))
    active = settings.all_pools()[0].active
    with ready(settings) as client:
        before = active.stat()
        active.write_bytes(active.read_bytes().replace(b"cracks", b"breaks"))
        os.utime(active, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert client.post("/v1/sync", json={}).json()["added"] == 1
        assert "breaks" in recall(client, "kiln")["hits"][0]["text"]


def test_unreadable_file_is_stale_not_gone(tmp_path: Path) -> None:
    """When the active file vanishes, its entries still answer, and every answer says that they may be old."""
    settings = settings_for(tmp_path, log(KILN, TIDE))
    active = settings.all_pools()[0].active
    with ready(settings) as client:
        active.rename(tmp_path / "away.md")
        until(lambda: recall(client, "kiln")["stale"] is not None)
        assert len(recall(client, "kiln")["hits"]) == 2
        (tmp_path / "away.md").rename(active)
        until(lambda: recall(client, "kiln")["stale"] is None)


def test_deleted_index_is_made_anew(tmp_path: Path) -> None:
    """The index is derived: deleted under the running service, it is there again, embedded passages reused, after the next change."""
    settings = settings_for(tmp_path, log(KILN, TIDE))
    embedder = FakeEmbedder()
    with ready(settings, embedder) as client:
        before = len(embedder.embedded)
        shutil.rmtree(settings.state_dir / "index")
        with settings.all_pools()[0].active.open("ab") as file:
            file.write(b"\n" + ledger("park -- later"))
        until(lambda: client.get("/v1/status").json()["index"]["entries"]["active"] == 3, 10)
        assert recall(client, "two writers fork a ledger")["hits"][0]["title"] == "Ledger forks"
        assert len(embedder.embedded) == before + 1


def test_syncing_outlives_an_unforeseen_failure(tmp_path: Path) -> None:
    """A sync that fails in a way nobody foresaw is told, and tried again at the next look."""

    class Once(FakeEmbedder):
        failed = False

        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            if not self.failed:
                self.failed = True
                raise OSError(5, "Input/output error")
            return super().embed_passages(texts)

    with client_over(settings_for(tmp_path, log(KILN)), Once()) as client:
        until(lambda: client.get("/readyz").status_code == 200, 10)
        assert len(recall(client, "kiln")["hits"]) == 1
