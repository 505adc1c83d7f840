"""One contract for every vector store: in memory, Chroma embedded in a folder, and Chroma on a server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import httpx
import numpy as np
import pytest

from indexer.chroma import COLLECTIONS, ChromaStore, Metadata, Record, VectorStore, open_embedded
from indexer.chroma_server import open_server
from models.pool import TIERS
from tests.chroma_servers import running
from tests.fakes import MemoryStore

if TYPE_CHECKING:
    from indexer.embedder import Vectors

_WIDTH = 8
_METADATA: Metadata = {"pool": "p", "tier": "active", "entry": "e", "kind": "", "tags": [""], "verdict": "", "signal": "", "date": 0}


def unit(*coordinates: float) -> Vectors:
    """A vector of unit length along the given coordinates."""
    vector = np.zeros(_WIDTH, np.float32)
    vector[: len(coordinates)] = coordinates
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def record(name: str, vector: Vectors, document: str = "text", metadata: Metadata = _METADATA) -> Record:
    """A record with every metadata key."""
    return Record(name, vector, metadata, document)


def many(count: int) -> list[Record]:
    """Records with random vectors, named p/0#0, p/1#0 …."""
    vectors = np.random.default_rng(7).normal(size=(count, _WIDTH)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    return [record(f"p/{n}#0", vector) for n, vector in enumerate(vectors)]


def rounded(found: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """A query's answer with cosines to four places."""
    return [(name, round(cosine, 4) + 0.0) for name, cosine in found]


class StoreContract:
    """What the indexer counts on, whatever the store."""

    batch: ClassVar[int] = 6_000

    @pytest.fixture
    def store(self) -> Iterator[VectorStore]:
        """The store under test, empty."""
        raise NotImplementedError

    def test_takes_more_than_one_batch(self, store: VectorStore) -> None:
        """Records over the engine's batch limit are all there, are all named, are all found, and all go again."""
        records = many(self.batch)
        store.upsert("active", records)
        names = {r.id for r in records}
        assert store.count("active") == self.batch
        assert store.ids("active") == names
        assert {name for name, _ in store.query("active", records[5].vector, self.batch * 2)} == names
        store.delete("active", sorted(names - {"p/5#0"}))
        assert rounded(store.query("active", records[5].vector, 10)) == [("p/5#0", 1.0)]

    def test_scores_are_cosines_nearest_first(self, store: VectorStore) -> None:
        """A query's scores are the cosines, from 1 down to -1, the nearest first."""
        vectors = {"same": unit(1), "near": unit(3, 4), "square": unit(0, 1), "away": unit(-1)}
        store.upsert("active", [record(name, vector) for name, vector in vectors.items()])
        assert rounded(store.query("active", unit(1), 4)) == [("same", 1.0), ("near", 0.6), ("square", 0.0), ("away", -1.0)]
        assert [name for name, _ in store.query("active", unit(1), 2)] == ["same", "near"]

    def test_tiers_are_apart(self, store: VectorStore) -> None:
        """The same id may stand in both tiers, and neither sees the other."""
        store.upsert("active", [record("p/a#0", unit(1))])
        store.upsert("archive", [record("p/a#0", unit(0, 1)), record("p/b#0", unit(1))])
        store.delete("active", ["p/b#0", "p/a#0"])
        assert [store.ids(tier) for tier in TIERS] == [set(), {"p/a#0", "p/b#0"}]
        assert store.query("active", unit(1), 5) == []

    def test_an_empty_tier_answers_with_nothing(self, store: VectorStore) -> None:
        """Counting, naming, asking and deleting in an empty tier, or with nothing, is no error."""
        store.upsert("archive", [])
        store.delete("archive", [])
        store.delete("archive", ["p/unknown#0"])
        assert store.count("archive") == 0
        assert store.ids("archive") == set()
        assert store.query("archive", unit(1), 10) == []

    def test_upsert_replaces(self, store: VectorStore) -> None:
        """A record of a known id replaces the old one."""
        store.upsert("active", [record("p/a#0", unit(1)), record("p/b#0", unit(0, 1))])
        store.upsert("active", [record("p/a#0", unit(0, 0, 1), "new text")])
        assert store.count("active") == 2
        assert [name for name, _ in store.query("active", unit(0, 0, 1), 1)] == ["p/a#0"]

    def test_query_among_ids(self, store: VectorStore) -> None:
        """Only the named records answer, however near the others are, and no more of them than asked for."""
        store.upsert("active", [record("p/a#0", unit(1)), record("p/b#0", unit(3, 4)), record("p/c#0", unit(0, 1))])
        assert [name for name, _ in store.query("active", unit(1), 10, ["p/c#0", "p/b#0"])] == ["p/b#0", "p/c#0"]
        assert [name for name, _ in store.query("active", unit(1), 1, ["p/c#0", "p/b#0"])] == ["p/b#0"]
        assert store.query("active", unit(1), 10, []) == []

    def test_query_among_many_ids(self, store: VectorStore) -> None:
        """Thousands of ids may be named."""
        records = many(3_000)
        store.upsert("active", records)
        found = store.query("active", records[2_000].vector, 4_000, [r.id for r in records[1_500:]])
        assert found[0][0] == "p/2000#0"
        assert {name for name, _ in found} <= {r.id for r in records[1_500:]}
        assert len(found) > 1_400  # HNSW is approximate: at this depth a server misses a few

    def test_ids_that_are_not_there_are_passed_over(self, store: VectorStore) -> None:
        """A query that names records which have just gone answers with the others."""
        store.upsert("active", [record("p/a#0", unit(1))])
        assert [name for name, _ in store.query("active", unit(1), 10, ["p/gone#0", "p/a#0"])] == ["p/a#0"]
        assert store.query("active", unit(1), 10, ["p/gone#0"]) == []

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_below_one_gives_nothing(self, store: VectorStore, limit: int) -> None:
        """No hits wanted, no hits given."""
        store.upsert("active", [record("p/a#0", unit(1))])
        assert store.query("active", unit(1), limit) == []

    def test_odd_text_is_taken(self, store: VectorStore) -> None:
        """Ids, documents and metadata may hold any character that UTF-8 has, and metadata may be empty words."""
        odd: Metadata = {**_METADATA, "kind": "\x00\u2028🦊", "tags": ["深夜", "e\u0301", ""], "pool": "a/b#c"}
        store.upsert("active", [record("a/b#c/深#0", unit(1), "\x00\ufffd\u2028 'quote' 🦊", odd), record("p/e#0", unit(0, 1), "")])
        assert store.ids("active") == {"a/b#c/深#0", "p/e#0"}
        assert store.query("active", unit(1), 1)[0][0] == "a/b#c/深#0"


class TestMemoryStore(StoreContract):
    """The stand-in keeps the contract that it stands in for."""

    @pytest.fixture
    def store(self) -> VectorStore:
        """A dictionary."""
        return MemoryStore()


class ChromaContract(StoreContract):
    """What Chroma's stores have besides."""

    def test_the_space_is_cosine(self, store: VectorStore) -> None:
        """Both collections say so themselves."""
        assert isinstance(store, ChromaStore)
        spaces = [store._client.get_collection(name).configuration_json["hnsw"]["space"] for name in COLLECTIONS.values()]
        assert spaces == ["cosine", "cosine"]

    def test_metadata_is_stored_with_every_key(self, store: VectorStore) -> None:
        """What filters need stands beside each vector, the text too; a second upsert leaves no value of the first."""
        assert isinstance(store, ChromaStore)
        first: Metadata = {**_METADATA, "tags": ["delve", "expired"], "verdict": "park", "signal": "faint", "date": 20260504}
        store.upsert("active", [record("p/a#0", unit(1), "old", first)])
        store.upsert("active", [record("p/a#0", unit(1), "new", _METADATA)])
        found = store._client.get_collection(COLLECTIONS["active"]).get(ids=["p/a#0"])
        assert found["metadatas"] == [_METADATA]
        assert found["documents"] == ["new"]


class TestChromaEmbedded(ChromaContract):
    """Chroma's own engine over a temporary folder."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[VectorStore]:
        """A new folder."""
        opened = open_embedded(tmp_path / "chroma")
        yield opened
        opened.close()

    def test_records_outlive_the_process_that_wrote_them(self, tmp_path: Path) -> None:
        """A store opened again has what was put in."""
        folder = tmp_path / "kept"
        first = open_embedded(folder)
        first.upsert("archive", many(10))
        first.close()
        again = open_embedded(folder)
        assert len(again.ids("archive")) == 10
        assert again.query("archive", many(10)[3].vector, 1)[0][0] == "p/3#0"
        again.close()

    def test_a_collection_of_another_space_is_not_taken_for_cosine(self, tmp_path: Path) -> None:
        """Collections that something else made with Chroma's default space give cosines all the same."""
        import chromadb
        from chromadb.config import Settings

        folder = tmp_path / "foreign"
        client = chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
        for name in COLLECTIONS.values():
            client.create_collection(name, embedding_function=None)
        client.close()  # type: ignore[attr-defined]
        store = open_embedded(folder)
        store.upsert("active", [record("p/a#0", unit(1)), record("p/b#0", unit(-1))])
        assert rounded(store.query("active", unit(1), 2)) == [("p/a#0", 1.0), ("p/b#0", -1.0)]
        store.close()


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Chroma server of our own on loopback."""
    with running(tmp_path_factory.mktemp("chroma-server")) as server:
        yield server.url


def sessions_of(store: ChromaStore) -> list[httpx.Client]:
    """The store's connections to its server: Chroma's client and its administrator each have their own."""
    client: Any = store._client
    return [client._server._session, client._admin_client._server._session]


def hang_up(store: ChromaStore) -> None:
    """Closes a store and, whatever Chroma's client leaves open, its connections."""
    store.close()
    for session in sessions_of(store):
        session.close()


class TestChromaServer(ChromaContract):
    """A real server."""

    batch: ClassVar[int] = 2_500

    @pytest.fixture
    def store(self, chroma_server: str) -> Iterator[VectorStore]:
        """The server's collections, emptied."""
        opened = open_server(chroma_server)
        for tier in TIERS:
            opened.delete(tier, sorted(opened.ids(tier)))
        yield opened
        hang_up(opened)

    def test_another_client_sees_the_records(self, store: VectorStore, chroma_server: str) -> None:
        """What one client put in, the next one finds."""
        store.upsert("active", [record("p/a#0", unit(1))])
        other = open_server(chroma_server + "/")
        assert other.query("active", unit(1), 1)[0][0] == "p/a#0"
        hang_up(other)

    def test_closing_ends_the_connections(self, chroma_server: str) -> None:
        """A closed store holds no connection to the server open."""
        store = open_server(chroma_server)
        store.close()
        closed = [session.is_closed for session in sessions_of(store)]
        hang_up(store)
        assert closed == [True, True]
