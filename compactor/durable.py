"""The only writer of memory files. Each method is one step that is on disk when it returns.

Tests hand in a Disk that stops at a chosen step; `compactor.compact` says in which order the steps come.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from pathlib import Path

from models.errors import WriteFailedError
from models.memory_file import FileState, state_of

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.EXDEV, errno.ENOSYS})

_NO_SWAP = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM})
_SWAP_NAMES = 2  # RENAME_EXCHANGE in linux/fs.h, RENAME_SWAP in macOS's stdio.h
_AT_FDCWD = -100
_ACCESS_LIST = "system.posix_acl_access"


class Disk:
    """Durable file operations; every failure of the system is a WriteFailedError."""

    def append(self, path: Path, data: bytes, mode: int = 0o600) -> None:
        """Appends *data*, creating the file with *mode*, and syncs the file."""
        with _reported(path):
            is_new = not path.exists()
            fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, mode)
            try:
                if is_new:
                    give_to_owner(fd, path)
                _write_all(fd, data)
                _sync(fd)
            finally:
                os.close(fd)

    def write_new(self, path: Path, data: bytes, like: Path | None = None) -> FileState:
        """Creates *path* with *data*, with mode, owner, access list and other attributes of *like* (else 0600), and syncs it."""
        with _reported(path):
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                if like is not None:
                    _take_after(fd, like)
                else:
                    give_to_owner(fd, path)
                _write_all(fd, data)
                _sync(fd)
            finally:
                os.close(fd)
        state = state_of(path)
        if state is None or state.size != len(data):
            raise WriteFailedError(path, "the file just written is not there or has another size")
        return state

    def replace(self, new: Path, path: Path) -> None:
        """Puts *new* in the place of *path*, atomically."""
        with _reported(path):
            os.replace(new, path)

    def swap(self, new: Path, path: Path) -> bool:
        """Lets two files change names, atomically; False where the system cannot."""
        error = _exchange(new, path)
        if error in _NO_SWAP:
            return False
        if error:
            raise WriteFailedError(path, os.strerror(error))
        return True

    def link(self, path: Path, kept: Path) -> bool:
        """Gives the file at *path* a second name; False where the file system has no hard links."""
        try:
            kept.hardlink_to(path)
        except OSError as error:
            if error.errno in _NO_HARD_LINKS:
                return False
            raise WriteFailedError(kept, error.strerror or str(error)) from error
        return True

    def truncate(self, path: Path, size: int) -> None:
        """Cuts *path* back to *size* bytes and syncs it."""
        with _reported(path):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.ftruncate(fd, size)
                _sync(fd)
            finally:
                os.close(fd)

    def sync_file(self, path: Path) -> None:
        """Makes the file's bytes durable."""
        with _reported(path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _sync(fd)
            finally:
                os.close(fd)

    def remove(self, path: Path) -> None:
        """Removes *path* if it is there."""
        with _reported(path):
            path.unlink(missing_ok=True)

    def rename(self, path: Path, name: Path) -> None:
        """Renames a file of our own."""
        with _reported(path):
            path.rename(name)

    def make_folder(self, path: Path) -> None:
        """Creates a private folder if it is not there, and makes its name durable."""
        if path.is_dir():
            return
        if not path.parent.is_dir():
            self.make_folder(path.parent)
        with _reported(path):
            path.mkdir(mode=0o700, exist_ok=True)
            give_to_owner(path, path)
        self.sync_folder(path.parent)

    def sync_folder(self, path: Path) -> None:
        """Makes the names in the folder durable."""
        with _reported(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _sync(fd)
            finally:
                os.close(fd)


class _reported:  # noqa: N801 - reads as a clause: `with _reported(path)`
    """Turns the system's errors at *path* into WriteFailedError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise WriteFailedError(self.path, error.strerror or str(error)) from error


def _exchange(one: Path, other: Path) -> int:
    """Linux's renameat2 with RENAME_EXCHANGE, or macOS's renamex_np with RENAME_SWAP; answers the error number, 0 for none."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _SWAP_NAMES)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(paths[0], paths[1], _SWAP_NAMES)
    else:
        return errno.ENOSYS
    return ctypes.get_errno() if failed else 0


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def give_to_owner(file: int | Path, path: Path) -> None:
    """Gives what root makes at *path* to the owner of the folder, whom it would lock out otherwise."""
    folder = path.parent.stat()
    if os.geteuid() == 0 and folder.st_uid != 0:
        with suppress(OSError):  # not every file system knows owners
            os.chown(file, folder.st_uid, folder.st_gid)


def _sync(fd: int) -> None:
    """fsync; where that only reaches the drive's cache (macOS), the call that reaches the platter."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        with suppress(OSError):  # not every file system there knows it
            fcntl.fcntl(fd, full)
            return
    os.fsync(fd)


def _take_after(fd: int, like: Path) -> None:
    found, now = like.stat(), os.fstat(fd)
    if (now.st_uid, now.st_gid) != (found.st_uid, found.st_gid):
        os.fchown(fd, found.st_uid, found.st_gid)
    os.fchmod(fd, found.st_mode & 0o7777)
    wanted = _attributes(like)
    if _ACCESS_LIST in _attributes(fd) and _ACCESS_LIST not in wanted:
        os.removexattr(fd, _ACCESS_LIST)  # it came from the folder's default
    for name in wanted:
        try:
            os.setxattr(fd, name, os.getxattr(like, name))
        except OSError:
            if name == _ACCESS_LIST:  # without it, the mode's group bits would let in more than before
                os.fchmod(fd, found.st_mode & 0o7707)


def _attributes(file: Path | int) -> list[str]:
    """Names of a file's extended attributes (access lists among them), where the system has them (Linux)."""
    try:
        return os.listxattr(file)
    except (AttributeError, OSError):
        return []
