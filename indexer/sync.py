"""Bringing the index in line with the Markdown: new entries are embedded and added first, then what is gone is dropped.

An entry is known by pool and id, never by place, so a move costs no embedding. Interrupted at any point, the next sync
finishes: embeddings are kept as they are made, the catalog changes at once, and what the vector store has too much is
on a list until it is gone.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from indexer.catalog import Catalog, Indexed, Known, as_day, record_id
from indexer.chroma import Metadata, Record, VectorStore
from indexer.embedder import Embedder
from indexer.passages import Passage, cut
from indexer.vectors import VectorCache, cache_key
from models.errors import UnreadableFileError
from models.pool import TIERS, Tier
from models.results import FileWarning, IndexedEntries, IndexResult
from models.snapshot import PlacedEntry, PoolSnapshot, numbered
from models.text import readable
from models.views import entry_view

_EMBED_AT_ONCE = 64
"""Passages between two writes to the vector cache: what a crash can cost."""
_STORE_AT_ONCE = 2_000

Progress = Callable[[int, int], None]
"""Called with passages embedded so far, and in all."""


@dataclass
class Changes:
    """What one sync has to do."""

    fresh: list[PlacedEntry] = field(default_factory=list)
    added: int = 0
    placed: list[PlacedEntry] = field(default_factory=list)
    moved: list[tuple[PlacedEntry, Known]] = field(default_factory=list)
    replaced: list[tuple[PlacedEntry, Known]] = field(default_factory=list)
    gone: dict[tuple[str, str], Known] = field(default_factory=dict)
    warnings: list[FileWarning] = field(default_factory=list)

    @property
    def any(self) -> bool:
        """Whether the index must be written at all."""
        return bool(self.fresh or self.placed or self.gone)


def compare(known: dict[tuple[str, str], Known], snapshots: Iterable[PoolSnapshot]) -> Changes:
    """What is new, changed, elsewhere or gone. Entries of files that cannot be read, or have vanished, are kept."""
    changes = Changes(gone=dict(known))
    for snapshot in snapshots:
        unread = _keep_unread(changes, snapshot)
        for placed in _beside(snapshot.entries, unread):
            found = changes.gone.pop((placed.pool, placed.id), None)
            if found is None:
                changes.fresh.append(placed)
                changes.added += 1
            elif found.version != placed.entry.version:
                changes.fresh.append(placed)
                changes.replaced.append((placed, found))
            elif found.view != entry_view(placed).model_dump_json():
                changes.placed.append(placed)
                if found.tier != placed.tier:
                    changes.moved.append((placed, found))
    return changes


def _beside(entries: Iterable[PlacedEntry], taken: set[str]) -> Iterator[PlacedEntry]:
    """The entries, twins numbered past the ids that entries of an unread file keep."""
    seen: Counter[str] = Counter()
    for placed in entries:
        base = placed.entry.content_id
        if not taken:
            yield placed
            continue
        while True:
            seen[base] += 1
            name = numbered(base, seen[base])
            if name not in taken:
                break
        yield replace(placed, id=name)


def _keep_unread(changes: Changes, snapshot: PoolSnapshot) -> set[str]:
    """Takes the entries of files that were not read off the list of those that are gone; answers their ids."""
    read = {readable(str(f.path)) for f in snapshot.files}
    folder = readable(str(snapshot.pool.memory_dir))
    kept = {
        key: k
        for key, k in changes.gone.items()
        if key[0] == snapshot.pool.name and k.file not in read and str(Path(k.file).parent) == folder
    }
    for key in kept:
        del changes.gone[key]
    reasons = {readable(str(p.path)): readable(str(p)) for p in snapshot.problems if isinstance(p, UnreadableFileError)}
    for file in sorted({*reasons, *(k.file for k in kept.values())}):
        count = sum(k.file == file for k in kept.values())
        stay = f"{count} entries of it stay in the index as they were"
        message = f"{reasons[file]} {stay[0].upper()}{stay[1:]}." if file in reasons else f"the file is gone; {stay}"
        changes.warnings.append(FileWarning(file=file, message=message))
    return {entry_id for _, entry_id in kept}


class Sync:
    """One sync of an index; `run` may be repeated after any interruption."""

    def __init__(
        self,
        catalog: Catalog,
        vectors: VectorCache,
        store: Callable[[], VectorStore],
        embedder: Embedder,
        untouched: Callable[[], bool] = lambda: False,
    ) -> None:
        """*untouched* tells whether the store is surely as the last sync left it, so that it need not be opened to see."""
        self.catalog = catalog
        self.vectors = vectors
        self._store = store
        self.embedder = embedder
        self._untouched = untouched

    def run(self, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None) -> IndexResult:
        """Brings the index in line with *snapshots*."""
        began = time.monotonic()
        if self.catalog.meta("unfinished") or not self._is_complete():
            self._mend()
        self._drop_surplus()
        digest = digest_of(snapshots)
        if digest == self.catalog.meta("digest"):
            return self._result(Changes(), round(time.monotonic() - began, 3))
        changes = compare(self.catalog.known(), snapshots)
        indexed = self._cut(changes.fresh)
        keys = [key for item in indexed for _, key in item.passages]
        embedded = self._embed(indexed, progress)
        if changes.any:
            self._write(changes, indexed)
        self.catalog.set_meta("digest", "" if changes.warnings else digest)
        result = self._result(changes, round(time.monotonic() - began, 3))
        return result.model_copy(update={"embedded": embedded, "reused": len(keys) - embedded + self._moved_passages(changes)})

    def _cut(self, fresh: Sequence[PlacedEntry]) -> list[Indexed]:
        return [Indexed(p, [(c, cache_key(self.embedder.fingerprint, c.text)) for c in cut(p.entry, self.embedder)]) for p in fresh]

    def _embed(self, indexed: Sequence[Indexed], progress: Progress) -> int:
        """Embeds what the cache lacks, shortest first, so that little of a batch is padding."""
        texts: dict[bytes, str] = {key: p.text for item in indexed for p, key in item.passages}
        todo = sorted(self.vectors.missing(texts), key=lambda key: (len(texts[key]), key))
        for i in range(0, len(todo), _EMBED_AT_ONCE):
            progress(i, len(todo))
            part = todo[i : i + _EMBED_AT_ONCE]
            self.vectors.put(part, self.embedder.embed_passages([texts[key] for key in part]))
        progress(len(todo), len(todo))
        return len(todo)

    def _write(self, changes: Changes, indexed: list[Indexed]) -> None:
        self.catalog.set_meta("digest", "")
        self.catalog.set_meta("unfinished", "yes")
        for tier in TIERS:
            self._upsert(tier, [(i.placed, i.passages) for i in indexed if i.placed.tier == tier])
            self._upsert(tier, [(p, self._stored_passages(k)) for p, k in changes.moved if p.tier == tier])
        self.catalog.write(indexed, changes.placed, list(changes.gone.values()), list(self._surplus(changes, indexed)))
        self._drop_surplus()
        self.catalog.set_meta("unfinished", "")

    def _stored_passages(self, known: Known) -> list[tuple[Passage, bytes]]:
        return [(Passage(p.ordinal, p.start, p.end, ""), p.key) for p in self.catalog.passages_of([known.row])]

    def _upsert(self, tier: Tier, items: list[tuple[PlacedEntry, list[tuple[Passage, bytes]]]]) -> None:
        flat = [(placed, passage, key) for placed, passages in items for passage, key in passages]
        for i in range(0, len(flat), _STORE_AT_ONCE):
            part = flat[i : i + _STORE_AT_ONCE]
            vectors = self.vectors.get([key for _, _, key in part])
            self._store().upsert(tier, [
                Record(record_id(placed.pool, placed.id, p.ordinal), vectors[key], metadata_of(placed), _slice(placed, p))
                for placed, p, key in part
            ])  # fmt: skip

    def _surplus(self, changes: Changes, indexed: Sequence[Indexed]) -> Iterable[tuple[Tier, str]]:
        """Records to drop: of entries that are gone, that left a tier, or that have fewer passages now."""
        for (pool, entry_id), known in changes.gone.items():
            yield from ((known.tier, record_id(pool, entry_id, n)) for n in range(known.passages))
        for placed, known in changes.moved:
            yield from ((known.tier, record_id(placed.pool, placed.id, n)) for n in range(known.passages))
        now = {(i.placed.pool, i.placed.id): i for i in indexed}
        for placed, known in changes.replaced:
            first = 0 if known.tier != placed.tier else len(now[placed.pool, placed.id].passages)
            yield from ((known.tier, record_id(placed.pool, placed.id, n)) for n in range(first, known.passages))

    def _drop_surplus(self) -> None:
        surplus = self.catalog.surplus()
        for tier in TIERS:
            wanted = [record for t, record in surplus if t == tier]
            if wanted:
                self._store().delete(tier, sorted(set(wanted) - self.catalog.records(tier)))
        if surplus:
            self.catalog.forget_surplus()

    def _is_complete(self) -> bool:
        """Whether store and cache hold as much as the catalog says, which tells of a folder that was emptied or exchanged."""
        if self.vectors.missing(self.catalog.keys()):
            return False
        if self._untouched():
            return True
        _, passages = self.catalog.counts()
        surplus = Counter(tier for tier, _ in self.catalog.surplus())
        return all(passages.get(tier, 0) <= self._store().count(tier) <= passages.get(tier, 0) + surplus[tier] for tier in TIERS)

    def _mend(self) -> None:
        """After an interrupted write or damage: what the catalog knows is in the store and in the cache, or it is forgotten.

        What is forgotten comes back in this sync, since it is in the Markdown.
        """
        self.catalog.set_meta("digest", "")
        store = self._store()
        if lost := self.vectors.missing(self.catalog.keys()):
            self._refill_cache(store, lost)
        for tier in TIERS:
            there, wanted = store.ids(tier), self.catalog.records(tier)
            store.delete(tier, sorted(there - wanted))
            if lacking := wanted - there:
                self._restore(tier, lacking)
        self.catalog.set_meta("unfinished", "")

    def _refill_cache(self, store: VectorStore, lost: set[bytes]) -> None:
        """Gets lost embeddings back from the vector store; entries whose embeddings are nowhere are forgotten."""
        passages = [p for p in self.catalog.passages_of(self.catalog.all_rows().tolist()) if p.key in lost]
        names = self.catalog.names({p.row for p in passages})
        for tier in TIERS:
            keys = {record_id(*names[p.row][1:], p.ordinal): p.key for p in passages if names[p.row][0] == tier}
            found = store.vectors(tier, list(keys)) if keys else {}
            if found:
                self.vectors.put([keys[name] for name in found], np.stack(list(found.values())))
        nowhere = self.vectors.missing(lost)
        rows = {p.row for p in passages if p.key in nowhere}
        self.catalog.write([], [], [known for known in self.catalog.known().values() if known.row in rows], [])

    def _restore(self, tier: Tier, lacking: set[str]) -> None:
        """Entries that lost records are forgotten, so that this sync adds them anew (from the vector cache)."""
        known = self.catalog.known()
        broken = [
            k for (pool, entry_id), k in known.items()
            if k.tier == tier and any(record_id(pool, entry_id, n) in lacking for n in range(k.passages))
        ]  # fmt: skip
        self.catalog.write([], [], broken, [])

    def _moved_passages(self, changes: Changes) -> int:
        return sum(known.passages for _, known in changes.moved)

    def _result(self, changes: Changes, seconds: float) -> IndexResult:
        entries, passages = self.catalog.counts()
        stale = "; ".join(w.message for w in changes.warnings) or None
        return IndexResult(
            status="degraded" if changes.warnings else "ok",
            entries=IndexedEntries(active=entries.get("active", 0), archive=entries.get("archive", 0)),
            passages=sum(passages.values()), embedded=0, reused=0, added=changes.added, moved=len(changes.moved),
            removed=len(changes.gone), seconds=seconds, stale=stale, warnings=changes.warnings,
        )  # fmt: skip


def digest_of(snapshots: Sequence[PoolSnapshot]) -> str:
    """Of all files' bytes: the same digest means that nothing changed."""
    digest = hashlib.sha256()
    for snapshot in snapshots:
        for file in snapshot.files:
            line = f"{snapshot.pool.name}\0{file.path}\0{hashlib.sha256(file.data).hexdigest()}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        digest.update("".join(f"{problem}\n" for problem in snapshot.problems).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def metadata_of(placed: PlacedEntry) -> Metadata:
    """What a record says of its entry: every key always, since Chroma keeps keys that an update leaves out."""
    e = placed.entry
    return {
        "pool": placed.pool, "tier": placed.tier, "entry": placed.id, "kind": e.kind, "tags": list(e.tags) or [""],
        "verdict": e.verdict.word if e.verdict else "", "signal": e.signal or "", "date": as_day(e.date) or 0,
    }  # fmt: skip


def _slice(placed: PlacedEntry, passage: Passage) -> str:
    return placed.entry.text[passage.start : passage.end].decode("utf-8", "replace")
