"""What other programs do to a run at the moments that hurt most."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.compactor_disks import MIXED, OLD_ARCHIVE, entries_of, everywhere, litter
from tests.compactor_processes import (
    COMPACT,
    needs_strace,
    new_pool,
    run,
    stop,
    tiers,
)  # fmt: skip
from tests.samples import HEADER, delve

EXTRA = delve("Meanwhile", "2026-06-14")
EXTRA_TEXT = EXTRA.rstrip(b"\n")


def save(path: Path, data: bytes) -> None:
    """As editors do: a new file takes the old one's place."""
    temp = path.with_name(".editor")
    temp.write_bytes(data)
    temp.rename(path)


def looks(folder: Path, *injections: str) -> tuple[str, int]:
    """The last look at the active file before the new one takes its place: a system call and which of its name it is."""
    pool = new_pool(folder)
    trace = folder / "trace"
    names = "?stat,?newfstatat,?statx,?renameat2,?link,?linkat,?openat"
    options = [
        "-f",
        "-qq",
        "-o",
        str(trace),
        "-P",
        str(pool.active),
        "-e",
        f"trace={names}",
        *(o for i in injections for o in ("-e", f"inject={i}")),
    ]
    assert run(pool, *COMPACT, before=["strace", *options]).returncode == 0
    seen = re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE)
    step = max(i for i, name in enumerate(seen) if name in ({"link", "linkat"} if injections else {"renameat2"}))
    end = step + 1 if injections else step - 1  # without swaps, the file is looked at again once it has a second name
    return seen[end], seen[: end + 1].count(seen[end])


@needs_strace
@pytest.mark.parametrize("at", [("write", 3), ("rename", 2)], ids=["new-file-written", "about-to-replace"])
def test_an_archive_that_is_saved_over_loses_no_batch(tmp_path: Path, at: tuple[str, int]) -> None:
    """An old text of the archive, saved over a batch that has been verified, keeps its entries in the active file."""
    pool = new_pool(tmp_path)
    written = everywhere(pool)
    begun = stop(pool, [(at, lambda: save(pool.archive, OLD_ARCHIVE + b"\n\n" + EXTRA))])
    assert written + Counter([EXTRA_TEXT]) - everywhere(pool) == Counter(), (begun.returncode, begun.stderr)
    again = run(pool, *COMPACT)
    assert (again.returncode, everywhere(pool)) == (0, written + Counter([EXTRA_TEXT])), again.stderr


@needs_strace
def test_a_text_that_has_to_be_set_aside_is_told_of(tmp_path: Path) -> None:
    """Two whole-file saves around one swap: the second text is in the active file, or the run names where it is kept."""
    last = looks(tmp_path / "looks")
    pool = new_pool(tmp_path / "pool")
    first = MIXED.replace(HEADER, HEADER + delve("First", "2026-06-14") + b"\n")
    begun = stop(
        pool,
        [(last, lambda: save(pool.active, first)), (("renameat2", 1), lambda: save(pool.active, first + b"\n\n" + EXTRA))],
        only=pool.active,
    )
    assert begun.returncode in {0, 5}, begun.stderr
    assert EXTRA_TEXT in entries_of(pool.active) or ".conflict.md" in begun.stdout + begun.stderr, (begun.stdout, begun.stderr)


def test_the_latest_replaced_file_is_kept_whatever_the_clock_says(tmp_path: Path) -> None:
    """After the clock was set back, an append through a descriptor from before a run still comes over with the next one."""
    pool = new_pool(tmp_path)
    for n in range(4):
        save(pool.active, pool.active.read_bytes() + b"\n\n" + delve(f"Round {n}", "2026-05-01"))
        if n == 3:
            for path in (pool.memory_dir / ".coldspark" / "replaced").iterdir():
                path.rename(path.with_name(f"9{path.name}"))  # written under a clock that was ahead
            descriptor = os.open(pool.active, os.O_WRONLY | os.O_APPEND)
        assert run(pool, *COMPACT).returncode == 0
    written = everywhere(pool)
    os.write(descriptor, b"\n\n" + EXTRA)
    os.close(descriptor)
    assert (run(pool, *COMPACT).returncode, everywhere(pool)) == (0, written + Counter([EXTRA_TEXT]))


@needs_strace
@pytest.mark.parametrize("at", [("fsync", 8), ("write", 2), ("rename", 2), ("renameat2", 1)], ids=lambda at: at[0])
def test_a_lock_that_is_removed_while_it_is_held_loses_nothing(tmp_path: Path, at: tuple[str, int]) -> None:
    """A second run comes in beside the first; each entry is there once all the same."""
    pool = new_pool(tmp_path)
    written = everywhere(pool)

    def intrude() -> None:
        (pool.memory_dir / ".coldspark" / "lock").unlink()
        assert run(pool, *COMPACT).returncode in {0, 5}

    begun = stop(pool, [(at, intrude)])
    assert "Traceback" not in begun.stderr
    again = run(pool, *COMPACT)
    assert (again.returncode, everywhere(pool), litter(pool)) == (0, written, set()), (begun.stderr, again.stderr)


def test_a_lock_with_the_number_of_a_living_process_means_nothing(tmp_path: Path) -> None:
    """Only the kernel's lock counts, not what the file says."""
    pool = new_pool(tmp_path)
    (pool.memory_dir / ".coldspark").mkdir()
    (pool.memory_dir / ".coldspark" / "lock").write_text(f"{os.getpid()}\n")
    assert run(pool, *COMPACT).returncode == 0


def test_a_folder_in_the_place_of_the_lock_changes_nothing(tmp_path: Path) -> None:
    """The run ends with one sentence."""
    pool = new_pool(tmp_path)
    (pool.memory_dir / ".coldspark" / "lock").mkdir(parents=True)
    refused = run(pool, *COMPACT)
    assert (refused.returncode, tiers(pool)) == (5, (MIXED, OLD_ARCHIVE))
    assert refused.stderr.startswith(f"coldspark: Refused to touch {pool.memory_dir}/.coldspark/lock: it is not a regular file of its own.")
    assert refused.stderr.count("\n") == 1


def test_tiers_that_are_one_file_are_refused(tmp_path: Path) -> None:
    """An archive that leads to the active file would take the batch back into it."""
    pool = new_pool(tmp_path, archive=None)
    pool.archive.symlink_to(pool.active_file)
    refused = run(pool, *COMPACT)
    assert (refused.returncode, pool.active.read_bytes()) == (5, MIXED), refused.stdout
