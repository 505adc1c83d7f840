"""Which generation of the index is in use: a name in the file `current`."""

from __future__ import annotations

import os
from pathlib import Path


def current_generation(state_dir: Path) -> Path | None:
    """The folder of the index in use, if any; reads only."""
    try:
        name = (state_dir / "index" / "current").read_text(encoding="ascii").strip()
        folder = state_dir / "index" / name
        return folder if name.isalnum() and folder.is_dir() else None
    except (OSError, UnicodeDecodeError):
        return None


def use_generation(folder: Path) -> None:
    """Puts the generation in *folder* in use, atomically."""
    temp = folder.parent / "current.tmp"
    temp.write_text(folder.name, encoding="ascii")
    os.replace(temp, folder.parent / "current")
