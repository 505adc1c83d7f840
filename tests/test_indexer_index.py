"""The index folder: generations, what makes a new one begin, and damage that costs nothing."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from indexer.generations import current_generation
from indexer.index import IndexFolder
from indexer.opened import Index
from models.errors import IndexMissingError
from models.pool import TIERS, Pool
from models.query import RecallRequest
from models.snapshot import PoolSnapshot, read_pool
from tests.fakes import FakeEmbedder
from tests.indexer_bench import write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.test_indexer_chroma import chroma_server  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from indexer.embedder import Vectors


class NarrowEmbedder(FakeEmbedder):
    """Another model: fewer dimensions."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """The first half of each embedding."""
        half = super().embed_passages(texts)[:, :32]
        return np.ascontiguousarray(half / np.linalg.norm(half, axis=1, keepdims=True))

    def embed_query(self, text: str) -> Vectors:
        """The first half."""
        half = super().embed_query(text)[:32]
        return np.ascontiguousarray(half / np.linalg.norm(half))


@pytest.fixture
def snapshots(pool: Pool) -> list[PoolSnapshot]:
    """KILN and TIDE active, a ledger in the archive."""
    write_tiers(pool, HEADER + log(KILN, TIDE), ledger("release -- stale"))
    return [read_pool(pool)]


def built(state: Path, embedder: FakeEmbedder, snapshots: list[PoolSnapshot]) -> IndexFolder:
    """An index, synced and closed."""
    folder = IndexFolder(state, embedder)
    index = folder.open(create=True)
    index.sync(snapshots)
    close(folder, index)
    return IndexFolder(state, embedder)


def close(folder: IndexFolder, index: Index) -> None:
    """Closes everything."""
    index.close()
    folder.vectors.close()


def titles(index: Index, query: str) -> list[str]:
    """Titles of the hits."""
    return [h.title for h in index.search.recall(RecallRequest(query=query)).hits]


def generations(state: Path) -> list[str]:
    """Folders in the index folder."""
    return sorted(p.name for p in (state / "index").iterdir() if p.is_dir())


def test_an_index_is_opened_again(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """A second open finds the same generation, complete, and embeds nothing."""
    embedder = FakeEmbedder()
    folder = built(tmp_path / "state", embedder, snapshots)
    before = current_generation(folder.state_dir)
    index = folder.open(create=False)
    assert (index.folder, index.matches(snapshots)) == (before, True)
    assert index.sync(snapshots).embedded == 0
    assert titles(index, "kiln cooling")[0] == "Kiln cooling and staged eviction"
    assert index.store.ids("active") == index.catalog.records("active")
    close(folder, index)


def test_the_state_folder_is_private(tmp_path: Path) -> None:
    """Only the owner may look into the folders that hold copies of the sparks."""
    folder = IndexFolder(tmp_path / "state", FakeEmbedder())
    index = folder.open(create=True)
    assert [p.stat().st_mode & 0o777 for p in (tmp_path / "state", folder.folder, index.folder)] == [0o700] * 3
    close(folder, index)


def test_without_an_index_the_error_names_the_command(tmp_path: Path) -> None:
    """Opening what is not there, and not to be made, says what to run."""
    state = tmp_path / "state"
    folder = IndexFolder(state, FakeEmbedder())
    message = f"There is no index at {state / 'index'}: run `coldspark index`."
    with pytest.raises(IndexMissingError) as raised:
        folder.open(create=False)
    assert str(raised.value) == message


@pytest.mark.parametrize("change", ["model", "passage_rules", "format"])
def test_another_model_or_format_begins_a_new_generation(tmp_path: Path, snapshots: list[PoolSnapshot], change: str) -> None:
    """What other weights, rules or tables made is not used; the new generation is whole, and only the old vectors that fit are."""
    state, embedder = tmp_path / "state", FakeEmbedder()
    folder = built(state, embedder, snapshots)
    old = current_generation(folder.state_dir)
    assert old is not None
    if change == "model":
        embedder = NarrowEmbedder(fingerprint="narrow:1")
        folder = IndexFolder(state, embedder)
    else:
        aged = folder.open(create=False)
        aged.catalog.set_meta(change, "0")
        close(folder, aged)
        folder = IndexFolder(state, embedder)
    embedder.embedded.clear()
    outdated = folder.open(create=True)
    assert outdated.outdated is not None
    index, result = folder.sync(outdated, snapshots)
    outdated.close()
    assert index.folder != old
    assert generations(state) == [index.folder.name]
    assert (result.added, result.embedded) == (3, result.passages if change == "model" else 0)
    assert len(embedder.embedded) == result.embedded
    assert {tier: index.store.ids(tier) for tier in TIERS} == {tier: index.catalog.records(tier) for tier in TIERS}
    assert titles(index, "kiln cooling")[0] == "Kiln cooling and staged eviction"
    close(folder, index)


def test_opening_to_read_keeps_the_old_index_of_another_model(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """A mere question under another model does not throw the live index away: it is there until its successor is built."""
    state = tmp_path / "state"
    old = current_generation(built(state, FakeEmbedder(), snapshots).state_dir)
    assert old is not None
    folder = IndexFolder(state, NarrowEmbedder(fingerprint="narrow:1"))
    index = folder.open(create=False)
    close(folder, index)
    assert (old / "catalog.sqlite3").exists()


def test_a_rebuild_stands_beside_the_live_index_until_the_switch(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """The old generation answers until it is closed, behind the switch too, and then its files go; nothing was embedded."""
    folder = built(tmp_path / "state", FakeEmbedder(), snapshots)
    live = folder.open(create=False)
    new, result = folder.sync(live, snapshots, rebuild=True)
    assert (result.embedded, result.rebuild) == (0, "it was asked for")
    assert current_generation(folder.state_dir) == new.folder != live.folder
    assert [len(titles(index, "kiln")) for index in (live, new)] == [3, 3]
    live.close()
    assert generations(folder.state_dir) == [new.folder.name]
    close(folder, new)


def test_a_rebuild_that_died_is_cleared_away(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """A generation that never came into use is never read, and dropped when the index is opened next."""
    state = tmp_path / "state"
    folder = built(state, FakeEmbedder(), snapshots)
    kept = current_generation(folder.state_dir)
    folder.begin().close()
    folder.close_vectors()
    assert (current_generation(folder.state_dir), len(generations(state))) == (kept, 2)
    index = folder.open(create=False)
    assert [state / "index" / name for name in generations(state)] == [kept]
    close(folder, index)


@pytest.mark.parametrize(
    "garbage",
    [b"", b"\n", b"../..", b"../index", b"/", b".", b"\xff\xfe", b"\x00", b"gone", b"a\nb", b"g" * 5_000],
    ids=["empty", "newline", "parents", "sideways", "root", "dot", "not ascii", "nul", "gone", "two lines", "long"],
)
def test_a_garbled_pointer_costs_a_rebuild_and_no_embedding(tmp_path: Path, snapshots: list[PoolSnapshot], garbage: bytes) -> None:
    """Whatever `current` holds, nothing outside the index folder is opened, and the next sync builds all from the cache."""
    state, embedder = tmp_path / "state", FakeEmbedder()
    built(state, embedder, snapshots)
    (state / "index" / "current").write_bytes(garbage)
    assert current_generation(state) is None
    folder = IndexFolder(state, embedder)
    with pytest.raises(IndexMissingError):
        folder.open(create=False)
    index = folder.open(create=True)
    result = index.sync(snapshots)
    assert (result.added, result.embedded, generations(state)) == (3, 0, [index.folder.name])
    close(folder, index)


@pytest.mark.parametrize("name", ["index/{}/catalog.sqlite3", "vectors.sqlite3"], ids=["catalog", "vector cache"])
@pytest.mark.parametrize("damage", ["garbage", "missing", "empty", "cut short"])
def test_damage_to_a_database_costs_a_rebuild_at_most(tmp_path: Path, snapshots: list[PoolSnapshot], name: str, damage: str) -> None:
    """A catalog or vector cache that is garbled, cut short or gone is made anew, and answers are whole."""
    state = tmp_path / "state"
    current = current_generation(built(state, FakeEmbedder(), snapshots).state_dir)
    assert current is not None
    path = state / name.format(current.name)
    for beside in path.parent.glob(path.name + "-*"):
        beside.unlink()
    data = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"garbage": b"no database at all " * 500, "empty": b"", "cut short": data[: len(data) // 2]}[damage])
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=True)
    result = index.sync(snapshots)
    assert (result.entries.active, result.entries.archive) == (2, 1)
    assert len(titles(index, "kiln cooling")) == 3
    close(folder, index)


def test_on_a_server_another_model_leaves_no_record_of_the_old_one(
    tmp_path: Path,
    pool: Pool,
    chroma_server: str,  # noqa: F811 - the fixture
) -> None:
    """With the collections on a server too, a rebuild under another model ends with its own records and no others."""
    write_tiers(pool, log(KILN, TIDE, delve("Salt", "2026-05-01")), b"")
    first = IndexFolder(tmp_path / "state", FakeEmbedder(), chroma_server)
    index = first.open(create=True)
    for tier in TIERS:
        index.store.delete(tier, sorted(index.store.ids(tier)))
    index.sync([read_pool(pool)])
    close(first, index)
    write_tiers(pool, log(KILN, TIDE))
    second = IndexFolder(tmp_path / "state", FakeEmbedder(fingerprint="fake:2"), chroma_server)
    index = second.open(create=True)
    try:
        index.sync([read_pool(pool)])
        assert index.store.ids("active") == index.catalog.records("active")
    finally:
        close(second, index)


def test_on_a_server_a_model_of_another_width_is_taken(tmp_path: Path, snapshots: list[PoolSnapshot], chroma_server: str) -> None:  # noqa: F811
    """Collections on a server that hold vectors of another length do not stand in a new model's way."""
    for n, embedder in enumerate((FakeEmbedder(), NarrowEmbedder(fingerprint="narrow:1"), FakeEmbedder())):
        folder = IndexFolder(tmp_path / "state", embedder, chroma_server)
        index = folder.open(create=True)
        try:
            index, result = folder.sync(index, snapshots)
            assert result.added == 3, n
            assert len(titles(index, "kiln")) == 3
        finally:
            close(folder, index)


def test_a_vector_store_emptied_on_disk_is_filled_again(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """Whoever deletes Chroma's folder between two runs gets it back, without an embedding, though no file of the memory changed."""
    embedder = FakeEmbedder()
    folder = built(tmp_path / "state", embedder, snapshots)
    generation = current_generation(folder.state_dir)
    assert generation is not None
    shutil.rmtree(generation / "chroma")
    embedder.embedded.clear()
    index = folder.open(create=True)
    index.sync(snapshots)
    assert index.store.ids("active") == index.catalog.records("active") != set()
    assert embedder.embedded == []
    close(folder, index)


def test_a_vector_store_that_nobody_touched_is_not_opened(tmp_path: Path, snapshots: list[PoolSnapshot]) -> None:
    """An unchanged sync leaves Chroma alone: its import alone takes longer than the rest."""
    folder = built(tmp_path / "state", FakeEmbedder(), snapshots)
    index = folder.open(create=True)
    assert index.sync(snapshots).embedded == 0
    assert not index.store_is_open
    close(folder, index)
