"""On a full disk a run ends with one sentence and nothing changed; with room again the next one completes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.log import parse
from models.pool import Pool
from tests.compactor_disks import everywhere
from tests.compactor_processes import COMPACT, End, environment, for_each, line, new_pool, run, tiers
from tests.samples import HEADER, delve, log

KB = 1024
MOVING = [delve(f"Move {n}", "2026-05-01") + b"x" * 8 * KB + b"\n" for n in range(20)]
STAYING = [delve(f"Stay {n}", "2026-05-01", "absorb -- fits") + b"y" * 8 * KB + b"\n" for n in range(5)]
ACTIVE = HEADER + log(*(entry for n in range(20) for entry in (MOVING[n], *STAYING[n // 4 : n // 4 + (n % 4 == 0)])))
ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-01-09 \xe2\x80\x94 128 entries (date range: 2026-01-01 to 2026-01-01)\n\n" + log(
    *(delve(f"Old {n}", "2026-01-01") + b"z" * 8 * KB + b"\n" for n in range(128))
)


def _can_mount() -> bool:
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    tools = all(shutil.which(tool) for tool in ("unshare", "nsenter", "mount"))
    return tools and subprocess.run(tried, capture_output=True, check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _can_mount(), reason="only root, on Linux, can mount a small file system of its own")


class SmallDisk:
    """A file system of 4 MB that only one process sees; `memory` is the pool as that process names it, `seen` as we do."""

    def __init__(self, mount: Path, pid: int) -> None:
        self.enter = ["nsenter", "--target", str(pid), "--mount"]
        self.folder = Path(f"/proc/{pid}/root{mount}")
        self.seen = new_pool(self.folder, ACTIVE, ARCHIVE)
        self.memory = Pool("default", mount / "memory")

    def leave(self, free: int) -> None:
        """Fills the disk but for *free* bytes."""
        found = os.statvfs(self.folder)
        (self.folder / "filler").write_bytes(bytes(found.f_bavail * found.f_frsize - free))
        found = os.statvfs(self.folder)
        assert found.f_bavail * found.f_frsize == free

    def make_room(self) -> None:
        """Frees what was filled."""
        (self.folder / "filler").unlink()

    def compact(self) -> subprocess.CompletedProcess[str]:
        """Compacts as a process that sees the disk."""
        return subprocess.run(
            [*self.enter, *line(self.memory, *COMPACT)], cwd="/", env=environment(self.memory), capture_output=True, text=True, check=False
        )


@contextmanager
def small_disk(mount: Path) -> Iterator[SmallDisk]:
    """A small disk, for as long as a shell keeps its namespace alive."""
    mount.mkdir()
    script = f"mount -t tmpfs -o size={4 * KB * KB} none '{mount}' && echo mounted && read line"
    with subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        assert shell.stdin is not None
        assert shell.stdout.readline() == b"mounted\n"
        yield SmallDisk(mount, shell.pid)
        shell.stdin.close()


def test_a_full_disk_changes_nothing_and_the_next_run_completes(tmp_path: Path) -> None:
    """However little room there is, and whichever of the files it does not suffice for."""
    roomy = new_pool(tmp_path / "roomy", ACTIVE, ARCHIVE)
    assert run(roomy, *COMPACT).returncode == 0
    end = End.of(roomy)
    said: list[str] = []

    def check(free: int) -> None:
        with small_disk(tmp_path / f"{free} KB") as disk:
            disk.leave(free * KB)
            full = disk.compact()
            if full.returncode:
                assert (full.returncode, full.stderr.count("\n"), full.stderr[:11]) == (5, 1, "coldspark: "), full.stderr
                said.append(full.stderr)
            if tiers(disk.seen) != (end.active, end.archive):
                assert (full.returncode, tiers(disk.seen)) == (5, (ACTIVE, ARCHIVE)), full.stderr
            disk.make_room()
            again = disk.compact()
            assert (again.returncode, End.of(disk.seen)) == (0, end), again.stderr

    for_each([*range(0, 20, 4), 64, 128, 160, *range(168, 240, 4)], check)
    failed = [word for word in ("journal.tmp", "archive.md", ".dream-sparks.md.") if any(word in text for text in said)]
    assert failed == ["journal.tmp", "archive.md", ".dream-sparks.md."]
    assert everywhere(roomy) == Counter(e.text for data in (ACTIVE, ARCHIVE) for e in parse(data).entries)
