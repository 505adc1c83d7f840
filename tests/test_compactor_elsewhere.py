"""A run that was cut short is settled in another place, on another day, under other settings, by whatever signal it ended."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from models.pool import Pool
from tests.compactor_disks import everywhere, litter
from tests.compactor_processes import (
    COMPACT,
    End,
    environment,
    for_each,
    kill,
    line,
    needs_strace,
    new_pool,
    run,
    strace,
)  # fmt: skip
from tests.samples import delve

pytestmark = needs_strace

EXTRA = delve("Meanwhile", "2026-06-14")
EXTRA_TEXT = EXTRA.rstrip(b"\n")
# A whole batch; a new file under its temporary name; a displaced file that nobody has looked at; a batch that is not noted.
KILLS = [("write", 3), ("renameat2", 1), ("rename", 3), ("write", 5)]


def append(active: Path) -> None:
    """As agents write."""
    with active.open("ab") as file:
        file.write(b"\n\n" + EXTRA)


@pytest.mark.parametrize("place", ["moved", "copied"])
def test_a_memory_in_another_place_is_settled_there(tmp_path: Path, place: str) -> None:
    """A folder that is moved, or copied to other devices and inodes, after a kill: also what was appended there since."""

    def check(at: tuple[str, int]) -> None:
        first = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        written = everywhere(first)
        kill(first, *at)
        pool = Pool("default", first.memory_dir.parent / "elsewhere" / "memory")
        shutil.copytree(first.memory_dir, pool.memory_dir)
        if place == "moved":
            shutil.rmtree(pool.memory_dir)
            first.memory_dir.rename(pool.memory_dir)
        append(pool.active)
        again = run(pool, *COMPACT)
        assert (again.returncode, everywhere(pool), litter(pool)) == (0, written + Counter([EXTRA_TEXT]), set()), (
            again.stdout,
            again.stderr,
        )

    for_each([*KILLS, ("fsync", 5), ("write", 4), ("rename", 2)], check)


@pytest.mark.parametrize("change", ["later", "earlier", "renamed"])
def test_a_run_is_settled_where_and_when_it_was_begun(tmp_path: Path, change: str) -> None:
    """Another day, or another name of the archive, changes nothing about a batch that was begun."""
    arguments = {"later": ("--today", "2026-07-20"), "earlier": ("--today", "2026-06-12"), "renamed": COMPACT[1:3]}[change]

    def check(at: tuple[str, int]) -> None:
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        written = everywhere(pool)
        kill(pool, *at)
        name = {"COLDSPARK_ARCHIVE_FILE": "cold-archive.md"} if change == "renamed" else {}
        again = subprocess.run(
            line(pool, "compact", "--force", *arguments), env=environment(pool) | name, capture_output=True, text=True, check=False
        )
        assert (again.returncode, everywhere(pool), litter(pool)) == (0, written, set()), again.stderr

    for_each(KILLS, check)


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_run_that_is_told_to_end_leaves_nothing_undone(tmp_path: Path, name: str) -> None:
    """It ends without a traceback, and the next run completes."""
    whole = new_pool(tmp_path / "whole")
    assert run(whole, *COMPACT).returncode == 0

    def check(at: tuple[str, int]) -> None:
        pool = new_pool(tmp_path / f"{at[0]}-{at[1]}")
        ended = run(pool, *COMPACT, before=strace(f"{at[0]}:signal={name}:when={at[1]}"))
        assert ended.returncode in {-signal.Signals[f"SIG{name}"], 130}
        assert "Traceback" not in ended.stderr
        again = run(pool, *COMPACT)
        assert (again.returncode, End.of(pool)) == (0, End.of(whole)), again.stderr

    for_each(KILLS, check)
