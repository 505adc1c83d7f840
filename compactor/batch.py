"""One archive batch: rendering it, appending it, proving that it is there, undoing it."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
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
        eol = b"\r\n" if entry.gap.startswith(b"\r") else b"\n"
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
    """Appends the batch to the archive and makes file and name durable; a new archive takes mode and owner of *like*.

    Raises RefusedError when somebody else wrote to the archive meanwhile.
    """
    state = state_of(batch.file)
    if (state.size if state else 0) != batch.offset:
        raise RefusedError(batch.file, "another program wrote to the archive meanwhile", "Run again.")
    if batch.existed:
        disk.append(batch.file, data)
    else:
        disk.write_new(batch.file, data, like.stat())
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


def undo(disk: Disk, batch: BatchRecord, active: Path) -> None:
    """Takes a batch, whole or torn, off the archive's end again; every byte that is not the batch's stays.

    Raises RefusedError when something else was written behind a part of it.
    """
    data = _read(batch)
    if len(data) < batch.offset:
        advice = "The active file still holds every entry: restore the archive from a backup, then run again."
        raise RefusedError(batch.file, "the archive was cut short during an unfinished run", advice)
    at = _where_it_begins(batch, data, _rebuilt(batch, data[: batch.offset], active))
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
        advice = "The active file changed as well: compare both tiers with a backup, then remove the journal in .coldspark."
        raise RefusedError(batch.file, "nobody can tell how much of an unfinished batch is in the archive", advice)
    begin = data.find(expected[: _telling(expected)], batch.offset)
    if begin < 0:
        torn = expected.startswith(tail)
        return batch.offset if torn else len(data)
    if expected.startswith(data[begin:].rstrip(b"\0")):
        return begin
    advice = "The active file still holds every entry: take the torn batch out of the archive by hand, then run again."
    raise RefusedError(batch.file, "something else was written behind a torn batch", advice)


def _telling(expected: bytes) -> int:
    """How many bytes of a batch tell it from anything else: up to and with its heading."""
    at = expected.find(b"## Archived ")
    end = expected.find(b"\n", at)
    return (end if end > 0 else len(expected)) + 1


def _rebuilt(batch: BatchRecord, archive: bytes, active: Path) -> bytes | None:
    """The batch's bytes once more, from the entries that are still in the active file; None when they are not."""
    wanted = Counter(batch.versions)
    entries: list[Entry] = []
    for entry in parse(read_bytes(active, "active file")[0]).entries:
        if wanted[entry.version] > 0:
            wanted[entry.version] -= 1
            entries.append(entry)
    if not entries:
        return None
    data = render(entries, dt.date.fromisoformat(batch.date), archive if batch.existed else None)
    return data if hashlib.sha256(data).hexdigest() == batch.sha256 else None


def note(disk: Disk, desk: Desk, run: str, batch: BatchRecord) -> None:
    """Adds the batch to the list of checksums, once."""
    known = desk.batches.read_bytes() if desk.batches.exists() else b""
    if any(noted.get("run") == run for noted in _noted(known)):
        return
    line = {"run": run, "file": batch.file.name, "offset": batch.offset, "size": batch.size, "sha256": batch.sha256,
            "entries": len(batch.versions), "date": batch.date}  # fmt: skip
    if not known.endswith(b"\n") and known:
        disk.truncate(desk.batches, known.rfind(b"\n") + 1)  # a line of ours that a crash cut short
    disk.append(desk.batches, json.dumps(line).encode() + b"\n")


def _noted(data: bytes) -> Iterator[dict[str, object]]:
    """The whole lines that can be read; a torn one counts for nothing."""
    for line in data.split(b"\n")[:-1]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def holds_alone(entry: Entry, today: dt.date) -> bool:
    """Whether an archive would read the entry back as the one it is (a batch heading inside its text could cut it)."""
    if b"## Archived " not in entry.text:
        return True
    return [e.text for e in parse(render([entry], today, None), archive=True).entries] == [entry.text]
