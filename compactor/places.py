"""Looking at where the tiers lie before anything is written there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from models.errors import MissingFileError, RefusedError
from models.pool import Pool


def check_places(pool: Pool) -> None:
    """Checks that the tiers of *pool* can be replaced safely. Raises MissingFileError or RefusedError."""
    if not pool.memory_dir.is_dir():
        raise MissingFileError(pool.memory_dir, "memory folder")
    _check(pool.active, replaced=True)
    if pool.archive.is_symlink() or pool.archive.exists():
        _check(pool.archive, replaced=False)
    for folder in {pool.memory_dir, pool.active.resolve().parent}:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise RefusedError(folder, "the folder is read-only", "Make it writable for this user, then run again.")


def _check(path: Path, *, replaced: bool) -> None:
    if path.is_symlink() and not path.exists():
        raise MissingFileError(path, "file", path.readlink())
    if not path.exists():
        raise MissingFileError(path, "active file")
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise RefusedError(path, "it is not a regular file", "Put the spark log itself there.")
    if not os.access(path, os.R_OK | os.W_OK):
        raise RefusedError(path, "this user may not read and write it", "Run as its owner, or correct its mode.")
    if replaced and found.st_nlink > 1:
        raise RefusedError(
            path, f"it has {found.st_nlink} hard links, and a replacement would part them",
            "Remove the other names (`find -samefile` lists them) or make them symbolic links.",
        )  # fmt: skip
    if replaced and not _can_keep_owner(found):
        raise RefusedError(
            path, f"it belongs to uid {found.st_uid}, gid {found.st_gid}, which this user cannot give to a new file",
            "Run as its owner.",
        )  # fmt: skip


def _can_keep_owner(found: os.stat_result) -> bool:
    if os.geteuid() == 0:
        return True
    groups = {os.getegid(), *os.getgroups()}
    return found.st_uid == os.geteuid() and found.st_gid in groups
