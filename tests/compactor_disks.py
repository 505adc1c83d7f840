"""Disks that fail, crash or are interfered with at a chosen step, and small views of a pool for the compactor's tests."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from compactor.durable import Disk
from compactor.survey import Request
from models.errors import WriteFailedError
from models.log import parse
from models.memory_file import FileState
from models.pool import Pool
from models.settings import Settings
from tests.samples import HEADER, KILN, delve, log

TODAY = dt.date(2026, 6, 15)
NOON = dt.datetime(2026, 6, 15, 12, tzinfo=dt.UTC)

When = Literal["before", "after", "torn"]


class PowerCutError(Exception):
    """The process ends here; no part of the product knows this class."""


class HookedDisk(Disk):
    """Calls `before` and `after` around every step; `steps` lists (operation, path)."""

    def __init__(self, *, swaps: bool = True) -> None:
        self.steps: list[tuple[str, Path]] = []
        self.swaps = swaps

    def before(self, step: str, path: Path) -> None:
        """Runs right before a step."""

    def after(self, step: str, path: Path) -> None:
        """Runs right after a step."""

    def _do(self, step: str, path: Path, action: Callable[[], Any]) -> Any:
        self.steps.append((step, path))
        self.before(step, path)
        result = action()
        self.after(step, path)
        return result

    def append(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Hooked."""
        self._do("append", path, lambda: super(HookedDisk, self).append(path, self.torn(data), mode))

    def write_new(self, path: Path, data: bytes, like: Path | None = None) -> FileState:
        """Hooked."""
        state: FileState = self._do("write_new", path, lambda: super(HookedDisk, self).write_new(path, self.torn(data), like))
        return state

    def replace(self, new: Path, path: Path) -> None:
        """Hooked."""
        self._do("replace", path, lambda: super(HookedDisk, self).replace(new, path))

    def swap(self, new: Path, path: Path) -> bool:
        """Hooked; a system that cannot swap takes no step."""
        return self.swaps and bool(self._do("swap", path, lambda: super(HookedDisk, self).swap(new, path)))

    def link(self, path: Path, kept: Path) -> bool:
        """Hooked."""
        return bool(self._do("link", path, lambda: super(HookedDisk, self).link(path, kept)))

    def truncate(self, path: Path, size: int) -> None:
        """Hooked."""
        self._do("truncate", path, lambda: super(HookedDisk, self).truncate(path, size))

    def sync_file(self, path: Path) -> None:
        """Hooked."""
        self._do("sync_file", path, lambda: super(HookedDisk, self).sync_file(path))

    def remove(self, path: Path) -> None:
        """Hooked."""
        self._do("remove", path, lambda: super(HookedDisk, self).remove(path))

    def rename(self, path: Path, name: Path) -> None:
        """Hooked."""
        self._do("rename", path, lambda: super(HookedDisk, self).rename(path, name))

    def make_folder(self, path: Path) -> None:
        """Hooked."""
        self._do("make_folder", path, lambda: super(HookedDisk, self).make_folder(path))

    def sync_folder(self, path: Path) -> None:
        """Hooked."""
        self._do("sync_folder", path, lambda: super(HookedDisk, self).sync_folder(path))

    def torn(self, data: bytes) -> bytes:
        """What of *data* reaches the disk: all of it."""
        return data


