"""Noticing changes of the memory files: by notices, by looks where there are none, and without a rush."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

from models.pool import Pool
from service.local import LocalBackend
from service.runtime import Runtime
from service.watch import LOOK_SECONDS, POLL_SECONDS, Changes, Places, Watcher, WatchError, notices
from tests.fakes import FakeEmbedder
from tests.samples import KILN, TIDE, delve, log
from tests.service_support import settings_for, until


class Told:
    """What a watcher told, and whether it still watches."""

    def __init__(self, pool: Pool, changes: Changes = notices) -> None:
        self.said: list[bool] = []
        self.stop = threading.Event()
        self.watcher = Watcher(lambda: [pool], self.said.append, changes)
        self.thread = threading.Thread(target=self.watcher.run, args=[self.stop])

    @contextmanager
    def running(self) -> Iterator[None]:
        """Watches for the `with` block; must end with it, at once."""
        self.thread.start()
        try:
            yield
        finally:
            self.stop.set()
            self.thread.join(5)
            assert not self.thread.is_alive()

    def forget(self) -> None:
        """Of what follows, only the new is of interest."""
        until(lambda: self.watcher.is_watching)
        self.said.clear()


class Handed:
    """Changes that a test hands in; remembers which folders were watched."""

    def __init__(self) -> None:
        self.folders: list[list[Path]] = []
        self.queue: Queue[frozenset[str] | WatchError] = Queue()

    def __call__(self, folders: Sequence[Path], stop: threading.Event) -> Iterator[frozenset[str]]:
        """Yields what is handed in; an error is raised."""
        self.folders.append(list(folders))
        while not stop.is_set():
            if self.queue.empty():
                stop.wait(0.01)
                yield frozenset()
                continue
            found = self.queue.get()
            if isinstance(found, WatchError):
                raise found
            yield found


def test_only_memory_files_are_news(pool: Pool) -> None:
    """A change of a tier, a shard or a stub of one is told as sure; any other file of the folder is none."""
    pool.active.write_bytes(KILN)
    handed = Handed()
    told = Told(pool, handed)
    with told.running():
        told.forget()
        for name in ("notes.md", ".coldspark", "dream-sparks.md.tmp", "memory"):
            handed.queue.put(frozenset({name}))
        until(handed.queue.empty)
        shard = pool.memory_dir / "dream-sparks-archive-2026-Q2.md"
        shard.write_bytes(b"")
        for names in ({"x", "dream-sparks.md"}, {".dream-sparks.md.icloud"}, {shard.name}):
            handed.queue.put(frozenset(names))
        until(lambda: len(told.said) == 3)
        assert told.said == [True] * 3
    assert handed.folders == [[pool.memory_dir]]


def test_what_changed_before_the_watch_began_is_looked_for(pool: Pool) -> None:
    """As soon as a watch stands, a look is asked for, once."""
    pool.active.write_bytes(KILN)
    told = Told(pool, Handed())
    with told.running():
        until(lambda: told.said != [])
        assert told.said == [False]
        assert told.watcher.look_every == LOOK_SECONDS


def test_refused_watch_is_polled_and_told_once(pool: Pool, caplog: pytest.LogCaptureFixture) -> None:
    """Where the system sends no notices the files are looked at often, the reason is logged once, and the watch is tried again."""
    pool.active.write_bytes(KILN)
    refusals = [WatchError("limit reached"), WatchError("limit reached")]
    handed = Handed()

    def changes(folders: Sequence[Path], stop: threading.Event) -> Iterator[frozenset[str]]:
        if refusals:
            raise refusals.pop()
        yield from handed(folders, stop)

    told = Told(pool, changes)
    with caplog.at_level(logging.WARNING), told.running():
        assert told.watcher.look_every == POLL_SECONDS
        until(lambda: told.watcher.is_watching)
    assert [r.message for r in caplog.records] == [
        "the memory folders cannot be watched (limit reached); they are looked at every 2 seconds"
    ]


def test_watch_that_breaks_off_is_looked_after(pool: Pool) -> None:
    """A watch that fails later on leads back to looking, and a look is asked for."""
    pool.active.write_bytes(KILN)
    handed = Handed()
    told = Told(pool, handed)
    with told.running():
        told.forget()
        handed.queue.put(WatchError("gone"))
        until(lambda: told.said == [False] and not told.watcher.is_watching)


def test_folder_that_is_replaced_is_watched_anew(pool: Pool, tmp_path: Path) -> None:
    """Another folder in the old one's place is told, and is what is watched from then on."""
    pool.active.write_bytes(KILN)
    handed = Handed()
    told = Told(pool, handed)
    with told.running():
        told.forget()
        pool.memory_dir.rename(tmp_path / "old")
        pool.memory_dir.mkdir()
        until(lambda: len(handed.folders) == 2)
        assert False in told.said


