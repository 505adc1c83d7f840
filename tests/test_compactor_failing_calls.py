"""A run whose system calls fail ends with one sentence, both tiers whole, and the next run completes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compactor_disks import MIXED, OLD_ARCHIVE
from tests.compactor_processes import COMPACT, GROUPS, NO_SWAP, End, Whole, for_each, needs_strace, new_pool, run, strace, tiers

pytestmark = needs_strace

ERRORS = {"rename": "EACCES", "sync": "EIO", "write": "ENOSPC", "link": "EACCES", "unlink": "EACCES", "truncate": "EIO", "mkdir": "ENOSPC"}


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("group", [g for g in GROUPS if g != "link"])
def test_a_failing_call_leaves_both_tiers_whole(tmp_path: Path, whole: Whole, group: str, *, lasting: bool) -> None:
    """The move is done or undone, never half; the next run completes."""
    _fail_everywhere(tmp_path, whole, whole.of_group(group), ERRORS[group], lasting=lasting)


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("group", ["rename", "link", "unlink"])
def test_a_failing_call_where_files_cannot_swap_leaves_both_tiers_whole(
    tmp_path: Path, linked: Whole, group: str, *, lasting: bool
) -> None:
    """The way over a second name fails as cleanly."""
    failures = [at for at in linked.of_group(group) if at[0] != "renameat2"]
    _fail_everywhere(tmp_path, linked, failures, ERRORS[group], NO_SWAP, lasting=lasting)


def _fail_everywhere(folder: Path, whole: Whole, failures: list[tuple[str, int]], error: str, *injections: str, lasting: bool) -> None:
    assert failures

    def check(at: tuple[str, int]) -> None:
        name, n = at
        pool = new_pool(folder / f"{name}-{n}")
        injection = f"{name}:error={error}:when={n}{'+' if lasting else ''}"
        failed = run(pool, *COMPACT, before=strace(injection, *injections, swiftly=True))
        is_mute = lasting and name == "write"  # nobody can tell anything then
        assert "Traceback" not in failed.stderr, (injection, failed.stderr)
        if tiers(pool) != (whole.end.active, whole.end.archive):
            assert tiers(pool) == (MIXED, OLD_ARCHIVE), (injection, failed.stderr)
            assert failed.returncode == 5 or is_mute, (injection, failed.stderr)
        if failed.returncode and not is_mute:
            assert failed.stderr.startswith("coldspark: "), (injection, failed.stderr)
            assert failed.stderr.count("\n") == 1, (injection, failed.stderr)
        again = run(pool, *COMPACT)
        assert (again.returncode, End.of(pool)) == (0, whole.end), (injection, again.stderr)

    for_each(failures, check)
