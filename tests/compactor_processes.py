"""The installed command in real processes that are killed, stopped or failed at a chosen system call, by strace."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from models.pool import Pool
from tests.compactor_disks import MIXED, OLD_ARCHIVE, batch_lines, everywhere, litter
from tests.service_support import until

Case = TypeVar("Case")

COMMAND = Path(sys.executable).with_name("coldspark")
DAY = ("--today", "2026-06-15")
COMPACT = ("compact", *DAY, "--force")
NO_SWAP = "renameat2:error=ENOSYS"
"""An injection: the system cannot let two files change names."""

GROUPS = {
    "rename": ("rename", "renameat", "renameat2"),
    "sync": ("fsync", "fdatasync"),
    "write": ("write", "pwrite64", "writev"),
    "link": ("link", "linkat"),
    "unlink": ("unlink", "unlinkat"),
    "truncate": ("ftruncate", "truncate"),
    "mkdir": ("mkdir", "mkdirat"),
}
_NAMES = frozenset(name for names in GROUPS.values() for name in names)


def _can_trace() -> bool:
    strace = shutil.which("strace")
    return (
        strace is not None and subprocess.run([strace, "-qq", "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0
    )


needs_strace = pytest.mark.skipif(not _can_trace(), reason="strace is missing here, or may not trace")


def new_pool(folder: Path, active: bytes = MIXED, archive: bytes | None = OLD_ARCHIVE) -> Pool:
    """A pool of its own under *folder*."""
    pool = Pool("default", folder / "memory")
    pool.memory_dir.mkdir(parents=True)
    pool.active.write_bytes(active)
    if archive is not None:
        pool.archive.write_bytes(archive)
    return pool


def environment(pool: Pool) -> dict[str, str]:
    """This process's environment without settings, with an empty home; start-up writes nothing, so that all writes are ours."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("COLDSPARK", "XDG_"))}
    return kept | {"HOME": str(pool.memory_dir.parent / "home"), "PYTHONDONTWRITEBYTECODE": "1"}


def line(pool: Pool, *arguments: str) -> list[str]:
    """The command line that runs a verb over *pool*."""
    return [str(COMMAND), *arguments, "--memory-dir", str(pool.memory_dir)]


