"""Bringing the index in line with the Markdown: what is new is embedded, the catalog changes at once, the store follows.

An entry is known by pool and id, never by place, so a move costs no embedding. Interrupted at any point, the next sync
finishes: embeddings are kept as they are made, and the records that the vector store has to put or to drop are on a list,
written together with the catalog's change, until that is done.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from indexer.catalog import Catalog, Indexed, Known, record_id
from indexer.chroma import VectorStore
from indexer.embedder import Embedder
from indexer.mend import LostVectorsError, Mender
from indexer.passages import cut
from indexer.vectors import VectorCache, cache_key
from models.errors import StoreError, UnreadableFileError
from models.pool import TIERS, Tier
from models.results import FileWarning, IndexedEntries, IndexResult
from models.snapshot import PlacedEntry, PoolSnapshot, numbered
from models.text import readable
from models.views import entry_view

_EMBED_AT_ONCE = 64
"""Passages between two writes to the vector cache: what a crash can cost."""

Progress = Callable[[int, int], None]
"""Called with passages embedded so far, and in all."""


class WindowChangedError(Exception):
    """The model reads texts of another length than when the index was made."""

    def __init__(self, made: str, window: str) -> None:
        super().__init__(f"the model reads {window} tokens at once, and the index was made with {made}")


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
        *,
        untouched: Callable[[], bool] = lambda: False,
        failed: Callable[[StoreError], None] = lambda _error: None,
    ) -> None:
        """*untouched* tells whether the store is surely as the last sync left it; *failed* is told what the store raises."""
        self.catalog = catalog
        self.vectors = vectors
        self._store = store
        self.embedder = embedder
        self._untouched = untouched
        self._failed = failed

    def run(self, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None) -> IndexResult:
        """Brings the index in line with *snapshots*; without a vector store, all but that, and the result says so.

        Raises ModelMissingError when new text must be embedded and cannot, WindowChangedError.
        """
        try:
            return self._run(snapshots, progress)
        except LostVectorsError:  # the entries concerned are forgotten, so that the same again embeds them
            return self._run(snapshots, progress)

    def _run(self, snapshots: Sequence[PoolSnapshot], progress: Progress) -> IndexResult:
        began = time.monotonic()
        mender = Mender(self.catalog, self.vectors, lambda: progress(0, 0))
        trouble = self._trouble(lambda: self._mend(mender))
        digest = digest_of(snapshots)
        changes, embedded, reused = Changes(), 0, 0
        if digest != self.catalog.meta("digest"):
            changes = compare(self.catalog.known(), snapshots)
            indexed = self._cut(changes.fresh)
            embedded = self._embed(indexed, progress)
            reused = sum(len(i.passages) for i in indexed) - embedded + sum(k.passages for _, k in changes.moved)
            if changes.any:
                trouble = self._write(mender, changes, indexed, trouble)
            self.catalog.set_meta("digest", "" if changes.warnings else digest)
        return self._result(changes, round(time.monotonic() - began, 3), embedded, reused, trouble)

    def _cut(self, fresh: Sequence[PlacedEntry]) -> list[Indexed]:
        if not fresh:
            return []
        window, made = str(self.embedder.max_tokens), self.catalog.meta("window")
        if made is not None and made != window:
            raise WindowChangedError(made, window)
        self.catalog.set_meta("window", window)
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

    def _write(self, mender: Mender, changes: Changes, indexed: list[Indexed], trouble: str | None) -> str | None:
        """Takes the changes into the catalog, and from there into the store, which may come later when it is in trouble."""
        self.catalog.set_meta("digest", "")
        self.catalog.write(indexed, changes.placed, list(changes.gone.values()), list(self._touched(changes, indexed)))
        return trouble or self._trouble(lambda: self._settle(mender))

    def _touched(self, changes: Changes, indexed: Sequence[Indexed]) -> Iterable[tuple[Tier, str]]:
        """Records to put or to drop: of entries that are new, changed, gone, or in another tier."""
        for item in indexed:
            yield from _names(item.placed.tier, item.placed.pool, item.placed.id, len(item.passages))
        for (pool, entry_id), known in changes.gone.items():
            yield from _names(known.tier, pool, entry_id, known.passages)
        for placed, known in (*changes.moved, *changes.replaced):
            yield from _names(known.tier, placed.pool, placed.id, known.passages)
        for placed, known in changes.moved:
            yield from _names(placed.tier, placed.pool, placed.id, known.passages)

    def _trouble(self, action: Callable[[], None]) -> str | None:
        """Why the store could not do *action*; it is looked at, and asked again, once."""
        for is_last in (False, True):
            try:
                action()
            except StoreError as error:
                self._failed(error)
                if is_last:
                    return str(error)
            else:
                return None
        raise AssertionError

    def _mend(self, mender: Mender) -> None:
        """Finishes what a sync left undone; what store or cache lost comes back, or is forgotten and embedded again."""
        untouched = self._untouched()
        if not untouched:
            self._store()  # says whether it is in doubt
        in_doubt = bool(self.catalog.meta("unfinished"))
        self._recover_vectors(mender, is_thorough=in_doubt or self.vectors.is_in_doubt)
        if in_doubt or not (untouched or self._is_complete()):
            self.catalog.set_meta("unfinished", "yes")
            mender.compare(self._store())
        self._settle(mender)

    def _recover_vectors(self, mender: Mender, *, is_thorough: bool) -> None:
        keys = self.catalog.keys()
        lost = self.vectors.missing(keys) if is_thorough else self.vectors.absent(keys)
        if lost and (nowhere := mender.refill_cache(self._store, lost)):
            self.embedder.load()  # without the model these entries could not come back
            mender.forget(nowhere)
        self.vectors.is_in_doubt = False

    def _settle(self, mender: Mender) -> None:
        if self.catalog.surplus() or self.catalog.meta("unfinished"):
            mender.settle(self._store())
            self.catalog.set_meta("stored", json.dumps(self._stored()))
        self.catalog.clear_meta("unfinished", "refill")

    def _is_complete(self) -> bool:
        """Whether the store holds at least what it held after the last sync, in the same collections."""
        try:
            before = dict(json.loads(self.catalog.meta("stored") or "{}"))
        except ValueError:
            before = {}
        now = self._stored()
        return all(before.get(tier, [None])[0] == now[tier][0] and now[tier][1] >= before[tier][1] for tier in TIERS)

    def _stored(self) -> dict[Tier, tuple[str, int]]:
        store = self._store()
        return {tier: (store.mark(tier), store.count(tier)) for tier in TIERS}

    def unchanged(self, changes: Changes) -> IndexResult:
        """What a sync says that could do nothing, though there may be changes."""
        return self._result(replace(changes, added=0, moved=[], gone={}), 0.0, 0, 0, None)

    def _result(self, changes: Changes, seconds: float, embedded: int, reused: int, trouble: str | None) -> IndexResult:
        entries, passages = self.catalog.counts()
        stale = "; ".join(w.message for w in changes.warnings) or None
        return IndexResult(
            status="degraded" if changes.warnings or trouble else "ok",
            entries=IndexedEntries(active=entries.get("active", 0), archive=entries.get("archive", 0)),
            passages=sum(passages.values()), embedded=embedded, reused=reused, added=changes.added, moved=len(changes.moved),
            removed=len(changes.gone), seconds=seconds, stale=stale, degraded=trouble, warnings=changes.warnings,
        )  # fmt: skip


def _names(tier: Tier, pool: str, entry_id: str, count: int) -> Iterator[tuple[Tier, str]]:
    return ((tier, record_id(pool, entry_id, n)) for n in range(count))


def digest_of(snapshots: Sequence[PoolSnapshot]) -> str:
    """Of all files' bytes: the same digest means that nothing changed."""
    digest = hashlib.sha256()
    for snapshot in snapshots:
        for file in snapshot.files:
            line = f"{snapshot.pool.name}\0{file.path}\0{hashlib.sha256(file.data).hexdigest()}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        digest.update("".join(f"{problem}\n" for problem in snapshot.problems).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