class CrashingDisk(HookedDisk):
    """Ends the process right before or after step *at* (from 1), or in the middle of its write; a dead process does nothing more."""

    def __init__(self, at: int, when: When, *, swaps: bool = True) -> None:
        super().__init__(swaps=swaps)
        self.at = at
        self.when = when

    @property
    def crashed(self) -> bool:
        """Whether the step was reached."""
        return len(self.steps) >= self.at

    def before(self, step: str, path: Path) -> None:
        """The crash before."""
        if len(self.steps) > self.at or (len(self.steps) == self.at and self.when == "before"):
            raise PowerCutError(step)

    def after(self, step: str, path: Path) -> None:
        """The crash after."""
        if len(self.steps) == self.at:
            raise PowerCutError(step)

    def torn(self, data: bytes) -> bytes:
        """Half of a write that is cut short."""
        return data[: len(data) // 2] if len(self.steps) == self.at and self.when == "torn" else data


class FullDisk(HookedDisk):
    """Fails step *at* (from 1), and every later one too when *lasting*."""

    def __init__(self, at: int, *, lasting: bool) -> None:
        super().__init__()
        self.at = at
        self.lasting = lasting

    @property
    def failed(self) -> bool:
        """Whether the step was reached."""
        return len(self.steps) >= self.at

    def before(self, step: str, path: Path) -> None:
        """The failure."""
        if len(self.steps) == self.at or (self.lasting and self.failed):
            raise WriteFailedError(path, "No space left on device")


class MeddledDisk(HookedDisk):
    """Lets another program act right before step *at* (from 1)."""

    def __init__(self, at: int, meddle: Callable[[], None]) -> None:
        super().__init__()
        self.at = at
        self.meddle = meddle

    @property
    def meddled(self) -> bool:
        """Whether the step was reached."""
        return len(self.steps) >= self.at

    def before(self, step: str, path: Path) -> None:
        """The other program's turn."""
        if len(self.steps) == self.at:
            self.meddle()


def request(pool: Pool, *, force: bool = True, now: dt.datetime = NOON, **settings: Any) -> Request:
    """A compaction on the day of *now*, forced unless told otherwise."""
    return Request(pool, Settings(now=now, **settings), now.date(), force)


def entries_of(path: Path) -> list[bytes]:
    """The texts of a file's entries, in order."""
    return [e.text for e in parse(path.read_bytes(), archive="archive" in path.name).entries] if path.exists() else []


def everywhere(pool: Pool) -> Counter[bytes]:
    """Every entry's text over both tiers, counted."""
    return Counter([*entries_of(pool.active), *entries_of(pool.archive)])


def litter(pool: Pool) -> set[str]:
    """Names in the memory folder besides the two tiers and the private folder; the journal counts as litter."""
    names = {p.name for p in pool.memory_dir.iterdir()} - {pool.active_file, pool.archive_file, ".coldspark"}
    private = pool.memory_dir / ".coldspark"
    kept = {"lock", "batches.jsonl", "replaced"}
    return names | ({p.name for p in private.iterdir()} - kept if private.exists() else set())


def tree(folder: Path) -> dict[str, tuple[int, int, bytes | None]]:
    """Mode, modification time and bytes of everything under *folder*."""
    found: dict[str, tuple[int, int, bytes | None]] = {}
    for path in sorted([folder, *folder.rglob("*")]):
        stat = path.lstat()
        found[str(path)] = (stat.st_mode, stat.st_mtime_ns, path.read_bytes() if path.is_file() else None)
    return found


MOVING = (
    delve("Move one", "2026-05-01"),
    delve("Move two", "2026-05-02").replace(b"\n", b"\r\n"),
    KILN,
    delve("Twin", "2026-05-03"),
    delve("Twin", "2026-05-03"),
)
STAYING = (delve("Stay one", "2026-05-01", "absorb -- fits"), b"### [muse] Stay two, \xff\x00 (2026-05-09)\nno final newline")
MIXED = HEADER + log(MOVING[0], STAYING[0], MOVING[1], b"## Night of 2026-05-03\n", *MOVING[2:], STAYING[1])
MIXED_AFTER = HEADER + log(STAYING[0], b"## Night of 2026-05-03\n", STAYING[1])
OLD_ARCHIVE = b"# Dream Sparks Archive\n\n## Archived 2026-05-01 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)\n\n" + (
    delve("Long archived", "2026-01-01").rstrip(b"\n")
)


def lay(pool: Pool, *, archive: bytes | None) -> Counter[bytes]:
    """Empties the memory folder and writes MIXED and *archive* there; answers the entries over both tiers."""
    shutil.rmtree(pool.memory_dir)
    pool.memory_dir.mkdir()
    pool.active.write_bytes(MIXED)
    if archive is not None:
        pool.archive.write_bytes(archive)
    return everywhere(pool)


def batch_lines(pool: Pool) -> list[dict[str, Any]]:
    """The list of batch checksums, parsed."""
    path = pool.memory_dir / ".coldspark" / "batches.jsonl"
    return [json.loads(line) for line in path.read_bytes().splitlines()]
