"""Keeping the vector store in line with the catalog, without the model and without the Markdown.

The catalog's list of surplus records names all that a write touched: `settle` puts those that the catalog knows, from its
own texts and the vector cache, and drops the others. It may be repeated after any interruption.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from indexer.catalog import Catalog, StoredPassage, record_id
from indexer.chroma import Metadata, Record, VectorStore, batched
from indexer.vectors import VectorCache
from models.pool import TIERS, Tier
from models.results import EntryView

_AT_ONCE = 64
"""Records in one write: Chroma holds up all threads of this process meanwhile, about 2 ms a record."""


@dataclass(frozen=True, slots=True)
class Mender:
    """Fills and prunes a store; *go_on* is called between two batches and may raise to end there."""

    catalog: Catalog
    vectors: VectorCache
    go_on: Callable[[], None]

    def settle(self, store: VectorStore) -> None:
        """Puts and drops what the list says, adding before dropping; then the list is empty. Raises StoreError."""
        todo = self.catalog.surplus()
        named: dict[Tier, list[str]] = {tier: [record for t, record in todo if t == tier] for tier in TIERS}
        put = {tier: {name for part in batched(named[tier], _AT_ONCE) for name in self._put(store, tier, part)} for tier in TIERS}
        for tier in TIERS:
            if unwanted := sorted(set(named[tier]) - put[tier]):
                store.delete(tier, unwanted)
        if todo:
            self.catalog.forget_surplus()

    def compare(self, store: VectorStore) -> None:
        """Lists every record that the store lacks; what it has too much it loses, unless that may be somebody else's."""
        for tier in TIERS:
            there, wanted = store.ids(tier), self.catalog.records(tier)
            unknown = set() if store.is_shared else there - wanted
            self.catalog.write([], [], [], [(tier, name) for name in sorted((wanted - there) | unknown)])

    def refill_cache(self, store: Callable[[], VectorStore], lost: set[bytes]) -> set[int]:
        """Gets lost embeddings back from the store; answers the rows of the entries whose embeddings are nowhere."""
        passages = [p for p in self.catalog.passages_of(self.catalog.all_rows().tolist()) if p.key in lost]
        names = self.catalog.names({p.row for p in passages})
        for tier in TIERS:
            keys = {record_id(*names[p.row][1:], p.ordinal): p.key for p in passages if names[p.row][0] == tier}
            found = store().vectors(tier, list(keys)) if keys else {}
            if found:
                self.vectors.put([keys[name] for name in found], np.stack(list(found.values())))
        nowhere = self.vectors.missing(lost)
        return {p.row for p in passages if p.key in nowhere}

    def forget(self, rows: Iterable[int]) -> None:
        """Entries that come back with a comparison, since they are in the Markdown."""
        chosen = set(rows)
        self.catalog.set_meta("digest", "")
        self.catalog.write([], [], [known for known in self.catalog.known().values() if known.row in chosen], [])

    def _put(self, store: VectorStore, tier: Tier, names: Sequence[str]) -> list[str]:
        """Puts those of the records that the catalog has for *tier*; answers which."""
        self.go_on()
        records = self._records(tier, set(names))
        store.upsert(tier, records)
        return [record.id for record in records]

    def _records(self, tier: Tier, names: set[str]) -> list[Record]:
        rows = set(self.catalog.by_record([parts_of(name) for name in names]).values())
        places = self.catalog.names(rows)
        passages = [
            (record_id(*places[p.row][1:], p.ordinal), p) for p in self.catalog.passages_of(rows) if places[p.row][0] == tier
        ]  # fmt: skip
        wanted = [(name, p) for name, p in passages if name in names]
        vectors = self.vectors.get([p.key for _, p in wanted])
        self._check_present({p.row for _, p in wanted if p.key not in vectors})
        entries = self.catalog.entries(sorted({p.row for _, p in wanted}))
        return [
            Record(name, vectors[p.key], metadata_of(entries[p.row].view), _slice(entries[p.row].text, p))
            for name, p in wanted if p.row in entries
        ]  # fmt: skip

    def _check_present(self, rows: set[int]) -> None:
        if rows:
            self.forget(rows)
            raise LostVectorsError("the vector cache does not keep what is put into it")


class LostVectorsError(sqlite3.DatabaseError):
    """Some entries' embeddings were lost in this very moment; the entries are forgotten and come back with a comparison."""


def parts_of(name: str) -> tuple[str, str, int]:
    """(pool, entry id, ordinal) of a record's id."""
    key, _, ordinal = name.rpartition("#")
    pool, _, entry_id = key.rpartition("/")
    return pool, entry_id, int(ordinal) if ordinal.isdecimal() else -1


def metadata_of(view: EntryView) -> Metadata:
    """What a record says of its entry: every key always, since Chroma keeps keys that an update leaves out."""
    return {
        "pool": view.pool, "tier": view.tier, "entry": view.id, "kind": view.kind, "tags": list(view.tags) or [""],
        "verdict": view.verdict or "", "signal": view.signal or "", "date": int((view.date or "0").replace("-", "")),
    }  # fmt: skip


def _slice(text: bytes, passage: StoredPassage) -> str:
    return text[passage.start : passage.end].decode("utf-8", "replace")
