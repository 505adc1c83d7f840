"""The log of a service in the background: a file of bounded size that only its owner can read."""

from __future__ import annotations

import io
import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TextIO

LARGEST_LOG = 512 * 1024
"""Bytes, after which a log is put aside as `service.log.1` and a new one begun."""


def log_file(state_dir: Path) -> Path:
    """Where a service in the background writes what it has to say."""
    return state_dir / "service.log"


def open_log(path: Path) -> int:
    """A descriptor for appending to *path*, which is its owner's alone; a link in its place is not followed. Raises OSError."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    os.fchmod(fd, 0o600)
    return fd


class OwnLog(RotatingFileHandler):
    """Writes to *path*, and takes standard output and error along, so that a crash in native code is told there too."""

    def __init__(self, path: Path, largest: int = LARGEST_LOG, descriptors: tuple[int, ...] = (1, 2)) -> None:
        self._descriptors = descriptors
        super().__init__(path, maxBytes=largest, backupCount=1, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))

    def _open(self) -> io.TextIOWrapper:
        fd = open_log(Path(self.baseFilename))
        for standard in self._descriptors:
            os.dup2(fd, standard)
        return os.fdopen(fd, "a", encoding="utf-8", errors="backslashreplace")


class TerminalLog(logging.StreamHandler[TextIO]):
    """Writes to a terminal, or a pipe, as long as it is there: a service outlives its reader."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        """Goes on without a reader that has gone."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)
            return
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123 - what is still buffered must not fail once more at the end
            os.dup2(nowhere.fileno(), self.stream.fileno())
