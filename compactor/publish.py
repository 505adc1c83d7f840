"""Putting a file's new self in the old one's place, while programs that know no lock go on writing.

Where the system can swap two names at once, the new file and the old one change places, and only then is the old one
looked at: if it is not the one that was read, they change back and all begins anew. Elsewhere the old file gets a second
name, is checked, and then replaced; text that is written into it in that very moment is found afterwards, and kept, but
a file that is put in its place between the last look and the replacement is not seen.

Either way the replaced file is kept for a while as a *snapshot*, because a program that opened it before may still
append to it. A snapshot's name holds how many bytes of it are accounted for, and their checksum; what lies behind them is
late, and `absorb` carries it over, verbatim.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from compactor import batch as batches
from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal, Publication
from models.entry import Entry
from models.errors import MissingFileError, RefusedError
from models.log import Log, Prose, parse
from models.memory_file import FileState, read_bytes, state_of
from models.pool import CONFLICT

_ATTEMPTS = 20
_KEPT = 3
_KEPT_YOUNG = 12
_YOUNG_NS = 3_600 * 10**9
_REPORT = "Nothing was moved; please report the file's code fences and comments."

Rewrite = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A replaced file: `size` bytes of it, with this checksum, are accounted for."""

    path: Path
    size: int
    checksum: str

    @property
    def number(self) -> int:
        """When it was replaced, in nanoseconds since 1970."""
        return int(self.path.name.split(".")[0])

    @classmethod
    def named(cls, path: Path) -> Snapshot | None:
        """The snapshot that a file's name tells of, if it does."""
        parts = path.name.split(".")
        return cls(path, int(parts[1]), parts[2]) if len(parts) == 4 and parts[0].isdigit() and parts[1].isdigit() else None

    def renamed(self, data: bytes) -> Path:
        """Its name once all of *data* is accounted for."""
        return self.path.with_name(snapshot_name(self.path.name.split(".")[0], data))

    def set_aside(self) -> Path:
        """A name for a text that another program put there; it stays for a person to look at."""
        return self.path.with_name(f"{time.time_ns()}{CONFLICT}")


def snapshot_name(prefix: str, data: bytes) -> str:
    """`prefix.size.checksum.md`."""
    return f"{prefix}.{len(data)}.{_checksum(data)}.md"


def without(batch: BatchRecord, read: Log | None = None) -> Rewrite:
    """The active file less the batch's entries; all else stays byte for byte, in its place.

    *read* is the file as it was parsed before, so that it need not be parsed again while it is the same.
    """

    def rewrite(data: bytes) -> bytes:
        gone = Counter(batch.versions)
        kept: list[Prose | Entry] = []
        log = read if read is not None and read.render() == data else parse(data)
        for span in log.spans:
            if isinstance(span, Entry) and gone[span.version] > 0:
                gone[span.version] -= 1
            else:
                kept.append(span)
        new = b"".join(span.raw for span in kept)
        if [e.text for e in parse(new).entries] != [s.text for s in kept if isinstance(s, Entry)]:
            raise RefusedError(batch.file, "the entries that stay would read differently without those that move", _REPORT)
        return new

    return rewrite


def publish(disk: Disk, desk: Desk, journal: Journal, rewrite: Rewrite, credited: tuple[tuple[Path, Path], ...] = ()) -> bytes:
    """Replaces the journal's source by its rewritten self, unless it changes meanwhile: then it is read again. Answers the new bytes.

    *journal* must hold no publication: a temporary file is removed only while none is on record, since its absence
    means that the replacement happened. Raises RefusedError when the file never holds still.
    """
    for _ in range(_ATTEMPTS):
        data, state = read_bytes(journal.source, "file to be replaced")
        new = rewrite(data)
        disk.remove(journal.temp)
        written = disk.write_new(journal.temp, new, journal.source)
        disk.sync_folder(journal.source.parent)
        publication = Publication(
            temp=journal.temp, dev=written.dev, ino=written.ino, size=written.size, sha256=hashlib.sha256(new).hexdigest(),
            snapshot=desk.snapshots / snapshot_name(_next_number(desk), data), credits=credited,
        )  # fmt: skip
        desk.write(disk, journal.model_copy(update={"publication": publication}))
        if journal.batch and not batches.is_whole(journal.batch):
            raise RefusedError(journal.batch.file, "another program has changed it since the batch was written there", "Run again.")
        if _replace(disk, journal.source, publication, state):
            disk.sync_folder(journal.source.parent)
            disk.sync_folder(desk.snapshots)
            return new
        desk.write(disk, journal)
    disk.remove(journal.temp)
    raise RefusedError(journal.source, "other programs keep rewriting it", "Run again when they are done.")


def _replace(disk: Disk, source: Path, publication: Publication, expected: FileState) -> bool:
    if state_of(source) != expected:
        return False
    if disk.swap(publication.temp, source):
        return keep_displaced(disk, source, publication)
    disk.remove(publication.snapshot)
    disk.link(source, publication.snapshot)
    if state_of(source) != expected:
        disk.remove(publication.snapshot)
        return False
    disk.replace(publication.temp, source)
    _refuse_conflict(disk, source, publication)
    return True


