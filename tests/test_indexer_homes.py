"""The embedded store's home: probed after an unclean end, set aside when damaged, left alone when it fails again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from indexer.chroma import VectorStore
from indexer.homes import EmbeddedHome
from indexer.probe import Finding
from models.errors import StoreBusyError, StoreDamagedError, StoreError, StoreFullError
from tests.fakes import MemoryStore


class Place:
    """A home whose probe and store are ours, and a clock that stands where it is put."""

    def __init__(self, folder: Path, findings: Sequence[Finding] = ()) -> None:
        self.folder = folder
        self.findings = list(findings)
        self.now = 1_000_000.0
        self.doubts: list[str | None] = []
        self.stores: list[MemoryStore] = []
        self.probed = 0

    def look(self, folder: Path) -> Finding:
        """What the probe finds next; a sound store when nothing else was said."""
        assert all(store.closed for store in self.stores), "a store that is open is not probed"
        self.probed += 1
        return self.findings.pop(0) if self.findings else Finding()

    def opened(self, folder: Path) -> VectorStore:
        """A store, of which no other may be open."""
        assert all(store.closed for store in self.stores), "the folder is open already"
        folder.mkdir(exist_ok=True)
        (folder / "chroma.sqlite3").touch()
        self.stores.append(MemoryStore())
        return self.stores[-1]

    def home(self) -> EmbeddedHome:
        """The home as the next process finds it."""
        return EmbeddedHome(self.folder, self.doubts.append, look=self.look, opener=self.opened, clock=lambda: self.now)


def killed(place: Place) -> None:
    """A process that opened the store to sync and died."""
    place.home().store_to_sync()
    for store in place.stores:
        store.closed = True


def test_a_store_closed_well_is_neither_probed_nor_doubted(tmp_path: Path) -> None:
    """The first process makes it, the second finds the seal and opens it at once."""
    place = Place(tmp_path)
    first = place.home()
    first.store()
    first.close()
    assert place.doubts == [None]
    second = place.home()
    assert second.is_untouched
    second.store()
    assert not second.is_untouched
    assert (place.probed, place.doubts) == (0, [None])
    assert not second.seal.path.exists()  # on disk before the store is opened
    second.close()


def test_an_unclean_end_is_noticed(tmp_path: Path) -> None:
    """A store that nobody closed is probed once; a sound one is used, and its records are compared."""
    place = Place(tmp_path)
    killed(place)
    home = place.home()
    assert not home.is_untouched
    assert home.store() is home.store()
    assert (place.probed, place.doubts) == (1, [None, None])
    home.close()
    assert home.seal.holds


def test_a_damaged_store_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is kept once as chroma.damaged, said in one sentence, and an empty one takes its place."""
    place = Place(tmp_path, [Finding("it is torn"), Finding("it is torn")])
    (tmp_path / "chroma.damaged").mkdir()
    (tmp_path / "chroma.damaged" / "older").touch()
    killed(place)
    with caplog.at_level(logging.WARNING, logger="coldspark"):
        place.home().store_to_sync()
    assert caplog.messages == [
        f"the vector store {tmp_path / 'chroma'} is damaged (it is torn) and was set aside as chroma.damaged; it is filled again"
    ]
    assert sorted(p.name for p in (tmp_path / "chroma.damaged").iterdir()) == ["chroma.sqlite3"]
    assert place.doubts == [None, "it is torn", None]


def test_a_question_is_not_asked_of_the_empty_store(tmp_path: Path) -> None:
    """Who only asks learns that the store was set aside; filling the new one is the sync's."""
    place = Place(tmp_path, [Finding("it is torn")])
    killed(place)
    with pytest.raises(StoreDamagedError, match=r"\(it is torn\): it was set aside, and is filled again by the next sync\.$"):
        place.home().store()
    assert ((tmp_path / "chroma.damaged").is_dir(), (tmp_path / "chroma").exists(), len(place.stores)) == (True, False, 1)


