"""Looking at where the tiers lie before anything is written there."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from compactor.journal import Desk
from models.errors import ColdsparkError, EvictedFileError, MissingFileError, RefusedError, UnreadableFileError
from models.memory_file import is_hollow, state_of
from models.pool import Pool, real, stub_of

_MOUNTS = Path("/proc/self/mountinfo")


def check_places(pool: Pool, *, replaced: tuple[Path, ...] | None = None, appended: tuple[Path, ...] = ()) -> None:
    """Checks that the files in *replaced* (by default the active one) can be replaced, and those in *appended* written to.

    Raises MissingFileError, EvictedFileError or RefusedError.
    """
    problem = next(problems(pool, replaced=replaced or (pool.active,), appended=appended), None)
    if problem is not None:
        raise problem


def check_private(pool: Pool) -> None:
    """Checks that Coldspark's own folder, if it is there, is one that can be used. Raises RefusedError."""
    problem = next(_of_private(pool), None)
    if problem is not None:
        raise problem


def problems(pool: Pool, *, replaced: tuple[Path, ...], appended: tuple[Path, ...]) -> Iterator[ColdsparkError]:
    """Everything about the places of *pool* that would keep a run from writing there."""
    if not pool.memory_dir.is_dir():
        yield MissingFileError(pool.memory_dir, "memory folder")
        return
    yield from _of_private(pool)
    for path in replaced:
        yield from _of_file(path, replaced=True)
    for path in appended:
        if path.is_symlink() or path.exists() or stub_of(path).exists():
            yield from _of_file(path, replaced=False)
    yield from _of_twins((*replaced, *appended, *pool.archive_files()))
    for folder in dict.fromkeys((pool.memory_dir, *(real(path).parent for path in replaced))):
        if folder.is_dir() and not _may(folder, os.W_OK | os.X_OK):
            yield RefusedError(folder, "the folder is read-only", "Make it writable for this user, then run again.")


def _of_private(pool: Pool) -> Iterator[ColdsparkError]:
    """Coldspark's own folder and what it writes there: each file must be one of its own, or a write would go elsewhere."""
    if not _may(pool.memory_dir, os.X_OK):
        return  # said of the memory folder itself
    desk, archive_desk = Desk.of(pool), Desk.of_archive(pool)
    snapshots = (folder for each in (desk, archive_desk) for folder in (each.snapshots.parent, each.snapshots))
    for folder in dict.fromkeys((desk.folder, *snapshots)):
        if os.path.lexists(folder) and not folder.is_dir():
            yield RefusedError(folder, "it is not a folder", "Move it away: Coldspark keeps its own files there.")
            return
        if folder.is_dir() and not _may(folder, os.R_OK | os.W_OK | os.X_OK):
            yield RefusedError(folder, "it is read-only for this user", "Run as its owner, or correct its owner, mode or mount.")
            return
    for each in (desk, archive_desk):
        folder = each.snapshots if each.snapshots.is_dir() else each.snapshots.parent
        beside, source = state_of(folder), state_of(each.source)
        if beside and source and beside.dev != source.dev:
            yield RefusedError(folder, "it lies on another file system than the tiers", "Make it an ordinary folder beside them.")
    for file in (desk.lock, desk.journal, desk.batches):
        if os.path.lexists(file) and not (stat.S_ISREG((found := file.lstat()).st_mode) and found.st_nlink == 1):
            yield RefusedError(file, "it is not a regular file of its own", "Move it away, then run again.")


def _of_twins(paths: Iterable[Path]) -> Iterator[ColdsparkError]:
    """Two names of one file among those that are to be different ones."""
    seen: dict[tuple[int, int], Path] = {}
    for path in dict.fromkeys(paths):
        if (state := state_of(path)) is None:
            continue
        first = seen.setdefault((state.dev, state.ino), path)
        if first != path:
            yield RefusedError(path, f"it is the same file as {first}", "Give each file of the memory a file of its own.")


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _of_file(path: Path, *, replaced: bool) -> Iterator[ColdsparkError]:
    if is_loop(path):
        yield UnreadableFileError(path, "file", "its symbolic links lead in a circle")
        return
    if not path.exists():
        if path.is_symlink():
            yield MissingFileError(path, "file", path.readlink())
        elif stub_of(path).exists():
            yield EvictedFileError(path, "file")
        else:
            yield MissingFileError(path, "active file")
        return
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        yield RefusedError(path, "it is not a regular file", "Put the spark log itself there.")
    elif is_hollow(found) and not path.read_bytes().strip(b"\0"):
        yield EvictedFileError(path, "file")
    elif not _may(path, os.R_OK | os.W_OK):
        yield RefusedError(path, "this user may not read and write it", "Run as its owner, or correct its mode or mount.")
    elif replaced:
        yield from _of_replaced(path, found)


def _of_replaced(path: Path, found: os.stat_result) -> Iterator[ColdsparkError]:
    """What an append could do without, but a replacement cannot."""
    if found.st_nlink > 1:
        yield RefusedError(
            path, f"it has {found.st_nlink} hard links, and a replacement would part them",
            "Remove the other names (`find -samefile` lists them) or make them symbolic links.",
        )  # fmt: skip
    if not _can_keep_owner(found):
        yield RefusedError(
            path, f"it belongs to uid {found.st_uid}, gid {found.st_gid}, which this user cannot give to a new file",
            "Run as its owner.",
        )  # fmt: skip
    if str(real(path)) in mount_points():
        yield RefusedError(
            path, "this single file is mounted from elsewhere, so it cannot be replaced here", "Mount the folder that holds it instead."
        )


def is_loop(path: Path) -> bool:
    """Whether a link leads to itself in the end."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def mount_points(listing: Path = _MOUNTS) -> frozenset[str]:
    """Every path on which something is mounted (Linux; elsewhere single files cannot be)."""
    try:
        lines = listing.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return frozenset()
    return frozenset(re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), line.split(" ")[4]) for line in lines if line.count(" ") > 4)


def _can_keep_owner(found: os.stat_result) -> bool:
    if os.geteuid() == 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    return found.st_uid == os.geteuid() and found.st_gid in groups
