"""What the knowledge folder says of entries: which are still alive, which signals a session took up.

Read only. When in doubt an entry counts as alive, since keeping is always safe.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from models.entry import Entry, decode, readable
from models.errors import BrokenSurvivalLogError, UnreadableFileError
from models.memory_file import read_bytes

_ALIVE = re.compile(r"\balive\b")
_CELL = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r"[\s|:-]+")


@dataclass(frozen=True)
class Knowledge:
    """Alive anchors and session texts, folded for comparison; `warnings` are (file, line, message)."""

    anchors: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    warnings: tuple[tuple[Path, int | None, str], ...] = ()

    def is_alive(self, entry: Entry) -> bool:
        """Whether an alive anchor and the title contain one another, in either direction, whatever the case."""
        title = folded(entry.heading.title)
        return bool(title) and any(anchor in title or title in anchor for anchor in self.anchors)

    def is_consumed(self, entry: Entry) -> bool:
        """Whether a session log names the entry's title."""
        title = folded(entry.heading.title)
        return bool(title) and any(title in session for session in self.sessions)


def folded(text: str) -> str:
    """*text* in one case and with single spaces."""
    return " ".join(text.casefold().split())


def read_knowledge(folder: Path | None) -> Knowledge:
    """Reads `sparks/` of the knowledge folder; a folder or log that is not there says nothing.

    Raises UnreadableFileError or BrokenSurvivalLogError: without the log nobody can say what is alive.
    """
    sparks = folder / "sparks" if folder else None
    if sparks is None or not sparks.is_dir():
        return Knowledge(warnings=((folder or Path("knowledge"), None, "there is no survival log here, so no entry counts as alive"),))
    logs = _markdown_files(sparks)
    survival = sparks / "survival-log.md"
    anchors, warnings = _read_survival(survival) if survival in logs else ([], [])
    sessions = [folded(decode(read_bytes(p, "session log")[0])) for p in logs if p != survival]
    return Knowledge(tuple(anchors), tuple(sessions), tuple(warnings))


def _markdown_files(folder: Path) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix == ".md")
    except OSError as error:
        raise UnreadableFileError(folder, "knowledge folder", error.strerror or str(error)) from error


def _read_survival(path: Path) -> tuple[list[str], list[tuple[Path, int | None, str]]]:
    anchors: list[str] = []
    warnings: list[tuple[Path, int | None, str]] = []
    header: list[str] | None = None
    for number, line in enumerate(decode(read_bytes(path, "survival log")[0]).split("\n"), 1):
        if not line.strip().startswith("|") or _RULE.fullmatch(line):
            continue
        cells = _cells(line)
        names = [c.casefold().strip("*_ ") for c in cells]
        if header is None or ("status" in names and "anchor" in names):
            header = names
            if "status" not in header or "anchor" not in header:
                raise BrokenSurvivalLogError(path, number, "the table has no Anchor and Status columns")
            continue
        found, problem = _alive_anchors(cells, header)
        anchors += found
        if problem:
            warnings.append((path, number, problem))
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
        f"the row has {readable(str(len(cells)))} cells where the table has {len(header)}; every entry it may mean counts as alive"
    )
