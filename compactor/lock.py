"""One process at a time: an operating-system lock on a file that is never deleted.

The kernel frees it when its holder ends, however it ends, so a stale process id or a garbled lock file means nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from compactor.durable import give_to_owner
from models.errors import BusyError, RefusedError, WriteFailedError

_POLL_SECONDS = 0.05


@contextmanager
def held(path: Path, what: str, wait_seconds: float = 5.0) -> Iterator[None]:
    """Holds the lock at *path* for the `with` block; its folder must exist.

    Raises BusyError when another process keeps it longer than *wait_seconds*.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise WriteFailedError(path, error.strerror or str(error)) from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise RefusedError(path, "it is not a lock file of its own", "Remove it, then run again.")
        give_to_owner(fd, path)
        _acquire(fd, path, what, time.monotonic() + wait_seconds)
        with suppress(OSError):  # the number only names the holder to others; a full disk need not stop the work
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def holder(path: Path) -> str | None:
    """Who holds the lock at *path*, if anybody does; takes and writes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(fd)
    finally:
        os.close(fd)
    return None


def _named(fd: int) -> str:
    pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
    return f"process {pid}" if pid.isdigit() else "another process"


def _acquire(fd: int, path: Path, what: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise BusyError(what, path, _named(fd)) from None
            time.sleep(_POLL_SECONDS)
        else:
            return
