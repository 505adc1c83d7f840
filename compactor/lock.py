"""One process at a time: an operating-system lock on a file that is never deleted.

The kernel frees it when its holder ends, however it ends, so a stale process id or a garbled lock file means nothing.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from models.errors import BusyError, WriteFailedError

_POLL_SECONDS = 0.05


@contextmanager
def held(path: Path, what: str, wait_seconds: float = 5.0) -> Iterator[None]:
    """Holds the lock at *path* for the `with` block; its folder must exist.

    Raises BusyError when another process keeps it longer than *wait_seconds*.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WriteFailedError(path, error.strerror or str(error)) from error
    try:
        _acquire(fd, path, what, time.monotonic() + wait_seconds)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, path: Path, what: str, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                pid = os.pread(fd, 20, 0).decode("ascii", "replace").strip()
                raise BusyError(what, path, f"process {pid}" if pid.isdigit() else "another process") from None
            time.sleep(_POLL_SECONDS)
        else:
            return
