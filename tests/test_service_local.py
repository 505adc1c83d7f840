"""The index in this process: it heals from every damage, and questions are answered meanwhile."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from indexer.generations import current_generation
from models.errors import IndexDamagedError, IndexMissingError, ModelMissingError, StoreDamagedError, WriteFailedError
from models.pool import TIERS
from models.query import Filters, RecallRequest
from models.results import IndexResult, RecallResult
from models.settings import Settings
from service.local import LocalBackend
from tests.fakes import FakeEmbedder
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


def built(settings: Settings) -> Path:
    """An index, synced and closed well; answers its generation's folder."""
    backend = LocalBackend(settings, FakeEmbedder())
    backend.sync()
    backend.close()
    return generation(settings)


def generation(settings: Settings) -> Path:
    """The folder of the generation in use."""
    found = current_generation(settings.state_dir)
    assert found is not None
    return found


def ask(backend: LocalBackend, query: str = "kiln cooling") -> RecallResult:
    """One question."""
    return backend.recall(RecallRequest(query=query, limit=3))


def check_whole(backend: LocalBackend, settings: Settings, result: IndexResult, entries: int) -> None:
    """Asserts that the index is as a clean build, and answers in full."""
    fresh = LocalBackend(settings.model_copy(update={"state_dir": settings.state_dir.with_name("fresh")}), FakeEmbedder())
    fresh.sync()
    ours, theirs = backend.index(), fresh.index()
    assert {tier: ours.store.ids(tier) for tier in TIERS} == {tier: theirs.store.ids(tier) for tier in TIERS}
    assert {key: (k.version, k.tier, k.view) for key, k in ours.catalog.known().items()} == {
        key: (k.version, k.tier, k.view) for key, k in theirs.catalog.known().items()
    }
    fresh.close()
    assert (result.status, result.degraded, result.entries.active + result.entries.archive) == ("ok", None, entries)
    found = ask(backend)
    assert (found.degraded, found.mode, found.hits[0].title) == (None, "hybrid", "Kiln cooling and staged eviction")
    assert not backend.has_changed()


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


