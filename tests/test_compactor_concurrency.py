"""Compactions beside each other, and beside programs that know no lock."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compactor_disks import everywhere, litter
from tests.compactor_processes import COMPACT, NO_SWAP, End, Whole, environment, for_each, line, needs_strace, new_pool, run, stop
from tests.samples import HEADER, delve, log

EXTRA = delve("Meanwhile", "2026-06-14")


def save_by_rename(active: Path) -> None:
    """As editors save: the whole text and one entry more, at its head, in a new file."""
    temp = active.with_name(".editor")
    temp.write_bytes(active.read_bytes().replace(HEADER, HEADER + EXTRA + b"\n"))
    temp.rename(active)


def append(active: Path) -> None:
    """As agents write."""
    with active.open("ab") as file:
        file.write(b"\n\n" + EXTRA)


def save_in_place(active: Path) -> None:
    """As simple tools save: the file is emptied and written anew."""
    active.write_bytes(active.read_bytes().replace(HEADER, HEADER + EXTRA + b"\n"))


@needs_strace
@pytest.mark.parametrize("meddle", [save_by_rename, append, save_in_place])
def test_what_another_program_writes_while_a_run_stands_still_is_kept(tmp_path: Path, meddle: Callable[[Path], None]) -> None:
    """Wherever the run stands still, with swaps and without, each entry is there once, at the latest after the next run."""
    swapping = Whole.seen(tmp_path / "whole")
    linking = Whole.seen(tmp_path / "linked", NO_SWAP)
    ways = [(at, ()) for at in swapping.gaps()] + [(at, (NO_SWAP,)) for at in linking.gaps()[linking.calls.index("renameat2") + 1 :]]
    expected = swapping.entries + Counter([EXTRA.rstrip(b"\n")])

    def check(way: tuple[tuple[str, int], tuple[str, ...]]) -> None:
        at, injections = way
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}-{len(injections)}")
        begun = stop(pool, [(at, lambda: meddle(pool.active))], *injections)
        assert begun.returncode in {0, 5}, begun.stderr
        again = run(pool, *COMPACT)
        assert (again.returncode, everywhere(pool), litter(pool)) == (0, expected, set()), (begun.stderr, again.stderr)

    for_each([way for way in ways if way[0][0] not in {"mkdir", "ftruncate", "pwrite64", "unlink"}], check)


def test_of_many_compactions_at_once_one_does_the_work(tmp_path: Path) -> None:
    """The others wait and find nothing to do, or give up; 25 rounds of four leave what a single run leaves."""
    entries = [delve(f"Move {n}", "2026-05-01") if n % 2 else delve(f"Stay {n}", "2026-05-01", "absorb -- fits") for n in range(100)]
    single = new_pool(tmp_path / "single", HEADER + log(*entries))
    assert run(single, *COMPACT).returncode == 0
    for round_ in range(25):
        pool = new_pool(tmp_path / str(round_), HEADER + log(*entries))
        # Each waits at its shell's `read` until all standard inputs, which are one pipe, end together.
        begin, barrier = os.pipe()
        runs = [
            subprocess.Popen(
                ["/bin/sh", "-c", 'read line; exec "$0" "$@"', *line(pool, *COMPACT, "--json")],
                env=environment(pool), stdin=begin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for _ in range(4)
        ]  # fmt: skip
        os.close(begin)
        os.close(barrier)
        outcomes: Counter[str] = Counter()
        for process in runs:
            answer, said = process.communicate(timeout=60)
            assert process.returncode in {0, 4}, said
            outcomes[json.loads(answer)["status"] if process.returncode == 0 else "busy"] += 1
        assert outcomes["compacted"] == 1, outcomes
        assert outcomes["nothing-to-archive"] + outcomes["busy"] == 3, outcomes
        assert End.of(pool) == End.of(single)
