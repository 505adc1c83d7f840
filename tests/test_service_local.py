"""The index in this process: it heals from every damage, and questions are answered meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from models.errors import IndexDamagedError, IndexMissingError, ModelMissingError, StoreDamagedError, WriteFailedError
from models.pool import TIERS
from models.query import Filters, RecallRequest
from models.settings import Settings
from service.local import LocalBackend
from tests.fakes import FakeEmbedder
from tests.local_bench import ask, built, check_whole, generation
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import settings_for

if TYPE_CHECKING:
    from indexer.embedder import Vectors

MANY = b"\n".join(delve(f"Entry number{n}", "2026-05-01") for n in range(1_100))
"""More than Chroma keeps out of its files."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """KILN and TIDE active; a ledger, and many others, in the archive."""
    return settings_for(tmp_path, HEADER + log(KILN, TIDE), log(ledger("release -- stale"), MANY))


@pytest.fixture
def small(tmp_path: Path) -> Settings:
    """KILN and TIDE active, a ledger in the archive."""
    return settings_for(tmp_path, HEADER + log(KILN, TIDE), ledger("release -- stale"))


def garble(path: Path) -> None:
    """Writes rubbish over the whole file."""
    path.write_bytes(b"\x93 no such thing " * (path.stat().st_size // 16 + 1))


def truncate(path: Path) -> None:
    """Cuts the file in half."""
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("damage", "names"),
    [
        (garble, ("chroma.sqlite3", "header.bin", "data_level0.bin", "length.bin", "link_lists.bin", "index_metadata.pickle")),
        (truncate, ("header.bin",)),  # Chroma dies of it
        (Path.unlink, ("index_metadata.pickle",)),
    ],
    ids=["garbage", "half", "gone"],
)
def test_damage_to_any_file_of_the_store_heals_by_itself(settings: Settings, damage: Callable[[Path], None], names: Sequence[str]) -> None:
    """The next sync ends where it was, without the model, whatever happened to which file; one damaged copy is kept."""
    folder = built(settings)
    clean = contents(settings)
    for name in names:
        for path in (folder / "chroma").rglob(name):
            damage(path)
        embedder = FakeEmbedder()
        backend = LocalBackend(settings, embedder)
        result = backend.sync()
        assert (result.status, result.degraded, embedder.embedded) == ("ok", None, [])
        found = ask(backend)
        assert (found.degraded, found.hits[0].title) == (None, "Kiln cooling and staged eviction")
        backend.close()
        assert contents(settings) == clean
    assert {p.name for p in folder.glob("*.damaged*")} <= {"chroma.damaged"}


def contents(settings: Settings) -> dict[str, set[str]]:
    """Ids of the records in the store, by tier."""
    backend = LocalBackend(settings, FakeEmbedder())
    store = backend.index().store
    found: dict[str, set[str]] = {tier: store.ids(tier) for tier in TIERS}
    backend.close()
    return found


def test_a_question_over_a_damaged_store_is_answered_by_words(settings: Settings) -> None:
    """Before any sync, recall says why it goes by words alone, and the other process that asks next says the same."""
    folder = built(settings)
    garble(folder / "chroma" / "chroma.sqlite3")
    for _ in range(2):
        backend = LocalBackend(settings, FakeEmbedder())
        found = ask(backend)
        assert found.degraded is not None
        assert ("damaged (file is not a database" in found.degraded, found.mode, len(found.hits)) == (True, "lexical", 3)
        backend.close()
        found = ask(backend)
        assert found.degraded is not None
        backend.close()
    check = LocalBackend(settings, FakeEmbedder())
    check_whole(check, settings, check.sync(), 1_103)
    check.close()


def test_only_what_a_store_lacks_is_put_again(small: Settings) -> None:
    """Records that are missing come back from catalog and cache alone, though the model cannot be had."""

    class Lame(FakeEmbedder):
        def load(self) -> None:
            raise ModelMissingError("m", "gone")

        def embed_passages(self, texts: Sequence[str]) -> Vectors:
            raise ModelMissingError("m", "gone")

    built(small)
    backend = LocalBackend(small, FakeEmbedder())
    store = backend.index().store
    before = {tier: store.ids(tier) for tier in TIERS}
    store.delete("active", sorted(before["active"])[:1])
    backend.close()
    (generation(small) / "chroma.seal").unlink()
    lame = LocalBackend(small, Lame())
    assert lame.sync().degraded is None
    assert {tier: lame.index().store.ids(tier) for tier in TIERS} == before
    lame.close()


@pytest.mark.parametrize(
    "error", [StoreDamagedError(Path("x"), "no such table"), sqlite3.DatabaseError("malformed")], ids=["store", "cache"]
)
def test_damage_found_by_a_question(small: Settings, error: Exception) -> None:
    """The question is answered by words and says why; a sync is asked for, and after it answers are full again."""
    built(small)
    backend = LocalBackend(small, FakeEmbedder())
    backend.sync()
    index = backend.index()

    class Failing(FakeEmbedder):
        def embed_query(self, text: str) -> Vectors:
            raise error

    index.search.embedder = Failing()
    found = ask(backend)
    assert found.degraded is not None
    assert (found.mode, len(found.hits)) == ("lexical", 3)
    assert backend.has_changed()
    index.search.embedder = FakeEmbedder()
    check_whole(backend, small, backend.sync(), 3)
    backend.close()


def edit(path: Path, statement: str) -> None:
    """Changes a database behind its owner's back."""
    with closing(sqlite3.connect(path)) as db:
        db.execute(statement)
        db.commit()


