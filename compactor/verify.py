"""Is the archive what was written there? Every batch against its recorded checksum and its own heading. Read only."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from compactor.batch import noted
from compactor.journal import Desk
from models.entry import Entry
from models.errors import MissingFileError
from models.log import BATCH_HEADING, Prose, batches
from models.memory_file import read_bytes
from models.pool import Pool, real
from models.results import FileWarning, VerifiedFile, VerifyResult
from models.snapshot import PoolSnapshot, TierFile, read_pool
from models.text import readable
from models.views import whole_file_warnings


@dataclass
class _Batch:
    """One batch as it stands in a file."""

    file: TierFile
    start: int
    line: int
    heading: str
    entries: list[Entry]
    proven: bool = False

    def problem(self) -> str | None:
        """What of the heading does not fit the entries behind it."""
        m = BATCH_HEADING.match(self.file.data, self.start)
        if m is None or int(m[2]) != len(self.entries):
            return f"{self.heading!r} is followed by {len(self.entries)} entries"
        dates = [e.date.isoformat() for e in self.entries if e.date]
        span = (m[3].decode(), m[4].decode())
        if dates and span != (min(dates), max(dates)):
            return f"{self.heading!r} is followed by entries of {min(dates)} to {max(dates)}"
        return None


@dataclass
class _Findings:
    problems: list[FileWarning] = field(default_factory=list)
    warnings: list[FileWarning] = field(default_factory=list)


def verify_archive(pool: Pool) -> VerifyResult:
    """Checks every batch of the archive tier. Raises MissingFileError when there is no memory folder; all else is a finding."""
    snapshot = read_pool(pool)
    found = _Findings(warnings=whole_file_warnings(snapshot))
    standing = [batch for file in snapshot.tier("archive") for batch in _standing(file, snapshot)]
    missing = [line for line in _recorded(pool, found) if not _prove(line, standing)]
    found.problems += [_missing(line, standing, pool) for line in missing]
    for batch in standing:
        if problem := batch.problem():
            found.problems.append(FileWarning(file=readable(str(batch.file.path)), line=batch.line, message=problem))
    found.problems += _unread(snapshot)
    files = [_verified(file, snapshot, standing) for file in snapshot.tier("archive")]
    return VerifyResult(
        status="damaged" if found.problems else "verified", pool=pool.name, files=files, entries=sum(f.entries for f in files),
        batches=len(standing), proven=sum(b.proven for b in standing), unrecorded=sum(not b.proven for b in standing),
        problems=found.problems, warnings=found.warnings,
    )  # fmt: skip


def _unread(snapshot: PoolSnapshot) -> list[FileWarning]:
    """Archive files that could not be read."""
    paths = [(getattr(problem, "path", None), str(problem)) for problem in snapshot.problems]
    return [FileWarning(file=readable(str(path)), message=message) for path, message in paths if path != snapshot.pool.active]


def _standing(file: TierFile, snapshot: PoolSnapshot) -> Iterator[_Batch]:
    """The batches of one file, but for one that is only being written."""
    entries, pending = list(snapshot.entries_of(file)), snapshot.pending
    starts = [e.start for e in entries]
    # Whatever looks like a batch's heading ends the batch before it.
    loose = [s.start for s in file.log.spans if isinstance(s, Prose) and s.raw.lstrip(b" ").startswith(b"## Archived ")]
    line, seen = 1, 0
    for at, heading in batches(file.data):
        line, seen = line + file.data.count(b"\n", seen, at), at
        end = next(iter(loose[bisect_right(loose, at) :]), len(file.data))
        mine = entries[bisect_left(starts, at) : bisect_left(starts, end)]
        if mine or pending is None or real(file.path) != pending.file or not pending.offset <= at < pending.offset + pending.size:
            yield _Batch(file, at, line, heading, mine)


def _recorded(pool: Pool, found: _Findings) -> Iterator[dict[str, Any]]:
    path = Desk.of(pool).batches
    try:
        data, _ = read_bytes(path, "list of checksums")
    except MissingFileError:
        return
    for number, line in enumerate(noted(data), 1):
        if line is None or not all(isinstance(line.get(k), t) for k, t in _KEYS.items()):
            message = "this line of the list of checksums cannot be read, so it proves nothing"
            found.warnings.append(FileWarning(file=readable(str(path)), line=number, message=message))
        else:
            yield line


_KEYS = {"file": str, "offset": int, "size": int, "sha256": str, "entries": int, "date": str}


def _prove(line: dict[str, Any], standing: list[_Batch]) -> bool:
    """Finds the batch that *line* tells of, wherever a split has brought it."""
    for batch in _named_so(line, standing):
        if hashlib.sha256(batch.file.data[batch.start : batch.start + line["size"]]).hexdigest() == line["sha256"]:
            batch.proven = True
            return True
    return False


def _named_so(line: dict[str, Any], standing: list[_Batch]) -> list[_Batch]:
    """Batches with the same date and count in their heading that no line has proven yet."""
    heading = f"## Archived {line['date']} — {line['entries']} entries ("
    return [b for b in standing if not b.proven and b.heading.startswith(heading)]


def _missing(line: dict[str, Any], standing: list[_Batch], pool: Pool) -> FileWarning:
    message = f"the batch of {line['entries']} entries archived on {line['date']} is not as it was written; restore it from a backup"
    if like := _named_so(line, standing):
        return FileWarning(file=readable(str(like[0].file.path)), line=like[0].line, message=message)
    return FileWarning(file=readable(str(pool.memory_dir / line["file"])), message=message)


def _verified(file: TierFile, snapshot: PoolSnapshot, standing: list[_Batch]) -> VerifiedFile:
    mine = [b for b in standing if b.file is file]
    return VerifiedFile(
        file=readable(str(file.path)), bytes=len(file.data), entries=len(list(snapshot.entries_of(file))), batches=len(mine),
        proven=sum(b.proven for b in mine),
    )  # fmt: skip