def run(pool: Pool, *arguments: str, before: Iterable[str] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, perhaps under the command *before* it."""
    return subprocess.run(
        [*before, *line(pool, *arguments)], env=environment(pool), capture_output=True, text=True, check=False, timeout=60
    )


def strace(*injections: str, output: str | Path = os.devnull, swiftly: bool = False) -> list[str]:
    """What makes the command after it suffer *injections*; *swiftly* does for errors and delays, not for signals."""
    names = [injection.partition(":")[0] for injection in injections] or [f"?{name}" for name in sorted(_NAMES)]
    options = [option for injection in injections for option in ("-e", f"inject={injection}")]
    speed = ["--seccomp-bpf"] if swiftly else []
    return ["strace", "-f", "-qq", *speed, "-o", str(output), "-e", f"trace={','.join(dict.fromkeys(names))}", *options]


def calls(pool: Pool, *injections: str) -> list[str]:
    """The names of the system calls of a whole compaction that change a disk, in order."""
    trace = pool.memory_dir.parent / "trace"
    done = run(pool, *COMPACT, before=[*strace(output=trace), *(o for i in injections for o in ("-e", f"inject={i}"))])
    assert done.returncode == 0, done.stderr
    return re.findall(r"^\d+ +(\w+)\(", trace.read_text(), re.MULTILINE)


def kill(pool: Pool, name: str, n: int, *injections: str) -> None:
    """Runs a compaction that is killed as it begins the n-th call of that name."""
    killed = run(pool, *COMPACT, before=strace(f"{name}:signal=KILL:when={n}", *injections))
    assert killed.returncode == -signal.SIGKILL, (name, n, killed.stderr)


def stop(
    pool: Pool, stops: Iterable[tuple[tuple[str, int], Callable[[], object]]], *injections: str, only: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a compaction that stands still right behind each n-th call of a name, while something else happens, and goes on.

    With *only*, calls count that have to do with this path.
    """
    trace = pool.memory_dir.parent / "trace"
    tracing = strace(*(f"{name}:signal=STOP:when={n}" for (name, n), _ in stops), *injections, output=trace)
    process = subprocess.Popen(
        [*tracing, *(("-P", str(only)) if only else ()), *line(pool, *COMPACT)],
        env=environment(pool), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip
    try:
        for count, (_, meanwhile) in enumerate(stops, 1):
            until(partial(_has_stopped, trace, count))
            meanwhile()
            os.kill(_stopped(trace), signal.SIGCONT)
        answer, said = process.communicate(timeout=60)
    except BaseException:
        os.kill(_stopped(trace), signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, answer, said)


def _has_stopped(trace: Path, times: int) -> bool:
    return trace.exists() and trace.read_text().count("stopped by SIGSTOP") == times


def _stopped(trace: Path) -> int:
    found = re.search(r"^(\d+) .*stopped by SIGSTOP", trace.read_text(), re.MULTILINE)
    assert found
    return int(found[1])


@dataclass(frozen=True)
class End:
    """What a compaction leaves: both tiers, the list of batches, and the replaced files that are kept."""

    active: bytes
    archive: bytes
    batches: tuple[dict[str, Any], ...]
    replaced: Counter[bytes]

    @classmethod
    def of(cls, pool: Pool) -> End:
        """As it stands; there must be no litter."""
        assert litter(pool) == set()
        kept = sorted((pool.memory_dir / ".coldspark" / "replaced").iterdir())
        assert [p.name for p in kept if not re.fullmatch(r"\d+\.\d+\.[0-9a-f]{16}\.md", p.name)] == []
        lines = tuple({k: v for k, v in line.items() if k != "run"} for line in batch_lines(pool))
        return cls(pool.active.read_bytes(), pool.archive.read_bytes(), lines, Counter(p.read_bytes() for p in kept))


def ids(pool: Pool) -> frozenset[str]:
    """The entries that a reader is told of."""
    listed = run(pool, "entries", "--json")
    assert listed.returncode == 0, listed.stderr
    return frozenset(entry["id"] for entry in json.loads(listed.stdout)["entries"])


@dataclass(frozen=True)
class Whole:
    """An undisturbed compaction of such a pool."""

    calls: tuple[str, ...]
    end: End
    ids: frozenset[str]
    entries: Counter[bytes]

    @classmethod
    def seen(cls, folder: Path, *injections: str) -> Whole:
        """Watches one."""
        pool = new_pool(folder)
        known, entries = ids(pool), everywhere(pool)
        return cls(tuple(calls(pool, *injections)), End.of(pool), known, entries)

    def of_group(self, group: str) -> list[tuple[str, int]]:
        """Every call of the group: its name and which of that name it is."""
        return [(name, n + 1) for name, count in Counter(self.calls).items() if name in GROUPS[group] for n in range(count)]

    def gaps(self) -> list[tuple[str, int]]:
        """Every call of every group, in order."""
        return [(name, self.calls[: i + 1].count(name)) for i, name in enumerate(self.calls)]


def tiers(pool: Pool) -> tuple[bytes, bytes | None]:
    """The bytes of both files."""
    return (pool.active.read_bytes(), pool.archive.read_bytes() if pool.archive.exists() else None)


def for_each(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Checks all cases, two at a time, and fails with every failure."""

    def failure(case: Case) -> str:
        try:
            check(case)
        except AssertionError as error:
            return f"{case}: {error}"
        return ""

    with ThreadPoolExecutor(2) as threads:
        failures = [text for text in threads.map(failure, cases) if text]
    assert not failures, "\n\n".join(failures)
