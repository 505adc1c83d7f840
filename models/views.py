"""Entries and warnings in the shapes that operations answer with."""

from __future__ import annotations

from models.results import EntryResult, EntryView, FileWarning
from models.snapshot import PlacedEntry, PoolSnapshot
from models.text import is_utf8, readable


def entry_view(placed: PlacedEntry) -> EntryView:
    """The listed form of an entry."""
    e = placed.entry
    verdict = e.verdict
    return EntryView(
        id=placed.id, pool=placed.pool, tier=placed.tier, file=readable(str(placed.file)),
        line_start=e.line, line_end=e.line_end, byte_start=e.start, byte_end=e.end,
        kind=e.kind, tags=list(e.tags), annotations=_annotations(placed), title=e.title,
        date=e.date.isoformat() if e.date else None, time=e.heading.time,
        verdict=verdict.word if verdict else None, verdict_reason=verdict.reason if verdict else None,
        signal=e.signal, batch_date=e.batch_date.isoformat() if e.batch_date else None, version=e.version,
        fields=e.fields, warnings=[w.message for w in e.warnings],
    )  # fmt: skip


def _annotations(placed: PlacedEntry) -> dict[str, str]:
    """Annotations by name as written; a repeated one's values are joined by commas."""
    out: dict[str, str] = {}
    for name, value in placed.entry.heading.annotations:
        key = readable(name)
        out[key] = f"{out[key]}, {readable(value)}" if key in out else readable(value)
    return out


def file_warnings(snapshot: PoolSnapshot) -> list[FileWarning]:
    """Everything that looks wrong in a pool's files: what concerns whole files first, then by line."""
    lines = [FileWarning(file=readable(str(f.path)), line=w.line, message=w.message) for f in snapshot.files for w in f.log.warnings]
    return [*whole_file_warnings(snapshot), *lines]


def whole_file_warnings(snapshot: PoolSnapshot) -> list[FileWarning]:
    """Files that cannot be read, texts set aside, look-alikes beside the tiers, and a move that is not finished."""
    found = [FileWarning(file=readable(str(getattr(p, "path", ""))), message=readable(str(p))) for p in snapshot.problems]
    found += [FileWarning(file=readable(str(path)), message=_SET_ASIDE) for path in snapshot.set_aside]
    found += [FileWarning(file=readable(str(path)), message=_COPY) for path in snapshot.copies]
    if snapshot.pending:
        found.append(FileWarning(file=readable(str(snapshot.pending.file)), message=_PENDING))
    return found


_COPY = "this looks like a copy of a tier (a sync conflict or a backup); nothing reads it: see what it holds, then move it elsewhere"
_SET_ASIDE = (
    "another program wrote this text in the very moment a tier was replaced: append what is missing to the active file, then remove it"
)
_PENDING = "a compaction is going on or was cut short here; what it moves counts once, and the next `coldspark compact` settles it"


def entry_result(view: EntryView, text: bytes, stale: str | None = None) -> EntryResult:
    """An entry's view together with its text."""
    values = {name: getattr(view, name) for name in EntryView.model_fields}
    return EntryResult(**values, text=text.decode("utf-8", "replace"), lossy=not is_utf8(text), stale=stale)
