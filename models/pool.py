"""A pool: one memory folder, and where its tiers lie."""

from __future__ import annotations

import datetime as dt
import functools
import os
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Tier = Literal["active", "archive"]
TIERS: tuple[Tier, ...] = ("active", "archive")

CONFLICT = ".conflict.md"
"""How the names of texts end that were set aside."""

_QUARTER = r"\d{4}-Q[1-4]"
_STUB = re.compile(r"\.(.+)\.icloud")
_WORD = r"(?:\w*conflict\w*|conflit|konflikt|copy|copie|copia|cópia|kopie|kopia|kopi|копия|副本|コピー|冲突|競合|конфликт)"
# What editors and sync services put around a name: a word in brackets, "copy 2", a number, a host name; "Copy of" in front.
_BEFORE = r"(?:(?:copy|kopie|copie|copia|cópia|kopia)\s(?:of|von|de|di|av)\s|\.\#|[#.]|~\$)?"
_BEHIND = rf"""(?:
    \ ?[(\[][^()\[\]]*{_WORD}[^()\[\]]*[)\]]
  | \ ?\(\d+\)
  | (?:\ ?[-–]\ ?|\ ){_WORD}(?:\ \d+|\ ?\(\d+\))?
  | [._-]sync-conflict-[\w-]+
  | _conf\(\d+\)
  | _?\d[\d-]*_conflict
  | [ _-]\d{{1,3}}
  | [._-](?:bak|backup|old|orig|save|tmp)
  | -(?:DESKTOP|LAPTOP|WIN|PC|MAC|[A-Z0-9]+-(?:PC|MAC|LAPTOP))(?:-[A-Z0-9]+)*
)*"""  # noqa: RUF001 - the dash that some systems put there
_LEFTOVER = r"(?:~|\.~\d+~|(?:\.(?:tmp|temp|bak|backup|orig|old|save|part|partial|swp|swo|new|rej|mine|crdownload|\d+))+~?)?\#?"


def quarter(day: dt.date) -> str:
    """The calendar quarter as shards are named: `2026-Q2`."""
    return f"{day.year:04d}-Q{(day.month + 2) // 3}"


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

    @property
    def private_dir(self) -> Path:
        """Coldspark's own folder: lock, journal, batch checksums."""
        return self.memory_dir / ".coldspark"

    def shard(self, day: dt.date) -> Path:
        """The archive tier's file for the quarter of *day*."""
        name = Path(self.archive_file)
        return self.memory_dir / f"{name.stem}-{quarter(day)}{name.suffix}"

    def archive_files(self) -> list[Path]:
        """Every file of the archive tier: the first one if it exists, then its quarterly shards in order.

        A file that a cloud service has taken off the disk, leaving a stub, is listed too: it cannot be read, but it exists.
        """
        name = Path(self.archive_file)
        shard = re.compile(rf"{re.escape(name.stem)}-{_QUARTER}{re.escape(name.suffix)}")
        names = {_STUB.sub(r"\1", n) for n in self._names()}
        first = [self.archive_file] if self.archive_file in names else []
        return [self.memory_dir / n for n in (*first, *sorted(filter(shard.fullmatch, names)))]

    def set_aside(self) -> list[Path]:
        """Texts that another program wrote in the very moment a tier was replaced, kept for a person to look at."""
        private = dict.fromkeys(real(path).parent / self.private_dir.name for path in (self.active, self.archive))
        try:
            return sorted(path for folder in private for path in folder.glob(f"replaced*/*{CONFLICT}") if path.is_file())
        except OSError:
            return []

    def copies(self) -> list[Path]:
        """Files beside the tiers that look like copies of them (sync conflicts, backups); no command reads or writes them."""
        tiers = {self.active_file, *(p.name for p in self.archive_files())}
        looks = [_look_alike(Path(name)) for name in (self.active_file, self.archive_file)]
        return [self.memory_dir / n for n in sorted(self._names()) if n not in tiers and any(p.fullmatch(_folded(n)) for p in looks)]

    def _names(self) -> list[str]:
        try:
            return [p.name for p in self.memory_dir.iterdir()]
        except OSError:
            return []


def stub_of(path: Path) -> Path:
    """Where iCloud leaves a stub when it takes the file at *path* off the disk."""
    return path.with_name(f".{path.name}.icloud")


def real(path: Path) -> Path:
    """Where *path* leads in the end; unlike `resolve()`, answers for links in a circle too."""
    return Path(os.path.realpath(path))


@functools.cache
def _look_alike(name: Path) -> re.Pattern[str]:
    """Names that a copy of *name*, or of one of its shards, is given."""
    stem, suffix = (re.escape(_folded(part)) for part in (name.stem, name.suffix))
    pattern = rf"{_BEFORE}(?!{stem}$){stem}(?:-{_QUARTER})?{_BEHIND}(?:{suffix})?{_LEFTOVER}"
    return re.compile(pattern, re.IGNORECASE | re.VERBOSE)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name)
