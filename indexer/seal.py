"""A seal on a folder: says that it was closed in good order, and that nobody touched it since."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from models.memory_file import state_of


class Seal:
    """Lies beside the folder. It is broken, durably, before the folder is opened, and put on again when that was closed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder.with_name(f"{folder.name}.seal")

    @property
    def holds(self) -> bool:
        """Whether the folder's files are just as they were when the seal was put on."""
        try:
            return self.path.read_text(encoding="utf-8") == self._listing()
        except (OSError, UnicodeDecodeError):
            return False

    def put(self) -> None:
        """Seals the folder, if it is still there; without room for a seal there is none, which costs a check at most."""
        if not self.folder.is_dir():
            return
        temp = self.path.with_name(f"{self.path.name}.tmp")
        with suppress(OSError):
            with temp.open("w", encoding="utf-8") as file:
                file.write(self._listing())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temp, self.path)
            _sync(self.path.parent)

    def take_off(self) -> None:
        """Breaks the seal; on disk when this returns, so that a loss of power later is seen as an unclean end."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return
        _sync(self.path.parent)

    def _listing(self) -> str:
        files = sorted(p for p in self.folder.rglob("*") if p.is_file())
        states = ((p, state_of(p)) for p in files)
        lines = [f"{p.relative_to(self.folder)} {s.ino} {s.size} {s.mtime_ns}\n" for p, s in states if s is not None]
        return "".join([f"{len(lines)} files\n", *lines])


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
