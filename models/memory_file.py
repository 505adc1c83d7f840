"""Reading memory files: whole, in binary, with the state by which a later change shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from models.errors import MissingFileError, UnreadableFileError


@dataclass(frozen=True, slots=True)
class FileState:
    """What the file system says of a file: device, inode, size in bytes, modification time in ns."""

    dev: int
    ino: int
    size: int
    mtime_ns: int


def state_of(path: Path) -> FileState | None:
    """The state of the file that *path* leads to, or None when there is none."""
    try:
        return _state(path.stat())
    except OSError:
        return None


def read_bytes(path: Path, what: str) -> tuple[bytes, FileState]:
    """All bytes of *path* and its state just before they were read, so that a change meanwhile shows later.

    Raises MissingFileError, or UnreadableFileError with the system's reason.
    """
    try:
        with path.open("rb") as file:
            before = _state(os.fstat(file.fileno()))
            return file.read(), before
    except FileNotFoundError as error:
        raise MissingFileError(path, what, path.readlink() if path.is_symlink() else None) from error
    except OSError as error:
        raise UnreadableFileError(path, what, error.strerror or str(error)) from error


def _state(stat: os.stat_result) -> FileState:
    return FileState(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