def keep_displaced(disk: Disk, source: Path, publication: Publication) -> bool:
    """After a swap: keeps the displaced file as a snapshot if it is the one that was read, else swaps back."""
    snapshot = Snapshot.named(publication.snapshot)
    if snapshot and _is_grown_from(publication.temp, snapshot):
        disk.rename(publication.temp, publication.snapshot)
        return True
    disk.swap(publication.temp, source)
    ours, _ = read_bytes(publication.temp, "temporary file")
    if not is_ours(publication) and snapshot:
        disk.link(publication.temp, snapshot.set_aside())  # somebody replaced the file once more, in between
    elif len(ours) > publication.size:
        disk.append(source, ours[publication.size :])  # somebody appended to it, in between
    return False


def _refuse_conflict(disk: Disk, source: Path, publication: Publication) -> None:
    snapshot = Snapshot.named(publication.snapshot)
    if snapshot is None or not snapshot.path.exists() or _is_grown_from(snapshot.path, snapshot):
        return
    aside = snapshot.set_aside()
    disk.rename(snapshot.path, aside)
    raise RefusedError(
        aside, f"another program rewrote {source.name} in the very moment it was replaced",
        f"That program's text is kept there: compare it with {source.name}.",
    )  # fmt: skip


def _is_grown_from(path: Path, snapshot: Snapshot) -> bool:
    """Whether the file still begins with the bytes that were read."""
    data, _ = read_bytes(path, "replaced file")
    return _checksum(data[: snapshot.size]) == snapshot.checksum and len(data) >= snapshot.size


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def is_ours(publication: Publication) -> bool:
    """Whether the new file still lies under its temporary name."""
    state = state_of(publication.temp)
    if state is None or (state.dev, state.ino) == (publication.dev, publication.ino):
        return state is not None
    return hashlib.sha256(read_bytes(publication.temp, "temporary file")[0]).hexdigest() == publication.sha256


def _next_number(desk: Desk) -> str:
    """Nanoseconds since 1970, but past every snapshot's there is, so that a clock set back mixes up no order."""
    newest = max((s.number for s in snapshots(desk)), default=0)
    return str(max(time.time_ns(), newest + 1))


def has_happened(disk: Disk, source: Path, publication: Publication) -> bool:
    """Whether the replacement took place, which is what takes the new file from its temporary name.

    A swap that was cut short before the displaced file was looked at is judged now.
    """
    if is_ours(publication):
        return False
    if state_of(publication.temp) is not None:
        return keep_displaced(disk, source, publication)
    snapshot = Snapshot.named(publication.snapshot)
    if snapshot is None or state_of(source) is None:
        return True
    is_new = hashlib.sha256(read_bytes(source, "file")[0][: publication.size]).hexdigest() == publication.sha256
    return is_new or not _is_grown_from(source, snapshot)


def credit(disk: Disk, credits_: Iterable[tuple[Path, Path]]) -> None:
    """Writes into the snapshots' names how much of them their successor now contains."""
    for old, new in credits_:
        if old.exists():
            disk.rename(old, new)
            disk.sync_folder(new.parent)


def snapshots(desk: Desk) -> list[Snapshot]:
    """Every snapshot, oldest first."""
    if not os.path.isdir(desk.snapshots):  # noqa: PTH112 - unlike is_dir(), no error where this user may not look
        return []
    found = [s for p in desk.snapshots.iterdir() if (s := Snapshot.named(p)) is not None and p.is_file()]
    return sorted(found, key=lambda s: s.number)


def late(desk: Desk) -> list[Snapshot]:
    """Snapshots that changed in size since they were accounted for."""
    return [s for s in snapshots(desk) if (state := state_of(s.path)) and state.size != s.size]


def absorb(disk: Disk, desk: Desk, run: str) -> list[str]:
    """Carries late appends over into the file that took the old one's place; answers what was done, in sentences."""
    done: list[str] = []
    while changed := late(desk):
        additions: list[tuple[bytes, bool]] = []
        credited: list[tuple[Path, Path]] = []
        for snapshot in changed:
            try:
                data, _ = read_bytes(snapshot.path, "replaced file")
            except MissingFileError:
                continue
            if not _is_grown_from(snapshot.path, snapshot):
                aside = snapshot.set_aside()
                disk.rename(snapshot.path, aside)
                done.append(f"another program rewrote a file after it was replaced; its text is kept in {aside}")
                continue
            additions.append((data[snapshot.size :], data[: snapshot.size].endswith(b"\n")))
            credited.append((snapshot.path, snapshot.renamed(data)))
        if additions:
            journal = Journal(run=run, source=desk.source)
            desk.write(disk, journal)
            publish(disk, desk, journal, _appending(additions), tuple(credited))
            credit(disk, credited)
            count = sum(len(text) for text, _ in additions)
            done.append(f"{count} bytes that were appended to a replaced file were carried over into {desk.source.name}")
    return done


def _appending(additions: Iterable[tuple[bytes, bool]]) -> Rewrite:
    """*additions* behind the file's last byte; one that began a line begins a line again."""

    def rewrite(data: bytes) -> bytes:
        for text, begins_line in additions:
            data += (b"\n" if begins_line and data and not data.endswith(b"\n") else b"") + text
        return data

    return rewrite


def tidy(disk: Disk, desk: Desk) -> None:
    """Drops old snapshots, but for the newest few, and some more while they are young; one that somebody wrote to stays."""
    found = snapshots(desk)
    for place, snapshot in enumerate(reversed(found)):
        is_young = time.time_ns() - snapshot.number < _YOUNG_NS and place < _KEPT_YOUNG
        if place < _KEPT or is_young or not snapshot.path.exists():
            continue
        data, _ = read_bytes(snapshot.path, "replaced file")
        if snapshot.renamed(data) == snapshot.path:
            disk.remove(snapshot.path)
