"""The index in this process is exchanged, or let go of, while questions are at it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from models.results import RecallResult
from models.settings import Settings
from service.local import LocalBackend
from tests.fakes import FakeEmbedder
from tests.local_bench import ask, built, generation
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.service_support import settings_for

if TYPE_CHECKING:
    from indexer.embedder import Vectors


@pytest.fixture
def small(tmp_path: Path) -> Settings:
    """KILN and TIDE active, a ledger in the archive."""
    return settings_for(tmp_path, HEADER + log(KILN, TIDE), ledger("release -- stale"))


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


def test_a_rebuild_that_cannot_be_is_told(small: Settings) -> None:
    """While a tier cannot be read, a rebuild that was asked for syncs what there is, and says that it did no more."""
    before = built(small)
    archive = small.all_pools()[0].archive
    archive.unlink()
    archive.mkdir()
    backend = LocalBackend(small, FakeEmbedder())
    result = backend.sync(rebuild=True)
    assert (result.status, result.rebuild, result.entries.archive) == ("degraded", "it was asked for", 1)
    assert generation(small) == before
    backend.close()