class Waiting(FakeEmbedder):
    """An embedder at which a chosen question, or the next embedding, waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived, self.go_on = threading.Event(), threading.Event()

    def embed_query(self, text: str) -> Vectors:
        """Waits over "wait"."""
        if text == "wait":
            self.arrived.set()
            assert self.go_on.wait(30)
        return super().embed_query(text)


@pytest.fixture
def asked(small: Settings) -> Iterator[tuple[LocalBackend, Waiting, list[RecallResult], threading.Thread]]:
    """A backend with a question under way."""
    embedder = Waiting()
    backend = LocalBackend(small, embedder)
    backend.sync()
    answers: list[RecallResult] = []
    thread = threading.Thread(target=lambda: answers.append(ask(backend, "wait")))
    thread.start()
    assert embedder.arrived.wait(20)
    yield backend, embedder, answers, thread
    backend.close()


def test_a_question_under_way_outlives_the_switch(
    asked: tuple[LocalBackend, Waiting, list[RecallResult], threading.Thread], small: Settings
) -> None:
    """A rebuild switches while a question is at the old index; the old files go when it is answered, and not before."""
    backend, embedder, answers, thread = asked
    old = generation(small)
    result = backend.sync(rebuild=True)
    assert (result.embedded, result.rebuild) == (0, "it was asked for")
    assert generation(small) != old
    assert old.exists()
    assert len(ask(backend).hits) == 3
    embedder.go_on.set()
    thread.join(20)
    assert [(len(a.hits), a.degraded) for a in answers] == [(3, None)]
    assert not old.exists()


def test_closing_waits_for_the_question_under_way(
    asked: tuple[LocalBackend, Waiting, list[RecallResult], threading.Thread], small: Settings
) -> None:
    """A backend that is closed meanwhile still gives the answer, then lets go and leaves a seal."""
    backend, embedder, answers, thread = asked
    backend.close()
    assert not (generation(small) / "chroma.seal").exists()
    embedder.go_on.set()
    thread.join(20)
    assert [(len(a.hits), a.degraded) for a in answers] == [(3, None)]
    assert (generation(small) / "chroma.seal").exists()


def test_questions_go_on_while_a_rebuild_builds(small: Settings) -> None:
    """In the middle of a rebuild, the index that is in use answers in full."""
    built(small)
    backend = LocalBackend(small, FakeEmbedder())
    backend.sync()
    answers: list[RecallResult] = []

    result = backend.sync(rebuild=True, progress=lambda _done, _all: answers.append(ask(backend)))
    assert result.rebuild is not None
    assert len(answers) > 0
    assert {(len(a.hits), a.degraded, a.mode) for a in answers} == {(3, None, "hybrid")}
    backend.close()


def test_no_folder_of_chroma_is_ever_open_twice(small: Settings) -> None:
    """Through syncs, rebuilds, questions under way and openings anew, each folder has one handle at most."""
    from chromadb.api.shared_system_client import SharedSystemClient

    def handles() -> list[int]:
        counts = SharedSystemClient._identifier_to_refcount
        return [count for path, count in counts.items() if path.startswith(str(small.state_dir))]

    backend = LocalBackend(small, FakeEmbedder())
    seen: list[list[int]] = []
    for rebuild in (False, True, True):
        backend.sync(rebuild=rebuild, progress=lambda _done, _all: seen.append(handles()))
        with backend.leased():
            backend.sync(rebuild=True)
            ask(backend)
            seen.append(handles())
        seen.append(handles())
    (alone,) = seen[-1]
    assert {max(counts, default=alone) for counts in seen} == {alone}
    backend.close()
    assert handles() == []


def test_an_index_let_go_of_is_not_opened_beside_itself(
    asked: tuple[LocalBackend, Waiting, list[RecallResult], threading.Thread],
) -> None:
    """Opening again waits for the question that still holds the index."""
    backend, embedder, answers, thread = asked
    backend.close()
    again: list[RecallResult] = []
    second = threading.Thread(target=lambda: again.append(ask(backend)))
    second.start()
    assert (answers, again) == ([], [])
    embedder.go_on.set()
    thread.join(20)
    second.join(20)
    assert [len(a.hits) for a in (*answers, *again)] == [3, 3]


def test_another_model_takes_over_while_the_old_index_answers_by_words(small: Settings) -> None:
    """The outdated index answers, and says so, until the new one is whole; a sync with nothing else to do builds it."""
    built(small)
    embedder = FakeEmbedder(fingerprint="fake:2")
    backend = LocalBackend(small, embedder)
    assert ask(backend).degraded == "the index was made with another model; run `coldspark index`"
    answers: list[RecallResult] = []
    result = backend.sync(progress=lambda _done, _all: answers.append(ask(backend)))
    assert (result.rebuild, result.embedded) == ("the index was made with another model", result.passages)
    assert {(a.mode, len(a.hits)) for a in answers} == {("lexical", 3)}
    check_answer = ask(backend)
    assert (check_answer.degraded, check_answer.mode) == (None, "hybrid")
    assert [p.name for p in (small.state_dir / "index").iterdir() if p.is_dir()] == [generation(small).name]
    backend.close()


def test_another_window_of_the_same_model_builds_anew(small: Settings) -> None:
    """Passages were cut to the old window, so the first new entry under another one rebuilds the index."""
    built(small)
    backend = LocalBackend(small, FakeEmbedder(max_tokens=20))
    assert backend.sync().rebuild is None
    with (small.all_pools()[0].active).open("ab") as file:
        file.write(b"\n" + delve("Salt", "2026-05-09"))
    result = backend.sync()
    assert result.rebuild == "the model reads 20 tokens at once, and the index was made with 40"
    assert (result.added, result.entries.active) == (4, 3)
    backend.close()


def test_no_successor_while_a_tier_cannot_be_read(small: Settings) -> None:
    """With another model and an unreadable archive the old index keeps answering; result and answers say why."""
    built(small)
    archive = small.all_pools()[0].archive
    kept = archive.read_bytes()
    archive.unlink()
    archive.mkdir()
    backend = LocalBackend(small, FakeEmbedder(fingerprint="fake:2"))
    result = backend.sync()
    assert (result.status, result.entries.archive, result.added, result.removed) == ("degraded", 1, 0, 0)
    assert (result.rebuild, len(result.warnings)) == ("the index was made with another model", 1)
    found = ask(backend)
    assert (found.mode, len(found.hits)) == ("lexical", 3)
    assert found.stale is not None
    assert backend.has_changed()
    archive.rmdir()
    archive.write_bytes(kept)
    assert backend.sync().status == "ok"
    assert ask(backend).degraded is None
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
