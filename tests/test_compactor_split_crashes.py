"""A split that crashes, meets a full disk or is interfered with, at every step: no entry is lost or doubled, for readers either."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from functools import partial

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from compactor.verify import verify_archive
from models.errors import ColdsparkError, RefusedError, WriteFailedError
from models.pool import Pool
from tests.compactor_archives import (
    ARCHIVE,
    LEFT,
    MARCH,
    SETTINGS,
    TITLE,
    batch,
    known,
    lay_archive,
    litter_beside_shards,
    over_all_files,
    seen,
    settled_split,
    shards_of,
    split_crashes,
)
from tests.compactor_disks import CrashingDisk, FullDisk, HookedDisk, MeddledDisk, PowerCutError, request
from tests.samples import HEADER, KILN, TIDE, delve, log

SWAPS = pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])
# Twins within a batch, within a quarter, and in both quarters, where one batch of the one quarter holds nothing else.
TWINS = LEFT + b"\n".join([batch("2026-01-05", KILN), batch("2026-04-05", KILN, TIDE, KILN), MARCH, batch("2026-04-06", KILN)])
ONLY_TWINS = LEFT + b"\n".join([batch("2026-01-05", KILN), batch("2026-04-05", KILN)])
SHARDS = {
    "2026-Q1": TITLE + b"\n" + batch("2026-01-05", KILN) + b"\n" + MARCH + b"\n",
    "2026-Q2": TITLE + b"\n" + batch("2026-04-05", KILN, TIDE, KILN) + b"\n" + batch("2026-04-06", KILN),
}


def test_a_crash_at_any_step_is_settled_by_the_next_run(pool: Pool) -> None:
    """Every entry is in a file at least once after the crash, and in exactly one after any next run; nothing is left over."""
    for number, (at, before) in enumerate(split_crashes(pool, TWINS)):
        assert not before - over_all_files(pool), at
        if number % 2:
            compact(request(pool), Disk())
        else:
            settled_split(pool)
        assert over_all_files(pool) == before, at
        assert litter_beside_shards(pool) <= {"journal.tmp"}, at
        settled_split(pool)
        assert shards_of(pool) == SHARDS, at
        assert litter_beside_shards(pool) == set(), at


def test_a_crash_where_names_cannot_swap_is_settled_too(pool: Pool) -> None:
    """The same holds where the archive is replaced and not swapped."""
    for at, before in split_crashes(pool, TWINS, swaps=False):
        assert not before - over_all_files(pool), at
        settled_split(pool)
        assert shards_of(pool) == SHARDS, at
        assert litter_beside_shards(pool) == set(), at
        assert over_all_files(pool) == before, at


@SWAPS
@pytest.mark.parametrize("archive", [ARCHIVE, TWINS, ONLY_TWINS], ids=["quarters", "twins", "only-twins"])
def test_readers_see_every_entry_once_at_the_moment_of_a_crash(pool: Pool, archive: bytes, *, swaps: bool) -> None:
    """Whatever step a split dies at, readers find each entry exactly once, under the id it had."""
    lay_archive(pool, archive)
    ids = known(pool)
    for at, before in split_crashes(pool, archive, swaps=swaps):
        assert seen(pool) == before, at
        assert known(pool) == ids, at


def test_a_crash_is_no_damage(pool: Pool) -> None:
    """Whatever step a split dies at, the archive verifies, before the next run as behind it."""
    for at in range(1, 200):
        _lay_recorded(pool)
        disk = CrashingDisk(at, "after")
        with suppress(PowerCutError):
            split(pool, SETTINGS, disk)
        found = verify_archive(pool)
        assert (found.problems, found.entries) == ([], 3), at
        settled_split(pool)
        found = verify_archive(pool)
        assert (found.status, found.proven, found.unrecorded) == ("verified", 2, 0), at
        if not disk.crashed:
            return


def _lay_recorded(pool: Pool) -> None:
    """An archive of two quarters whose batches have recorded checksums."""
    lay_archive(pool, b"")
    pool.archive.unlink()
    for month, titles in (("2026-03", ["One", "Two"]), ("2026-06", ["Three"])):
        pool.active.write_bytes(HEADER + log(*(delve(title, "2026-01-01") for title in titles)))
        noon = SETTINGS.clock().replace(month=int(month[-2:]))
        compact(request(pool, now=noon), Disk())


def test_a_crash_at_any_step_of_the_recovery_is_settled_too(pool: Pool) -> None:
    """A run that dies while it settles a dead split leaves a state from which the third run settles both."""
    lay_archive(pool, TWINS)
    whole = HookedDisk()
    split(pool, SETTINGS, whole)
    journal = [at for at, (_, path) in enumerate(whole.steps, 1) if path.name == "journal.json"]
    for first in range(journal[0], journal[2] + 1, 2):  # from its first record to its end
        for second in range(2, 16):
            before = lay_archive(pool, TWINS)
            for disk in (CrashingDisk(first, "torn"), CrashingDisk(second, "after")):
                with suppress(PowerCutError):
                    split(pool, SETTINGS, disk)
            settled_split(pool)
            assert shards_of(pool) == SHARDS, (first, second)
            assert over_all_files(pool) == before, (first, second)
            assert litter_beside_shards(pool) == set(), (first, second)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_a_full_disk_leaves_whole_quarters(pool: Pool, *, lasting: bool) -> None:
    """When a write fails, each quarter is wholly in the archive or wholly in its file, and the next run clears away the rest."""
    for at in range(1, 200):
        before = lay_archive(pool, TWINS)
        disk = FullDisk(at, lasting=lasting)
        with suppress(WriteFailedError):
            split(pool, SETTINGS, disk)
        if not disk.failed:
            return
        if not lasting:  # then even what a failed write has left is taken back at once, but for what the very next run does
            assert not over_all_files(pool) - before - before, at
        compact(request(pool, force=False), Disk())
        assert over_all_files(pool) == before, at
        assert all(data == SHARDS[name] for name, data in shards_of(pool).items()), at
        settled_split(pool)
        assert shards_of(pool) == SHARDS, at


MEDDLING = {
    "entry": b"\n" + delve("By hand", "2026-03-03"),
    "batch of a quarter that moves": b"\n" + batch("2026-06-30", delve("By hand", "2026-03-03")),
    "batch of another quarter": b"\n" + batch("2026-09-01", delve("By hand", "2026-03-03")),
}


@pytest.mark.parametrize("own", MEDDLING.values(), ids=MEDDLING)
@pytest.mark.parametrize("how", ["append", "append late", "rename", "rewrite in place"])
def test_what_other_programs_write_to_the_archive_survives(pool: Pool, how: str, own: bytes) -> None:
    """An entry that another program adds to the archive before any step is there once, whether the split goes on or refuses."""
    for at in range(1, 200):
        before = lay_archive(pool, TWINS)
        late = os.open(pool.archive, os.O_WRONLY | os.O_APPEND)
        disk = MeddledDisk(at, partial(_add, pool, how, own, late))
        with suppress(RefusedError):
            split(pool, SETTINGS, disk)
        os.close(late)
        if not disk.meddled:
            return
        _settle_in_a_few_runs(pool)
        assert over_all_files(pool) == before + Counter([delve("By hand", "2026-03-03").strip()]), at
        assert litter_beside_shards(pool) == set(), at


def _add(pool: Pool, how: str, own: bytes, late: int) -> None:
    match how:
        case "append":
            with pool.archive.open("ab") as file:
                file.write(own)
        case "append late":
            os.write(late, own)
        case "rename":
            new = pool.archive.with_name("new")
            new.write_bytes(pool.archive.read_bytes() + own)
            new.replace(pool.archive)
        case _:
            pool.archive.write_bytes(pool.archive.read_bytes() + own)


def _settle_in_a_few_runs(pool: Pool) -> None:
    for _ in range(3):
        with suppress(ColdsparkError):
            settled_split(pool)
    settled_split(pool)


@pytest.mark.parametrize("own", MEDDLING.values(), ids=MEDDLING)
def test_text_added_to_the_archive_after_a_crash_survives_and_blocks_nothing(pool: Pool, own: bytes) -> None:
    """What is appended to the archive between a crash and the next run is kept, and later runs come to an end."""
    for at, before in split_crashes(pool, TWINS):
        with pool.archive.open("ab") as file:
            file.write(own)
        for _ in range(3):
            with suppress(ColdsparkError):
                compact(request(pool), Disk())
        assert over_all_files(pool) == before + Counter([delve("By hand", "2026-03-03").strip()]), at
        compact(request(pool), Disk())
        settled_split(pool)


def test_text_added_to_a_shard_during_a_split_survives(pool: Pool) -> None:
    """What another program appends to a shard before any step is there once, whether the split goes on or refuses."""
    own = b"\n" + delve("By hand", "2026-03-03")
    old = TITLE + b"\n" + batch("2026-04-09", TIDE)
    for at in range(1, 200):
        before = lay_archive(pool, TWINS, Q2_2026=old)
        path = next(p for p in pool.archive_files() if p != pool.archive)

        def append(path: object = path) -> None:
            with open(str(path), "ab") as file:  # noqa: PTH123
                file.write(own)

        disk = MeddledDisk(at, append)
        with suppress(RefusedError):
            split(pool, SETTINGS, disk)
        if not disk.meddled:
            return
        _settle_in_a_few_runs(pool)
        assert over_all_files(pool) == before + Counter([own.strip()]), at
