"""Reading memory files: whole, in binary, with the state by which a later change shows."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from models.errors import EvictedFileError, MissingFileError, UnreadableFileError
from models.pool import stub_of

_DATALESS = 0x4000_0000  # SF_DATALESS in macOS's sys/stat.h: the content is in the cloud


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

    Raises MissingFileError, EvictedFileError, or UnreadableFileError with the system's reason.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind not in (stat.S_IFREG, stat.S_IFDIR):  # a pipe would be waited for, a device may never end; a folder says so itself
            raise UnreadableFileError(path, what, "it is not a regular file")
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if getattr(found, "st_flags", 0) & _DATALESS:
                raise EvictedFileError(path, what)
            data = file.read()
    except FileNotFoundError as error:
        if stub_of(path).exists():
            raise EvictedFileError(path, what) from error
        raise MissingFileError(path, what, path.readlink() if path.is_symlink() else None) from error
    except OSError as error:
        raise UnreadableFileError(path, what, error.strerror or str(error)) from error
    if is_hollow(found) and not data.strip(b"\0"):
        raise EvictedFileError(path, what)  # a size without a block of content, as some sync clients leave it
    return data, _state(found)


def is_hollow(found: os.stat_result) -> bool:
    """Whether a file has a size but no block of content."""
    return found.st_size > 0 and found.st_blocks == 0


def _state(found: os.stat_result) -> FileState:
    return FileState(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
