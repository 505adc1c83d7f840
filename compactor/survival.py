"""What the knowledge folder says of entries: which are still alive, which signals a session took up.

Read only. When in doubt an entry counts as alive, since keeping is always safe.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from pathlib import Path

from models.entry import Entry
from models.errors import BrokenSurvivalLogError, UnreadableFileError
from models.memory_file import read_bytes
from models.text import decode

_ALIVE = re.compile(r"(?<![^\W_])alive(?![^\W_])")
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:-]+")
_DRESS = " *_`[]\"'“”"
"""Marks of emphasis, code, links and quotation around a title."""


@dataclass(frozen=True)
class Knowledge:
    """Alive anchors and session texts, folded for comparison; `warnings` are (file, line, message)."""

    anchors: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    warnings: tuple[tuple[Path, int | None, str], ...] = ()

    def is_alive(self, entry: Entry) -> bool:
        """Whether an alive anchor and the title contain one another, in either direction, whatever the case."""
        title = folded(entry.heading.title) if self.anchors else ""
        return bool(title) and any(anchor in title or title in anchor for anchor in self.anchors)

    def is_consumed(self, entry: Entry) -> bool:
        """Whether a session log names the entry's title."""
        title = folded(entry.heading.title) if self.sessions else ""
        return bool(title) and any(title in session for session in self.sessions)


def folded(text: str) -> str:
    """*text* composed, in one case, with single spaces and without marks around it."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split()).strip(_DRESS)


def read_knowledge(folder: Path | None) -> Knowledge:
    """Reads `sparks/` of the knowledge folder; a folder or log that is not there says nothing, but is told.

    Raises UnreadableFileError or BrokenSurvivalLogError: without the log nobody can say what is alive.
    """
    sparks = folder / "sparks" if folder else None
    if folder is None or sparks is None or not (sparks.exists() or sparks.is_symlink()):
        return _without_log(folder or Path("knowledge"))
    logs = _markdown_files(sparks)
    survival = sparks / "survival-log.md"
    sessions = tuple(folded(decode(read_bytes(p, "session log")[0])) for p in logs if p != survival)
    if survival not in logs:
        return replace(_without_log(survival), sessions=sessions)
    anchors, warnings = _read_survival(survival)
    return Knowledge(tuple(anchors), sessions, tuple(warnings))


def _without_log(path: Path) -> Knowledge:
    return Knowledge(warnings=((path, None, "there is no survival log here, so no entry counts as alive"),))


def _markdown_files(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix == ".md")
    except OSError as error:
        raise UnreadableFileError(folder, "knowledge folder", error.strerror or str(error)) from error


def _read_survival(path: Path) -> tuple[list[str], list[tuple[Path, int | None, str]]]:
    """Alive anchors of every table that has Anchor and Status columns, with or without outer pipes."""
    anchors: list[str] = []
    warnings: list[tuple[Path, int | None, str]] = []
    header: list[str] | None = None
    alive_outside = 0
    text = decode(read_bytes(path, "survival log")[0]).removeprefix("\ufeff")
    for number, line in enumerate(text.split("\n"), 1):
        piped = bool(_CELL.search(line)) and not _RULE.fullmatch(line)
        cells = _cells(line) if piped else []
        names = [c.casefold().strip(_DRESS) for c in cells]
        if "status" in names and "anchor" in names:
            header = names
        elif piped and header is not None:
            found, problem = _alive_anchors(cells, header)
            anchors += found
            warnings += [(path, number, problem)] if problem else []
        elif piped and line.strip().startswith("|"):
            raise BrokenSurvivalLogError(path, number, "the table has no Anchor and Status columns")
        elif _ALIVE.search(line.casefold()) and not line.lstrip().startswith("#"):
            alive_outside = alive_outside or number
    if header is None and alive_outside:
        raise BrokenSurvivalLogError(path, alive_outside, "something is alive, but there is no table with Anchor and Status columns")
    return anchors, warnings


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [c.replace("\\|", "|").strip() for c in _CELL.split(inner)]


def _alive_anchors(cells: list[str], header: list[str]) -> tuple[list[str], str | None]:
    """Anchors that this row keeps alive. A row of the wrong width is alive when any cell says so, under every cell."""
    if len(cells) == len(header):
        anchor, status = folded(cells[header.index("anchor")]), cells[header.index("status")]
        if not _ALIVE.search(status.casefold()):
            return [], None
        if not anchor:
            return [], "an alive row names no anchor, so it keeps no entry"
        return [anchor], None
    if not any(_ALIVE.search(c.casefold()) for c in cells):
        return [], None
    words = [folded(c) for c in cells if len(c.strip()) > 3 and not _ALIVE.fullmatch(c.casefold().strip())]
    return [*words, folded(" | ".join(cells))], (
        f"the row has {len(cells)} cells where the table has {len(header)}; every entry it may mean counts as alive"
    )
