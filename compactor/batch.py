"""One archive batch: rendering it, appending it, proving that it is there, undoing it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk
from models.entry import Entry
from models.errors import MissingFileError, RefusedError
from models.log import parse
from models.memory_file import read_bytes, state_of

Rebuild = Callable[[bytes | None], bytes | None]

_TITLE = b"# Dream Sparks Archive\n"
_HEADING = b"## Archived "
_SECTOR = 512


def render(entries: list[Entry], today: dt.date, archive: bytes | None) -> bytes:
    """The bytes to append to *archive*: a heading, then each entry verbatim, one blank line between blocks."""
    dates = [e.date for e in entries if e.date]
    span = f"{min(dates)} to {max(dates)}"
    heading = f"## Archived {today} — {len(entries)} entries (date range: {span})\n".encode()
    parts = [joint(archive), heading]
    for entry in entries:
        eol = b"\r\n" if entry.gap.startswith(b"\r") else b"\n"
        parts += [eol, entry.text, eol]
    return b"".join(parts)


def joint(archive: bytes | None) -> bytes:
    """What must stand between the archive's last byte and a new batch."""
    if not archive:
        return _TITLE + b"\n"
    if not archive.endswith(b"\n"):
        return b"\n\n"
    last = archive[:-1].removesuffix(b"\r")
    return b"" if last.endswith(b"\n") else b"\n"


def record(path: Path, archive: bytes | None, batch: bytes, entries: list[Entry], today: dt.date) -> BatchRecord:
    """What the journal says of the batch."""
    heading = batch.find(_HEADING)
    return BatchRecord(
        file=path, existed=archive is not None, offset=len(archive or b""), size=len(batch),
        sha256=hashlib.sha256(batch).hexdigest(), heading=heading, checksum=hashlib.sha256(batch[heading:]).hexdigest(),
        date=today.isoformat(), versions=tuple(e.version for e in entries),
    )  # fmt: skip


def append(disk: Disk, batch: BatchRecord, data: bytes, like: Path) -> None:
    """Appends the batch to its file and makes file and name durable; a new one takes mode, owner and the like of *like*.

    Raises RefusedError when somebody else wrote to the archive meanwhile.
    """
    state = state_of(batch.file)
    if (state.size if state else 0) != batch.offset:
        raise RefusedError(batch.file, "another program wrote to the archive meanwhile", "Run again.")
    if batch.existed:
        disk.append(batch.file, data)
    else:
        disk.write_new(batch.file, data, like)
    disk.sync_folder(batch.file.parent)


def verify(batch: BatchRecord, entries: list[Entry]) -> None:
    """Reads the batch back: the same bytes, and in them exactly the entries that move. Raises RefusedError."""
    data = _read(batch)
    at = _find(batch, data)
    found = parse(data[at : at + batch.size], archive=True).entries if at is not None else ()
    if [e.text for e in found] != [e.text for e in entries]:
        raise RefusedError(batch.file, "the batch just written does not read back as it was written", "The active file is untouched.")


def is_whole(batch: BatchRecord) -> bool:
    """Whether the archive holds the batch, complete and unchanged."""
    return _find(batch, _read(batch)) is not None


def at_end(batch: BatchRecord) -> bytes:
    """The whole batch, if it is the last thing in its file; nothing otherwise."""
    data = _read(batch)
    at = _find(batch, data)
    return data[at:] if at is not None and at + batch.size == len(data) else b""


def _read(batch: BatchRecord) -> bytes:
    try:
        return read_bytes(batch.file, "archive file")[0]
    except MissingFileError:
        return b""


def _find(batch: BatchRecord, data: bytes) -> int | None:
    """Where the whole batch lies: at its place, or behind what another program appended in the very moment before."""
    for at in (batch.offset, len(data) - batch.size):
        if at >= batch.offset and hashlib.sha256(data[at : at + batch.size]).hexdigest() == batch.sha256:
            return at
    return None


def undo(disk: Disk, batch: BatchRecord, rebuild: Rebuild) -> None:
    """Takes a batch, whole or torn, off its file's end again; every byte that is not the batch's stays.

    *rebuild* makes the batch's bytes once more, from what stands before it and the file that its entries came from.
    Raises RefusedError when something else was written behind a part of it.
    """
    data = _read(batch)
    if len(data) < batch.offset:
        advice = "Every entry is still in the file it was to leave: restore this one from a backup, then run again."
        raise RefusedError(batch.file, "the archive was cut short during an unfinished run", advice)
    expected = rebuild(data[: batch.offset] if batch.existed else None)
    if expected is not None and hashlib.sha256(expected).hexdigest() != batch.sha256:
        expected = None
    at = _where_it_begins(batch, data, expected)
    if at == 0 and not batch.existed:
        disk.remove(batch.file)
    elif at < len(data):
        disk.truncate(batch.file, at)
    disk.sync_folder(batch.file.parent)