def test_a_store_that_fails_again_and_again_is_left_alone(tmp_path: Path) -> None:
    """After two in a row nothing is built for a while, the reason is told, and then it is tried again; a clean close forgets."""
    place = Place(tmp_path, [Finding("short of memory")] * 3)
    killed(place)
    killed(place)
    for _ in range(3):
        with pytest.raises(StoreDamagedError, match=r"short of memory.*it failed 2 times in a row, so answers go by words alone until"):
            place.home().store_to_sync()
    assert place.probed == 2
    place.now += 601
    killed(place)
    with pytest.raises(StoreDamagedError, match="it failed 3 times in a row"):
        place.home().store_to_sync()
    place.now += 601
    with pytest.raises(StoreDamagedError, match="it failed 3 times in a row"):
        place.home().store_to_sync()
    place.now += 601
    home = place.home()
    home.store_to_sync()
    home.close()
    assert not (tmp_path / "chroma.failures").exists()


def test_nobody_waits_while_a_store_is_looked_at(tmp_path: Path) -> None:
    """A question that comes while the probe runs learns so at once; behind it the same store is asked."""
    place = Place(tmp_path)
    killed(place)
    looking, go_on = threading.Event(), threading.Event()

    def look(_folder: Path) -> Finding:
        looking.set()
        assert go_on.wait(20)
        return Finding()

    home = EmbeddedHome(tmp_path, place.doubts.append, look=look, opener=place.opened)
    sync = threading.Thread(target=home.store_to_sync)
    sync.start()
    assert looking.wait(20)
    with pytest.raises(StoreBusyError, match="is being checked or filled again: ask again in a moment"):
        home.store()
    go_on.set()
    sync.join(20)
    assert (home.store(), home.trouble) == (place.stores[-1], None)


def test_a_full_disk_is_no_damage(tmp_path: Path) -> None:
    """When the probe has no room nothing is set aside and nothing opened; with room again all is well."""
    place = Place(tmp_path, [Finding(no_room=True)])
    killed(place)
    home = place.home()
    with pytest.raises(StoreFullError):
        home.store()
    assert not (tmp_path / "chroma.damaged").exists()
    home.store_to_sync()
    assert len(place.stores) == 2


def test_after_an_error_nobody_but_a_sync_asks(tmp_path: Path) -> None:
    """A store that failed is closed, probed and opened by the next sync; until then it answers with its failure."""
    place = Place(tmp_path)
    home = place.home()
    home.store()
    error = StoreDamagedError(tmp_path, "no such table")
    home.note(error)
    with pytest.raises(StoreDamagedError) as raised:
        home.store()
    assert raised.value is error
    home.store_to_sync()
    assert (place.probed, home.trouble, len(place.stores)) == (1, None, 2)
    home.store()


def test_a_store_that_fails_though_it_looks_whole_is_set_aside(tmp_path: Path) -> None:
    """A second failure behind a passed probe counts as damage."""
    place = Place(tmp_path)
    home = place.home()
    for _ in range(2):
        home.store_to_sync()
        home.note(StoreDamagedError(tmp_path, "it cannot be asked"))
    home.store_to_sync()
    assert (tmp_path / "chroma.damaged").is_dir()
    assert place.doubts[-2:] == ["it fails though it looks whole", None]


def test_trouble_leaves_no_seal(tmp_path: Path) -> None:
    """A store that gave an error is probed by the next process; one that was merely busy is sealed."""
    errors: list[tuple[StoreError, bool]] = [(StoreBusyError("x"), True), (StoreFullError("x"), False)]
    for error, holds in errors:
        home = Place(tmp_path / str(holds)).home()
        (tmp_path / str(holds)).mkdir()
        home.store()
        home.note(error)
        home.close()
        assert home.seal.holds is holds


def test_a_garbled_record_of_failures_counts_as_none(tmp_path: Path) -> None:
    """Whatever stands in there, the store is opened."""
    for content in (b"", b"[]", b"\xff", b'{"count": "many"}'):
        (tmp_path / "chroma.failures").write_bytes(content)
        home = Place(tmp_path).home()
        home.store()
        home.close()
