"""What readers see of a move: at the moment of a crash and while it goes on, every entry once, under one id."""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest

from compactor.compact import compact, dry_run
from compactor.durable import Disk
from compactor.split import split
from models.errors import WriteFailedError
from models.pool import Pool
from models.snapshot import read_pool
from models.views import whole_file_warnings
from tests.compactor_archives import SETTINGS, TITLE, batch, known, lay_archive, over_all_files, seen
from tests.compactor_disks import (
    MOVING,
    NOON,
    OLD_ARCHIVE,
    CrashingDisk,
    FullDisk,
    HookedDisk,
    MeddledDisk,
    PowerCutError,
    lay,
    request,
    tree,
)
from tests.samples import HEADER, KILN, TIDE, delve, log

ARCHIVES = {"old-archive": OLD_ARCHIVE, "no-archive": None, "twins": TITLE + b"\n" + batch("2026-06-15", KILN, MOVING[3])}
SHARD = "dream-sparks-archive-2026-Q2.md"


def lay_pool(pool: Pool, archive: bytes | None, *, sharded: bool) -> None:
    """The mixed pool; if *sharded*, batches go to a shard that holds a twin already."""
    lay(pool, archive=archive)
    if sharded:
        (pool.memory_dir / SHARD).write_bytes(TITLE + b"\n" + batch("2026-04-05", KILN))


@pytest.mark.parametrize("sharded", [False, True], ids=["archive", "shard"])
@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])
@pytest.mark.parametrize("archive", ARCHIVES.values(), ids=ARCHIVES)
def test_at_the_moment_of_a_crash_readers_see_every_entry_once(pool: Pool, archive: bytes | None, *, swaps: bool, sharded: bool) -> None:
    """Whatever step a compaction dies at, the same ids lead to the same texts as before, in a plan too, and a warning says why."""
    for at in range(1, 100):
        lay_pool(pool, archive, sharded=sharded)
        before = known(pool)
        rows = {d.id for d in dry_run(request(pool)).decisions}
        for when in ("torn", "after"):
            lay_pool(pool, archive, sharded=sharded)
            disk = CrashingDisk(at, when, swaps=swaps)
            with suppress(PowerCutError):
                compact(request(pool), disk)
            assert known(pool) == before, (at, when)
            files = tree(pool.memory_dir)
            assert {d.id for d in dry_run(request(pool)).decisions} <= rows, (at, when)
            assert tree(pool.memory_dir) == files, (at, when)
            journal = pool.private_dir / "journal.json"
            warned = [w.message for w in whole_file_warnings(read_pool(pool))]
            assert len(warned) == journal.exists(), (at, when)
        if not disk.crashed:
            return


@pytest.mark.parametrize("archive", ARCHIVES.values(), ids=ARCHIVES)
def test_when_the_disk_is_full_readers_see_every_entry_once(pool: Pool, archive: bytes | None) -> None:
    """Even when what was written cannot be taken back, copies do not show."""
    for at in range(1, 100):
        lay_pool(pool, archive, sharded=False)
        before = known(pool)
        disk = FullDisk(at, lasting=True)
        with suppress(WriteFailedError):
            compact(request(pool), disk)
        assert known(pool) == before, at
        if not disk.failed:
            return


@pytest.mark.parametrize("sharded", [False, True], ids=["archive", "shard"])
def test_between_any_two_steps_readers_see_every_entry_once(pool: Pool, *, sharded: bool) -> None:
    """A reader that comes in the midst of a live compaction or split is shown neither a copy nor a gap."""
    views: list[dict[str, bytes]] = []
    runs: tuple[Callable[[Disk], object], ...] = (lambda disk: compact(request(pool), disk), lambda disk: split(pool, SETTINGS, disk))
    lay_pool(pool, OLD_ARCHIVE, sharded=sharded)
    before = known(pool)
    for run in runs:
        run(_Looking(lambda: views.append(known(pool))))
    assert len(views) > 40
    for number, view in enumerate(views):
        assert view == before, number


class _Looking(HookedDisk):
    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self.look = look

    def before(self, step: str, path: object) -> None:
        """The reader's turn."""
        self.look()


@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])
def test_a_reader_beside_live_runs_sees_every_entry_once(pool: Pool, *, swaps: bool) -> None:
    """However reads and writes interleave, each reading finds each entry exactly once."""
    lay_archive(pool, TITLE + b"\n" + batch("2026-01-05", KILN) + b"\n" + batch("2026-04-05", TIDE))
    entries = [delve(f"Number {n}", f"2026-05-{n % 30 + 1:02d}") for n in range(60)]
    pool.active.write_bytes(HEADER + log(*entries, delve("Stays", "2026-06-14")))
    expected, done = over_all_files(pool), threading.Event()
    views: list[Counter[bytes]] = []

    def read() -> None:
        while not done.is_set():
            views.append(seen(pool))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for days in range(-30, 5, 4):
            compact(request(pool, now=NOON + dt.timedelta(days)), HookedDisk(swaps=swaps))
            split(pool, SETTINGS, HookedDisk(swaps=swaps))
    finally:
        done.set()
        reader.join()
    assert views
    assert [(view - expected, expected - view) for view in views if view != expected] == []


def test_a_twin_that_comes_back_while_a_move_is_unfinished_counts(pool: Pool) -> None:
    """Somebody writes an entry anew that a crashed run has moved already: both show, since both are there."""
    lay(pool, archive=None)
    pool.active.write_bytes(HEADER + log(MOVING[0], delve("Stays", "2026-06-14")))
    steps = HookedDisk()
    compact(request(pool), steps)
    swap = next(n for n, (step, _) in enumerate(steps.steps, 1) if step == "swap")
    lay(pool, archive=None)
    pool.active.write_bytes(HEADER + log(MOVING[0], delve("Stays", "2026-06-14")))
    with suppress(PowerCutError):
        compact(request(pool), CrashingDisk(swap + 2, "after"))
    with pool.active.open("ab") as file:
        file.write(b"\n" + MOVING[0])
    assert seen(pool) == over_all_files(pool)


def test_an_append_during_a_run_shows_at_once(pool: Pool) -> None:
    """What another program appends to the active file before the replacement is seen by the next reader and kept."""
    added = delve("Added", "2026-06-14")
    for at in range(1, 60):
        lay(pool, archive=OLD_ARCHIVE)
        views: list[Counter[bytes]] = []

        def meddle(views: list[Counter[bytes]] = views) -> None:
            with pool.active.open("ab") as file:
                file.write(b"\n\n" + added)
            views.append(seen(pool))

        disk = MeddledDisk(at, meddle)
        before = over_all_files(pool) + Counter([added.rstrip()])
        compact(request(pool), disk)
        if not disk.meddled:
            return
        assert views == [before], at
        assert seen(pool) == over_all_files(pool) == before, at
