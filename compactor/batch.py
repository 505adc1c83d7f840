"""One archive batch: rendering it, appending it, proving that it is there, undoing it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from pathlib import Path

from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk
from models.entry import Entry
from models.errors import MissingFileError, RefusedError
from models.log import parse
from models.memory_file import read_bytes, state_of

_TITLE = b"# Dream Sparks Archive\n"


def render(entries: list[Entry], today: dt.date, archive: bytes | None) -> bytes:
    """The bytes to append to *archive*: a heading, then each entry verbatim, one blank line between blocks."""
    dates = [e.date for e in entries if e.date]
    span = f"{min(dates)} to {max(dates)}"
    heading = f"## Archived {today} — {len(entries)} entries (date range: {span})\n".encode()
    parts = [_joint(archive), heading]
    for entry in entries:
        eol = b"\r\n" if entry.gap.startswith(b"\r\n") else b"\n"
        parts += [eol, entry.text, eol]
    return b"".join(parts)


def _joint(archive: bytes | None) -> bytes:
    """What must stand between the archive's last byte and a new batch."""
    if not archive:
        return _TITLE + b"\n"
    if not archive.endswith(b"\n"):
        return b"\n\n"
    last = archive[:-1].removesuffix(b"\r")
    return b"" if last.endswith(b"\n") else b"\n"


def record(path: Path, archive: bytes | None, batch: bytes, entries: list[Entry], today: dt.date) -> BatchRecord:
    """What the journal says of the batch."""
    return BatchRecord(
        file=path, existed=archive is not None, offset=len(archive or b""), size=len(batch),
        sha256=hashlib.sha256(batch).hexdigest(), date=today.isoformat(), versions=tuple(e.version for e in entries),
    )  # fmt: skip


def append(disk: Disk, batch: BatchRecord, data: bytes, like: Path) -> None:
    """Appends the batch to the archive and makes file and name durable; a new archive takes mode and owner of *like*."""
    if batch.existed:
        disk.append(batch.file, data)
    else:
        disk.write_new(batch.file, data, like.stat())
    disk.sync_folder(batch.file.parent)


def verify(batch: BatchRecord, entries: list[Entry]) -> None:
    """Reads the batch back: the same bytes, and in them exactly the entries that move. Raises RefusedError."""
    found, _ = read_bytes(batch.file, "archive file")
    tail = found[batch.offset :]
    same = len(tail) == batch.size and hashlib.sha256(tail).hexdigest() == batch.sha256
    if not same or [e.text for e in parse(tail, archive=True).entries] != [e.text for e in entries]:
        raise RefusedError(batch.file, "the batch just written does not read back as it was written", "The active file is untouched.")


def is_whole(batch: BatchRecord) -> bool:
    """Whether the archive holds the batch, complete and unchanged."""
    try:
        data, _ = read_bytes(batch.file, "archive file")
    except MissingFileError:
        return False
    return hashlib.sha256(data[batch.offset : batch.offset + batch.size]).hexdigest() == batch.sha256


def undo(disk: Disk, batch: BatchRecord) -> None:
    """Takes a batch, whole or torn, off the archive's end again; every older byte stays.

    Raises RefusedError when something else was written there since.
    """
    state = state_of(batch.file)
    if state is None and not batch.existed:
        return
    if state is None or not batch.offset <= state.size <= batch.offset + batch.size:
        advice = "The active file still holds every entry: compare the archive with a backup, then run again."
        raise RefusedError(batch.file, "something else changed the archive during an unfinished run", advice)
    if batch.existed:
        disk.truncate(batch.file, batch.offset)
    else:
        disk.remove(batch.file)
    disk.sync_folder(batch.file.parent)


def note(disk: Disk, desk: Desk, run: str, batch: BatchRecord) -> None:
    """Adds the batch to the list of checksums, once."""
    known = desk.batches.read_bytes() if desk.batches.exists() else b""
    if f'"{run}"'.encode() in known:
        return
    line = {"run": run, "file": batch.file.name, "offset": batch.offset, "size": batch.size, "sha256": batch.sha256,
            "entries": len(batch.versions), "date": batch.date}  # fmt: skip
    torn = b"\n" if known and not known.endswith(b"\n") else b""
    disk.append(desk.batches, torn + json.dumps(line).encode() + b"\n")


def holds_alone(entry: Entry, today: dt.date) -> bool:
    """Whether an archive would read the entry back as the one it is (a batch heading inside its text could cut it)."""
    if b"## Archived " not in entry.text:
        return True
    return [e.text for e in parse(render([entry], today, None), archive=True).entries] == [entry.text]