FALSE_TEXT = "UPDATE entry SET text = CAST(replace(CAST(text AS TEXT), 'kiln', 'oven') AS BLOB)"


def test_a_text_that_is_not_the_file_s_is_never_shown(small: Settings) -> None:
    """A catalog whose texts were changed refuses them, in recall and by id, and comes back from the Markdown."""
    folder = built(small)
    edit(folder / "catalog.sqlite3", FALSE_TEXT)
    backend = LocalBackend(small, FakeEmbedder())
    with pytest.raises(IndexDamagedError, match="is not the one that was catalogued"):
        ask(backend)
    backend.close()
    backend = LocalBackend(small, FakeEmbedder())
    result = backend.sync()
    assert result.embedded == 0
    check_whole(backend, small, result, 3)
    (kiln,) = [entry_id for (_, entry_id), k in backend.index().catalog.known().items() if "Kiln" in k.view]
    edit(generation(small) / "catalog.sqlite3", FALSE_TEXT)
    with pytest.raises(IndexDamagedError):
        backend.stored(kiln)
    assert backend.has_changed()
    check_whole(backend, small, backend.sync(), 3)
    backend.close()


def test_after_an_unclean_end_every_text_is_looked_at(small: Settings) -> None:
    """When the last owner died, a changed text is found at once, before anybody asks."""
    folder = built(small)
    edit(folder / "catalog.sqlite3", FALSE_TEXT)
    (folder / "catalog.sqlite3-wal").touch()
    backend = LocalBackend(small, FakeEmbedder())
    with pytest.raises(IndexMissingError):
        ask(backend)
    check_whole(backend, small, backend.sync(), 3)
    assert not folder.exists()
    backend.close()


def test_vectors_that_are_spoilt_are_made_good(small: Settings) -> None:
    """Embeddings that rotted in the cache come back from the store, and from the model where that lost them too."""
    built(small)
    cache = small.state_dir / "vectors.sqlite3"
    edit(cache, "UPDATE vector SET value = zeroblob(length(value))")
    embedder = FakeEmbedder()
    backend = LocalBackend(small, embedder)
    backend.sync()
    backend.recall(RecallRequest(query="kiln", filters=Filters(kind=["dream"])))  # it reads some of them
    assert backend.has_changed()
    result = backend.sync()
    assert (result.embedded, result.status, embedder.embedded) == (0, "ok", [])
    check_whole(backend, small, result, 3)
    backend.close()
    edit(cache, "UPDATE vector SET value = zeroblob(length(value))")
    shutil.rmtree(generation(small) / "chroma")
    (small.state_dir / "vectors.sqlite3-wal").touch()
    backend = LocalBackend(small, embedder)
    result = backend.sync()
    assert result.embedded == result.passages == len(embedder.embedded)
    check_whole(backend, small, result, 3)
    backend.close()


def test_a_garbled_cache_is_set_aside_once(small: Settings) -> None:
    """The vectors come back from the store; of damaged caches one copy is kept."""
    built(small)
    for _ in range(2):
        garble(small.state_dir / "vectors.sqlite3")
        embedder = FakeEmbedder()
        backend = LocalBackend(small, embedder)
        result = backend.sync()
        assert embedder.embedded == []
        check_whole(backend, small, result, 3)
        backend.close()
    assert [p.name for p in small.state_dir.glob("*.damaged")] == ["vectors.sqlite3.damaged"]


@pytest.mark.parametrize("gone", ["index", "generation", "state"])
def test_an_index_deleted_under_its_owner_comes_back(small: Settings, gone: str) -> None:
    """Questions get "no index" with the command to run, a sync is asked for, and makes all anew in the same process."""
    folder = built(small)
    backend = LocalBackend(small, FakeEmbedder())
    backend.sync()
    ask(backend)
    shutil.rmtree({"index": small.state_dir / "index", "generation": folder, "state": small.state_dir}[gone])
    with pytest.raises(IndexMissingError, match="run `coldspark index`"):
        ask(backend)
    with pytest.raises(IndexMissingError):
        backend.related("x", 1, "none")
    assert backend.has_changed()
    check_whole(backend, small, backend.sync(), 3)
    backend.close()


def test_a_full_disk_is_told_and_nothing_is_set_aside(small: Settings) -> None:
    """When the catalog takes no more, the sync fails with what to do, and the index stays as it was."""
    built(small)
    backend = LocalBackend(small, FakeEmbedder())
    backend.sync()
    index = backend.index()
    (pages,) = index.catalog.db.execute("PRAGMA page_count").fetchone()
    index.catalog.db.execute(f"PRAGMA max_page_count = {pages}")
    write = small.all_pools()[0].active
    before = write.read_bytes()
    write.write_bytes(before + b"\n" + MANY)
    with pytest.raises(WriteFailedError, match="database or disk is full"):
        backend.sync()
    assert len(ask(backend).hits) == 3
    assert backend.index() is index
    index.catalog.db.execute("PRAGMA max_page_count = 1000000")
    check_whole(backend, small, backend.sync(), 1_103)
    assert not list(small.state_dir.rglob("*.damaged"))
    backend.close()
