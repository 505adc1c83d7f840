"""Finishing or undoing a run that was cut short, so that every entry stands exactly once across both tiers."""

from __future__ import annotations

from compactor import batch as batches
from compactor import publish
from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal


def is_needed(desk: Desk) -> bool:
    """Whether an unfinished run, or a late append to a replaced file, waits."""
    return desk.journal.exists() or bool(publish.late(desk))


def recover(disk: Disk, desk: Desk, run: str, journal: Journal | None) -> list[str]:
    """Brings both tiers back to a whole state; answers what was done, in sentences.

    A batch that is whole in the archive is finished: its entries leave the active file. A torn one is cut off again.
    """
    done: list[str] = []
    if journal is not None:
        done.append(_settle(disk, desk, journal))
        active = journal.active
        if late := publish.absorb(disk, desk, run, active):
            done.append(f"{late} bytes that were appended to a replaced file were carried over into the active file")
        desk.close(disk)
    return done


def _settle(disk: Disk, desk: Desk, journal: Journal) -> str:
    publication, batch = journal.publication, journal.batch
    if publication is not None and publish.has_happened(publication):
        publish.credit(disk, publication.credits)
        if batch:
            batches.note(disk, desk, journal.run, batch)
        return "an unfinished run had replaced the active file already; it was closed"
    if publication is not None:
        disk.remove(publication.snapshot)
    disk.remove(journal.temp)
    if batch is None:
        return "an unfinished carry-over was begun again"
    return _finish_or_undo(disk, desk, journal, batch)


def _finish_or_undo(disk: Disk, desk: Desk, journal: Journal, batch: BatchRecord) -> str:
    if not batches.is_whole(batch):
        batches.undo(disk, batch)
        return f"a batch of {len(batch.versions)} entries was only half archived; it was taken off the archive again"
    disk.sync_file(batch.file)
    disk.sync_folder(batch.file.parent)
    publish.publish(disk, desk, journal, publish.without(batch))
    batches.note(disk, desk, journal.run, batch)
    return f"a batch of {len(batch.versions)} entries was archived but still in the active file; the move was finished"
