"""One move of entries from a file to another, and the end of one that was cut short: finished or undone.

`compactor.compact` says in which order the steps come, and what a crash in each gap leaves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from compactor import batch as batches
from compactor import publish, quarters
from compactor.batch import Rebuild
from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal
from compactor.publish import Rewrite
from models.entry import Entry
from models.errors import ColdsparkError, MissingFileError, RefusedError, WriteFailedError
from models.log import parse
from models.memory_file import read_bytes
from models.pool import Pool


@dataclass(frozen=True)
class Move:
    """What goes where: *data* is the batch that holds *entries*, *rewrite* makes the source without them.

    A batch file that is new takes its mode, owner and the like from *like*.
    """

    run: str
    batch: BatchRecord
    data: bytes
    entries: list[Entry]
    rewrite: Rewrite
    like: Path
    quarter: str | None = None
    ranges: tuple[tuple[int, int], ...] = ()


def carry_out(disk: Disk, desk: Desk, move: Move) -> bytes:
    """Appends the batch, proves that it reads back, and replaces the desk's source by its rewritten self, whose bytes it answers.

    What fails before the source is replaced is undone, and raised. The journal is left open for `finish` to close.
    """
    journal = Journal(run=move.run, source=desk.source, batch=move.batch, quarter=move.quarter, ranges=move.ranges)
    desk.write(disk, journal)
    try:
        batches.append(disk, move.batch, move.data, move.like)
        batches.verify(move.batch, move.entries)
        new = publish.publish(disk, desk, journal, move.rewrite)
    except ColdsparkError:
        _roll_back(disk, desk)
        raise
    return new


def finish(disk: Disk, desk: Desk, move: Move) -> list[str]:
    """What is left to do once the source is replaced; answers what was done, in sentences. What fails is left to the next run."""
    done = _changed_since(desk, move.batch)
    try:
        if move.quarter is None:  # a batch that is split off the archive was noted when it was written there
            batches.note(disk, desk, move.run, move.batch)
        done += publish.absorb(disk, desk, move.run)
        desk.close(disk)
        publish.tidy(disk, desk)
    except WriteFailedError as error:
        done.append(f"the move is complete, but not all that belongs to it; the next run does the rest: {error}")
    return done


def _changed_since(desk: Desk, batch: BatchRecord) -> list[str]:
    """What to say when a batch whose entries have left their source is not in its file as it was written."""
    if batches.is_whole(batch):
        return []
    before = f"what {desk.source.name} was before lies in {desk.snapshots}"
    return [f"another program has changed {batch.file.name} since the batch was written there: compare it with a backup; {before}"]


def _roll_back(disk: Disk, desk: Desk) -> None:
    """Undoes a move whose publication did not happen; one that did happen is left to the next run to close."""
    journal = desk.read()
    if journal is None or journal.batch is None:
        return
    if journal.publication is not None and publish.has_happened(disk, journal.source, journal.publication):
        return
    batches.undo(disk, journal.batch, _rebuilding(journal, journal.batch))
    withdraw(disk, desk, journal)
    desk.close(disk)


def is_needed(pool: Pool) -> bool:
    """Whether an unfinished run, or a late append to a replaced file, waits."""
    desks = Desk.of(pool), Desk.of_archive(pool)
    return os.path.lexists(desks[0].journal) or any(publish.late(desk) for desk in desks)


def settle(pool: Pool, disk: Disk, run: str) -> list[str]:
    """Settles whatever earlier runs left, and answers what was done, in sentences; the caller holds the lock."""
    desk, archive_desk = Desk.of(pool), Desk.of_archive(pool)
    journal = desk.read()
    done = []
    if journal is not None:
        # Settings may name other files by now; the run is settled where it was begun.
        begun = archive_desk if journal.quarter else desk
        folder = journal.source.parent / begun.snapshots.parent.name / begun.snapshots.name
        begun = replace(begun, source=journal.source, snapshots=folder)
        begun.prepare(disk)
        done.append(recover(disk, begun, journal))
        done += publish.absorb(disk, begun, run)
    for each in (desk, archive_desk):
        done += publish.absorb(disk, each, run)
        if done:
            each.close(disk)
            publish.tidy(disk, each)
    return done


def recover(disk: Disk, desk: Desk, journal: Journal) -> str:
    """Brings both files back to a whole state; answers what was done, in a sentence.

    A batch that is whole where it was to go is finished: its entries leave the source. A torn one is cut off again.
    The journal is left open for the caller to close.
    """
    publication, batch = journal.publication, journal.batch
    if publication is not None and publish.has_happened(disk, journal.source, publication):
        disk.sync_folder(journal.source.parent)
        disk.sync_folder(desk.snapshots)
        publish.credit(disk, publication.credits)
        if batch and journal.quarter is None:
            batches.note(disk, desk, journal.run, batch)
        closed = f"an unfinished run had replaced {journal.source.name} already; it was closed"
        return "; ".join([closed, *(_changed_since(desk, batch) if batch else [])])
    pending = withdraw(disk, desk, journal)
    if batch is None:
        return "an unfinished carry-over was begun again"
    return _finish_or_undo(disk, desk, pending, batch)


def withdraw(disk: Disk, desk: Desk, journal: Journal) -> Journal:
    """Takes back a publication that did not happen: off the record first, then its files."""
    pending = journal.model_copy(update={"publication": None})
    if journal.publication is not None:
        desk.write(disk, pending)
        disk.remove(journal.publication.snapshot)
    disk.remove(journal.temp)
    disk.sync_folder(journal.temp.parent)
    return pending


def _finish_or_undo(disk: Disk, desk: Desk, journal: Journal, batch: BatchRecord) -> str:
    count = len(batch.versions)
    if not batches.is_whole(batch):
        batches.undo(disk, batch, _rebuilding(journal, batch))
        return f"a batch of {count} entries was not archived in full; what there was of it was taken off {batch.file.name} again"
    disk.sync_file(batch.file)
    disk.sync_folder(batch.file.parent)
    if journal.quarter is None and _is_tagged_anew(journal, batch):
        return _undone(disk, journal, batch)
    try:
        publish.publish(disk, desk, journal, quarters.without(batch, journal.quarter) if journal.quarter else publish.without(batch))
    except RefusedError:
        if journal.quarter is None:
            raise
        return _undone(disk, withdraw(disk, desk, desk.read() or journal), batch)
    if journal.quarter is None:
        batches.note(disk, desk, journal.run, batch)
    return f"a batch of {count} entries was in {batch.file.name} but still in {journal.source.name}; the move was finished"


def _undone(disk: Disk, journal: Journal, batch: BatchRecord) -> str:
    batches.undo(disk, batch, _rebuilding(journal, batch))
    return f"{journal.source.name} was changed after a run was cut short; its batch was taken off {batch.file.name} again"


def _is_tagged_anew(journal: Journal, batch: BatchRecord) -> bool:
    """Whether entries of a whole batch at the file's end are still in the source, but with other tags: they move as they are now.

    An entry that is missing altogether was taken out by a person, and stays where it was copied to.
    """
    copied = parse(batches.at_end(batch), archive=True).entries
    source = parse(read_bytes(journal.source, "file that entries leave")[0]).entries
    versions, ids = {e.version for e in source}, {e.content_id for e in source}
    missing = [e for e in copied if e.version not in versions]
    return bool(missing) and all(e.content_id in ids for e in missing)


def _rebuilding(journal: Journal, batch: BatchRecord) -> Rebuild:
    if journal.quarter is None:
        return batches.rebuilding(batch, journal.source)
    try:
        return quarters.rebuilding(journal.ranges, read_bytes(journal.source, "archive file")[0])
    except MissingFileError:
        return lambda _shard: None
