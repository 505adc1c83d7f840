"""A run that is killed at any system call loses nothing, and the next one completes it."""

from __future__ import annotations

import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from models.pool import Pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, everywhere
from tests.compactor_processes import (
    COMPACT,
    GROUPS,
    NO_SWAP,
    End,
    Whole,
    calls,
    for_each,
    ids,
    kill,
    needs_strace,
    new_pool,
    run,
    strace,
    tiers,
)
from tests.samples import delve

pytestmark = needs_strace


def check_nothing_is_lost(pool: Pool, whole: Whole, at: object) -> None:
    """Every entry is in a tier, and the old archive begins the new one."""
    assert whole.entries - everywhere(pool) == Counter(), at
    assert pool.archive.read_bytes().startswith(OLD_ARCHIVE), at


def check_completes(pool: Pool, whole: Whole, at: object) -> None:
    """The next run leaves what an undisturbed one leaves, to the byte."""
    rerun = run(pool, *COMPACT)
    assert (rerun.returncode, End.of(pool)) == (0, whole.end), (at, rerun.stderr)


def test_an_undisturbed_run_is_the_one_that_is_expected(whole: Whole, linked: Whole) -> None:
    """With and without swaps the same tiers are left, each batch is noted once, and the replaced file is kept."""
    assert (whole.end.active, len(whole.end.batches), whole.end.replaced) == (MIXED_AFTER, 1, Counter([MIXED]))
    assert linked.end == whole.end
    assert "renameat2" in whole.calls
    assert {"link", "linkat"} & set(linked.calls)


@pytest.mark.parametrize("group", [g for g in GROUPS if g != "link"])
def test_a_kill_at_any_call_loses_nothing_and_the_next_run_completes(tmp_path: Path, whole: Whole, group: str) -> None:
    """Readers still see every entry in between."""
    kills = whole.of_group(group)
    assert kills

    def check(at: tuple[str, int]) -> None:
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        kill(pool, *at)
        check_nothing_is_lost(pool, whole, at)
        assert ids(pool) >= whole.ids, at
        check_completes(pool, whole, at)

    for_each(kills, check)


def test_a_kill_at_any_call_where_files_cannot_swap_loses_nothing(tmp_path: Path, linked: Whole) -> None:
    """The way over a second name is as safe; the calls before the first try to swap are the same as with swaps."""
    kills = linked.gaps()[linked.calls.index("renameat2") + 1 :]

    def check(at: tuple[str, int]) -> None:
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        kill(pool, *at, NO_SWAP)
        check_nothing_is_lost(pool, linked, at)
        assert ids(pool) >= linked.ids, at
        check_completes(pool, linked, at)

    for_each(kills, check)


# Each leaves something else to settle: a whole batch, and a new file under its temporary name; a swap whose displaced file
# has not been looked at; a snapshot, but no note of the batch.
@pytest.mark.parametrize("before", [("renameat2", 1), ("rename", 3), ("write", 5)], ids=["new-file", "swapped", "unnoted"])
def test_a_kill_of_the_run_that_settles_a_kill_loses_nothing(tmp_path: Path, whole: Whole, before: tuple[str, int]) -> None:
    """The third run completes what the first began and the second did not finish."""
    first = new_pool(tmp_path / "first")
    kill(first, *before)
    second = calls(first)
    assert End.of(first) == whole.end
    kills = [(name, second[: i + 1].count(name)) for i, name in enumerate(second)]

    def check(at: tuple[str, int]) -> None:
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        kill(pool, *before)
        kill(pool, *at)
        check_nothing_is_lost(pool, whole, (before, at))
        check_completes(pool, whole, (before, at))

    for_each([at for at in kills if at[0] not in {"mkdir", "pwrite64", "ftruncate"}], check)


@pytest.mark.skipif(shutil.which("prlimit") is None, reason="prlimit is missing here")
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "failed"])
def test_a_torn_batch_is_taken_off_again(tmp_path: Path, *, killed: bool) -> None:
    """After a write that stops in the middle, by the failed run itself or by the one after a kill."""
    archive = OLD_ARCHIVE + b"\n\n" + delve("Large", "2026-01-02") + b"x" * 8000 + b"\n"
    untouched = new_pool(tmp_path / "untouched", archive=archive)
    assert run(untouched, *COMPACT).returncode == 0

    def check(size: int) -> None:
        pool = new_pool(tmp_path / str(size), archive=archive)
        limit = ["prlimit", f"--fsize={len(archive) + size}"]
        torn = run(pool, *COMPACT, before=[*(strace("write:signal=KILL:when=3") if killed else []), *limit])
        if killed:
            assert torn.returncode == -signal.SIGKILL
            assert len(pool.archive.read_bytes()) == len(archive) + size
        else:
            assert (torn.returncode, tiers(pool)) == (5, (MIXED, archive))
            assert torn.stderr.startswith("coldspark: Writing ")
            assert torn.stderr.count("\n") == 1
        again = run(pool, *COMPACT)
        assert (again.returncode, End.of(pool)) == (0, End.of(untouched)), (size, again.stderr)

    for_each([1, 2, 30, 80, 300, 700], check)