def _where_it_begins(batch: BatchRecord, data: bytes, expected: bytes | None) -> int:
    """The offset from which on the archive holds only the batch or a torn part of it; its length when there is none."""
    whole = _find(batch, data)
    if whole is not None and whole + batch.size == len(data):
        return whole
    tail = data[batch.offset :]
    if not tail.strip(b"\0"):
        return batch.offset
    if expected is None:
        advice = "The file it came from changed as well: compare both tiers with a backup, then remove the journal in .coldspark."
        raise RefusedError(batch.file, "nobody can tell how much of an unfinished batch is in the archive", advice)
    begin = data.find(expected[: _telling(expected)], batch.offset)
    if begin < 0:
        return batch.offset if _is_torn(tail, expected) else len(data)
    if _is_torn(data[begin:], expected):
        return begin
    advice = "Every entry is still in the file it was to leave: take the torn batch out of this one by hand, then run again."
    raise RefusedError(batch.file, "something else was written behind a torn batch", advice)


def _is_torn(found: bytes, expected: bytes) -> bool:
    """Whether *found* is as much of *expected* as reached the disk: NULs stand where a sector never came."""
    found = found.rstrip(b"\0")
    starts = range(0, len(found), _SECTOR)
    return len(found) <= len(expected) and all(_is_sector(found[i : i + _SECTOR], expected[i : i + _SECTOR]) for i in starts)


def _is_sector(found: bytes, expected: bytes) -> bool:
    return expected.startswith(found) or all(a in (b, 0) for a, b in zip(found, expected, strict=False))


def _telling(expected: bytes) -> int:
    """How many bytes of a batch tell it from anything else: up to and with its heading."""
    at = expected.find(_HEADING)
    end = expected.find(b"\n", at)
    return (end if end > 0 else len(expected)) + 1


def rebuilding(batch: BatchRecord, active: Path) -> Rebuild:
    """Makes a batch's bytes once more from those of its entries that are still in the active file."""

    def rebuild(archive: bytes | None) -> bytes | None:
        wanted = Counter(batch.versions)
        entries: list[Entry] = []
        for entry in parse(read_bytes(active, "active file")[0]).entries:
            if wanted[entry.version] > 0:
                wanted[entry.version] -= 1
                entries.append(entry)
        return render(entries, dt.date.fromisoformat(batch.date), archive) if entries else None

    return rebuild


def note(disk: Disk, desk: Desk, run: str, batch: BatchRecord) -> None:
    """Adds the batch to the list of checksums, once: from its heading on, so that it can be found wherever it is moved to."""
    known = desk.batches.read_bytes() if desk.batches.exists() else b""
    if any(line is not None and line.get("run") == run for line in noted(known)):
        disk.sync_file(desk.batches)  # a run that was killed may not have come to it
        disk.sync_folder(desk.folder)
        return
    found = _find(batch, _read(batch))
    at = batch.offset if found is None else found
    line = {"run": run, "file": batch.file.name, "offset": at + batch.heading, "size": batch.size - batch.heading,
            "sha256": batch.checksum, "entries": len(batch.versions), "date": batch.date}  # fmt: skip
    if not known.endswith(b"\n") and known:
        disk.truncate(desk.batches, known.rfind(b"\n") + 1)  # a line of ours that a crash cut short
    disk.append(desk.batches, json.dumps(line).encode() + b"\n")
    disk.sync_folder(desk.folder)


def noted(data: bytes) -> Iterator[dict[str, Any] | None]:
    """The whole lines of a list of checksums, None for one that cannot be read; a last line that is torn counts for nothing."""
    for line in data.split(b"\n")[:-1]:
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        yield found if isinstance(found, dict) else None


def holds_alone(entry: Entry, today: dt.date) -> bool:
    """Whether an archive would read the entry back as the one it is (a batch heading inside its text could cut it)."""
    if _HEADING not in entry.text:
        return True
    return [e.text for e in parse(render([entry], today, None), archive=True).entries] == [entry.text]