def test_links_lead_to_the_folders_that_are_watched(pool: Pool, tmp_path: Path) -> None:
    """The real folder of a linked tier is watched as well as the link's, and the target's name counts."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "real.md").write_bytes(KILN)
    pool.active.symlink_to(tmp_path / "store" / "real.md")
    places = Places.of([pool])
    assert set(places.folders) == {pool.memory_dir, tmp_path / "store"}
    assert {"dream-sparks.md", "real.md"} <= places.names
    assert places.is_whole


def test_missing_folder_is_not_whole(pool: Pool, tmp_path: Path) -> None:
    """A memory folder that is not there is named all the same."""
    pool.memory_dir.rename(tmp_path / "away")
    places = Places.of([pool])
    assert (places.is_whole, set(places.folders)) == (False, {pool.memory_dir})


def test_real_notices_tell_of_an_append_and_a_replacement(pool: Pool) -> None:
    """The operating system's notices come for a written, a replaced and a removed file."""
    pool.active.write_bytes(KILN)
    told = Told(pool)
    with told.running():
        told.forget()
        with pool.active.open("ab") as file:
            file.write(TIDE)
        until(lambda: True in told.said, 5)
        told.said.clear()
        (pool.memory_dir / "new").write_bytes(TIDE)
        os.replace(pool.memory_dir / "new", pool.active)
        until(lambda: True in told.said, 5)
        told.said.clear()
        pool.active.unlink()
        until(lambda: True in told.said, 5)


def test_real_notices_follow_a_link(pool: Pool, tmp_path: Path) -> None:
    """A write to the target of a linked tier, in another folder, is told."""
    (tmp_path / "store").mkdir()
    target = tmp_path / "store" / "real.md"
    target.write_bytes(KILN)
    pool.active.symlink_to(target)
    told = Told(pool)
    with told.running():
        told.forget()
        target.write_bytes(KILN + TIDE)
        until(lambda: True in told.said, 5)


def test_real_notices_need_the_folder(tmp_path: Path) -> None:
    """What the library raises is one error here."""
    with pytest.raises(WatchError, match="No such file"):
        next(notices([tmp_path / "nowhere"], threading.Event()))


class Counting(LocalBackend):
    """Counts its syncs."""

    syncs = 0

    def sync(self, **more: object) -> object:  # type: ignore[override]
        """Counts."""
        self.syncs += 1
        return super().sync(**more)  # type: ignore[arg-type]


def test_endless_appends_are_synced_but_not_each(tmp_path: Path) -> None:
    """A file that changes twenty times a second is synced again and again while it does, and less often than it changes."""
    settings = settings_for(tmp_path, log(KILN))
    backend = Counting(settings, FakeEmbedder())
    runtime = Runtime(settings, backend)
    runtime.start()
    try:
        until(lambda: runtime.not_ready is None)
        before = backend.syncs
        appended = 0
        stop = threading.Event()
        with settings.all_pools()[0].active.open("ab", buffering=0) as file:
            while backend.syncs < before + 3:
                file.write(b"\n" + delve(f"Spark {appended}", "2026-05-18"))
                appended += 1
                stop.wait(0.05)
                assert appended < 400
        assert appended > backend.syncs - before
        until(lambda: backend.index().catalog.counts()[0]["active"] == appended + 1)
    finally:
        runtime.stop()
    assert not runtime.is_working
