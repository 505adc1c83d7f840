"""Putting a new active file in the old one's place, while programs that know no lock go on writing.

Where the system can swap two names at once, the new file and the old one change places, and only then is the old one
looked at: if it is not the one that was read, they change back and all begins anew. Elsewhere the old file gets a second
name, is checked, and then replaced; a whole-file rewrite in that very moment is found afterwards, and kept.

Either way the replaced file is kept for a while as a *snapshot*, because a program that opened it before may still
append to it. A snapshot's name holds how many bytes of it are accounted for, and their checksum; what lies behind them is
late, and `absorb` carries it over, verbatim.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal, Publication
from models.entry import Entry
from models.errors import MissingFileError, RefusedError
from models.log import Log, Prose, parse
from models.memory_file import FileState, read_bytes, state_of

_ATTEMPTS = 20
_KEPT_SNAPSHOTS = 3
_REPORT = "Nothing was moved; please report the file's code fences and comments."

Rewrite = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A replaced file: `size` bytes of it, with this checksum, are accounted for."""

    path: Path
    size: int
    checksum: str

    @classmethod
    def named(cls, path: Path) -> Snapshot | None:
        """The snapshot that a file's name tells of, if it does."""
        parts = path.name.split(".")
        return cls(path, int(parts[1]), parts[2]) if len(parts) == 4 and parts[1].isdigit() else None

    def renamed(self, data: bytes) -> Path:
        """Its name once all of *data* is accounted for."""
        return self.path.with_name(snapshot_name(self.path.name.split(".")[0], data))

    def set_aside(self) -> Path:
        """A name for a text that another program put there; it stays for a person to look at."""
        return self.path.with_name(f"{time.time_ns()}.conflict.md")


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


def publish(disk: Disk, desk: Desk, journal: Journal, rewrite: Rewrite, credited: tuple[tuple[Path, Path], ...] = ()) -> None:
    """Replaces the active file by its rewritten self, unless it changes meanwhile: then it is read again.

    *journal* must hold no publication: a temporary file is removed only while none is on record, since its absence
    means that the replacement happened. Raises RefusedError when the file never holds still.
    """
    for attempt in range(_ATTEMPTS):
        data, state = read_bytes(journal.active, "active file")
        new = rewrite(data)
        disk.remove(journal.temp)
        written = disk.write_new(journal.temp, new, journal.active.stat())
        disk.sync_folder(journal.active.parent)
        snapshot = desk.snapshots / snapshot_name(f"{time.time_ns()}-{attempt}", data)
        publication = Publication(
            temp=journal.temp, dev=written.dev, ino=written.ino, size=written.size, snapshot=snapshot, credits=credited
        )
        desk.write(disk, journal.model_copy(update={"publication": publication}))
        if _replace(disk, journal.active, publication, state):
            disk.sync_folder(journal.active.parent)
            return
        desk.write(disk, journal)
    disk.remove(journal.temp)
    raise RefusedError(journal.active, "other programs keep rewriting it", "Run again when they are done.")


def _replace(disk: Disk, active: Path, publication: Publication, expected: FileState) -> bool:
    if state_of(active) != expected:
        return False
    if disk.swap(publication.temp, active):
        return keep_displaced(disk, active, publication)
    disk.remove(publication.snapshot)
    disk.link(active, publication.snapshot)
    if state_of(active) != expected:
        disk.remove(publication.snapshot)
        return False
    disk.replace(publication.temp, active)
    _refuse_conflict(disk, publication)
    return True


def keep_displaced(disk: Disk, active: Path, publication: Publication) -> bool:
    """After a swap: keeps the displaced file as a snapshot if it is the one that was read, else swaps back."""
    snapshot = Snapshot.named(publication.snapshot)
    if snapshot and _is_grown_from(publication.temp, snapshot):
        disk.rename(publication.temp, publication.snapshot)
        return True
    disk.swap(publication.temp, active)
    ours, _ = read_bytes(publication.temp, "temporary file")
    if not is_ours(publication) and snapshot:
        disk.link(publication.temp, snapshot.set_aside())  # somebody replaced the file once more, in between
    elif len(ours) > publication.size:
        disk.append(active, ours[publication.size :])  # somebody appended to it, in between
    return False


def _refuse_conflict(disk: Disk, publication: Publication) -> None:
    snapshot = Snapshot.named(publication.snapshot)
    if snapshot is None or not snapshot.path.exists() or _is_grown_from(snapshot.path, snapshot):
        return
    aside = snapshot.set_aside()
    disk.rename(snapshot.path, aside)
    raise RefusedError(
        aside, "another program rewrote the active file in the very moment it was replaced",
        "That program's text is kept there: compare it with the active file.",
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
    return state is not None and (state.dev, state.ino) == (publication.dev, publication.ino)


def has_happened(disk: Disk, active: Path, publication: Publication) -> bool:
    """Whether the replacement took place, which is what takes the new file from its temporary name.

    A swap that was cut short before the displaced file was looked at is judged now.
    """
    if is_ours(publication):
        return False
    return state_of(publication.temp) is None or keep_displaced(disk, active, publication)


def credit(disk: Disk, credits_: Iterable[tuple[Path, Path]]) -> None:
    """Writes into the snapshots' names how much of them the active file now contains."""
    for old, new in credits_:
        if old.exists():
            disk.rename(old, new)


def snapshots(desk: Desk) -> list[Snapshot]:
    """Every snapshot, oldest first."""
    if not desk.snapshots.is_dir():
        return []
    return [s for p in sorted(desk.snapshots.iterdir()) if (s := Snapshot.named(p)) is not None]


def late(desk: Desk) -> list[Snapshot]:
    """Snapshots that changed in size since they were accounted for."""
    return [s for s in snapshots(desk) if (state := state_of(s.path)) and state.size != s.size]


def absorb(disk: Disk, desk: Desk, run: str, active: Path) -> list[str]:
    """Carries late appends over into the active file until there are none; answers what was done, in sentences."""
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
            journal = Journal(run=run, active=active)
            desk.write(disk, journal)
            publish(disk, desk, journal, _appending(additions), tuple(credited))
            credit(disk, credited)
            count = sum(len(text) for text, _ in additions)
            done.append(f"{count} bytes that were appended to a replaced file were carried over into the active file")
    return done


def _appending(additions: Iterable[tuple[bytes, bool]]) -> Rewrite:
    """*additions* behind the file's last byte; one that began a line begins a line again."""

    def rewrite(data: bytes) -> bytes:
        for text, begins_line in additions:
            data += (b"\n" if begins_line and data and not data.endswith(b"\n") else b"") + text
        return data

    return rewrite


def tidy(disk: Disk, desk: Desk) -> None:
    """Drops all but the newest snapshots; one that changed since it was accounted for stays."""
    for snapshot in snapshots(desk)[:-_KEPT_SNAPSHOTS]:
        state = state_of(snapshot.path)
        if state is not None and state.size == snapshot.size:
            disk.remove(snapshot.path)
