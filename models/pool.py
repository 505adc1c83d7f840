"""A pool: one memory folder, and where its tiers lie."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Tier = Literal["active", "archive"]
TIERS: tuple[Tier, ...] = ("active", "archive")


@dataclass(frozen=True, slots=True)
class Pool:
    """Where one memory lives."""

    name: str
    memory_dir: Path
    knowledge_dir: Path | None = None
    active_file: str = "dream-sparks.md"
    archive_file: str = "dream-sparks-archive.md"

    @property
    def active(self) -> Path:
        """The active tier's file."""
        return self.memory_dir / self.active_file

    @property
    def archive(self) -> Path:
        """The archive tier's first file."""
        return self.memory_dir / self.archive_file

    def archive_files(self) -> list[Path]:
        """Every file of the archive tier that exists: the first one, then its quarterly shards in order."""
        name = Path(self.archive_file)
        shard = re.compile(rf"{re.escape(name.stem)}-\d{{4}}-Q[1-4]{re.escape(name.suffix)}")
        try:
            names = sorted(p.name for p in self.memory_dir.iterdir())
        except OSError:
            return []
        first = [self.archive_file] if self.archive_file in names else []
        return [self.memory_dir / n for n in (*first, *filter(shard.fullmatch, names))]
