"""Finishing or undoing a run that was cut short, so that every entry stands exactly once across both tiers."""

from __future__ import annotations

from compactor import batch as batches
from compactor import publish
from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal


def is_needed(desk: Desk) -> bool:
    """Whether an unfinished run, or a late append to a replaced file, waits."""
    return desk.journal.exists() or bool(publish.late(desk))


def recover(disk: Disk, desk: Desk, journal: Journal) -> str:
    """Brings both tiers back to a whole state; answers what was done, in a sentence.

    A batch that is whole in the archive is finished: its entries leave the active file. A torn one is cut off again.
    The journal is left open for the caller to close.
    """
    publication, batch = journal.publication, journal.batch
    if publication is not None and publish.has_happened(disk, journal.active, publication):
        publish.credit(disk, publication.credits)
        if batch:
            batches.note(disk, desk, journal.run, batch)
        return "an unfinished run had replaced the active file already; it was closed"
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
    return pending


def _finish_or_undo(disk: Disk, desk: Desk, journal: Journal, batch: BatchRecord) -> str:
    count = len(batch.versions)
    if not batches.is_whole(batch):
        batches.undo(disk, batch, journal.active)
        return f"a batch of {count} entries was not archived in full; what there was of it was taken off the archive again"
    disk.sync_file(batch.file)
    disk.sync_folder(batch.file.parent)
    publish.publish(disk, desk, journal, publish.without(batch))
    batches.note(disk, desk, journal.run, batch)
    return f"a batch of {count} entries was archived but still in the active file; the move was finished"
