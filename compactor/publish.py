"""Putting a new active file in the old one's place, while programs that know no lock go on appending.

The replaced file keeps a second name (a *snapshot*), because a program that opened it before the replacement may still
append to it. A snapshot's name ends in the number of bytes that are accounted for; what lies behind them is late, and
`absorb` carries it over, verbatim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal, Publication
from models.entry import Entry
from models.errors import RefusedError
from models.log import Prose, parse
from models.memory_file import FileState, read_bytes, state_of

_ATTEMPTS = 20
_KEPT_SNAPSHOTS = 3

_REPORT = "Nothing was moved; please report the file's code fences and comments."

Rewrite = Callable[[bytes], bytes]


def without(batch: BatchRecord) -> Rewrite:
    """The active file less the batch's entries; all else stays byte for byte, in its place."""

    def rewrite(data: bytes) -> bytes:
        gone = Counter(batch.versions)
        kept: list[Prose | Entry] = []
        for span in parse(data).spans:
            if isinstance(span, Entry) and gone[span.version] > 0:
                gone[span.version] -= 1
            else:
                kept.append(span)
        new = b"".join(span.raw for span in kept)
        if [e.text for e in parse(new).entries] != [s.text for s in kept if isinstance(s, Entry)]:
            raise RefusedError(batch.file, "the entries that stay would read differently without those that move", _REPORT)
        return new

    return rewrite


def publish(disk: Disk, desk: Desk, journal: Journal, rewrite: Rewrite, credited: dict[Path, int] | None = None) -> None:
    """Replaces the active file by its rewritten self, unless it changes meanwhile: then it is read again.

    Raises RefusedError when it never holds still.
    """
    for attempt in range(_ATTEMPTS):
        data, state = read_bytes(journal.active, "active file")
        new = rewrite(data)
        disk.remove(journal.temp)
        written = disk.write_new(journal.temp, new, journal.active.stat())
        disk.sync_folder(journal.active.parent)
        snapshot = desk.snapshots / f"{journal.run}-{attempt}.{len(data)}.md"
        publication = Publication(temp=journal.temp, dev=written.dev, ino=written.ino, snapshot=snapshot, credits=credited or {})
        desk.write(disk, journal.model_copy(update={"publication": publication}))
        if _swap(disk, journal.active, publication, state):
            disk.sync_folder(journal.active.parent)
            _check_replaced(snapshot, data)
            return
    disk.remove(journal.temp)
    raise RefusedError(journal.active, "other programs keep rewriting it", "Run again when they are done.")


def _swap(disk: Disk, active: Path, publication: Publication, expected: FileState) -> bool:
    disk.remove(publication.snapshot)
    disk.link(active, publication.snapshot)
    if state_of(active) != expected:
        disk.remove(publication.snapshot)
        return False
    disk.replace(publication.temp, active)
    return True


def _check_replaced(snapshot: Path, data: bytes) -> None:
    if not snapshot.exists():
        return
    found, _ = read_bytes(snapshot, "replaced file")
    if not found.startswith(data):
        raise RefusedError(
            snapshot, "another program rewrote the active file in the very moment it was replaced",
            "That program's text is kept there: compare it with the active file.",
        )  # fmt: skip


def has_happened(publication: Publication) -> bool:
    """Whether the new file has left its temporary name, which only the replacement does."""
    state = state_of(publication.temp)
    return state is None or (state.dev, state.ino) != (publication.dev, publication.ino)


def credit(disk: Disk, credits_: dict[Path, int]) -> None:
    """Writes into the snapshots' names how much of them the active file now contains."""
    for snapshot, size in credits_.items():
        if snapshot.exists():
            disk.rename(snapshot, snapshot.with_name(f"{snapshot.name.split('.')[0]}.{size}.md"))


def snapshots(desk: Desk) -> list[tuple[Path, int]]:
    """Every snapshot with the size accounted for, oldest first."""
    if not desk.snapshots.is_dir():
        return []
    found = [(p, p.name.split(".")) for p in sorted(desk.snapshots.iterdir())]
    return [(p, int(parts[1])) for p, parts in found if len(parts) == 3 and parts[1].isdigit()]


def late(desk: Desk) -> list[tuple[Path, int]]:
    """Snapshots that grew since they were accounted for."""
    return [(p, size) for p, size in snapshots(desk) if (state := state_of(p)) and state.size > size]


def absorb(disk: Disk, desk: Desk, run: str, active: Path) -> int:
    """Carries late appends over into the active file until there are none; answers how many bytes."""
    total = 0
    while grown := late(desk):
        additions: list[tuple[bytes, bool]] = []
        credited: dict[Path, int] = {}
        for snapshot, size in grown:
            data, _ = read_bytes(snapshot, "replaced file")
            additions.append((data[size:], data[:size].endswith(b"\n")))
            credited[snapshot] = len(data)
            total += len(data) - size
        journal = Journal(run=run, active=active)
        publish(disk, desk, journal, _appending(additions), credited)
        credit(disk, credited)
    return total


def _appending(additions: Iterable[tuple[bytes, bool]]) -> Rewrite:
    """*additions* behind the file's last byte; one that began a line begins a line again."""

    def rewrite(data: bytes) -> bytes:
        for text, begins_line in additions:
            data += (b"\n" if begins_line and data and not data.endswith(b"\n") else b"") + text
        return data

    return rewrite


def tidy(disk: Disk, desk: Desk) -> None:
    """Drops the oldest snapshots that nobody appends to any more."""
    for path, _ in snapshots(desk)[:-_KEPT_SNAPSHOTS]:
        disk.remove(path)
