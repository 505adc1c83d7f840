"""The catalog: every entry with its fields, place, passages and words, in SQLite. Derived; it can be deleted at any time."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from indexer import words
from indexer.database import Database
from indexer.filters import AMONG, as_day, as_json, sources_of, where
from indexer.passages import Passage
from models.entry import Entry
from models.pool import Tier
from models.query import Filters
from models.results import EntryView
from models.snapshot import PlacedEntry
from models.text import decode, readable
from models.views import entry_view

if TYPE_CHECKING:
    from numpy.typing import NDArray

    RowIds = NDArray[np.int64]

FORMAT = "3"
"""Of the tables below; a catalog of another format is built anew."""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entry (
    row INTEGER PRIMARY KEY AUTOINCREMENT, pool TEXT NOT NULL, id TEXT NOT NULL,
    version TEXT NOT NULL, tier TEXT NOT NULL, file TEXT NOT NULL,
    kind TEXT NOT NULL, verdict TEXT, signal TEXT, day INTEGER, sources TEXT NOT NULL, length INTEGER NOT NULL,
    view TEXT NOT NULL, text BLOB NOT NULL, UNIQUE (pool, id));
CREATE INDEX IF NOT EXISTS entry_id ON entry (id);
CREATE TABLE IF NOT EXISTS tag (tag TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (tag, row)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tag_row ON tag (row);
CREATE TABLE IF NOT EXISTS passage (
    row INTEGER NOT NULL, ordinal INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, key BLOB NOT NULL,
    PRIMARY KEY (row, ordinal)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS surplus (tier TEXT NOT NULL, record TEXT NOT NULL, PRIMARY KEY (tier, record)) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5(title, essence, body, tokenize="{words.TOKENIZER}");
CREATE VIRTUAL TABLE IF NOT EXISTS posting USING fts5vocab(word, 'instance')
"""
_ESSENCE = frozenset({"connection", "core pattern"})
"""Fields that say what a spark is about."""
_WEIGHT = "CASE col WHEN 'title' THEN 1.5 WHEN 'essence' THEN 1.0 ELSE 0.5 END"
"""What one occurrence of a word counts; the title's words stand in the body too, so that they count 2."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog knows of an entry without reading its text."""

    row: int
    version: str
    tier: Tier
    file: str
    view: str
    passages: int


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage's place: entry row and ordinal, byte offsets in the entry, key of its embedding."""

    row: int
    ordinal: int
    start: int
    end: int
    key: bytes


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry as catalogued, with its verbatim bytes."""

    row: int
    view: EntryView
    text: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Indexed:
    """An entry with its passages and their embeddings' keys, ready for the catalog."""

    placed: PlacedEntry
    passages: list[tuple[Passage, bytes]]


def record_id(pool: str, entry_id: str, ordinal: int) -> str:
    """The id of a passage's record in the vector store."""
    return f"{pool}/{entry_id}#{ordinal}"


class Catalog(Database):
    """Reads and writes the tables; writing is the sync's alone."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, _SCHEMA)
        self.revision = 0
        """Goes up with every change of the entries."""

    # What there is

    def known(self) -> dict[tuple[str, str], Known]:
        """Every catalogued entry by (pool, id)."""
        return read_known(self.db)

    def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Entries and passages, by tier."""
        entries = dict(self.db.execute("SELECT tier, count(*) FROM entry GROUP BY tier").fetchall())
        passages = dict(self.db.execute("SELECT tier, count(*) FROM entry JOIN passage USING (row) GROUP BY tier").fetchall())
        return entries, passages

    def records(self, tier: Tier) -> set[str]:
        """Ids of all records that the vector store must have for *tier*."""
        rows = self.db.execute("SELECT pool, id, ordinal FROM entry JOIN passage USING (row) WHERE tier = ?", (tier,))
        return {record_id(*row) for row in rows}

    def meta(self, name: str) -> str | None:
        """A remembered fact about the index."""
        row = self.db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def set_meta(self, name: str, value: str) -> None:
        """Remembers a fact."""
        self.db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def clear_meta(self, *names: str) -> None:
        """Forgets facts."""
        if any(self.meta(name) is not None for name in names):
            self.db.execute(f"DELETE FROM meta WHERE name IN {AMONG}", (as_json(names),))

    def check_texts(self) -> None:
        """Raises sqlite3.DatabaseError when an entry's text is not the one that was catalogued."""
        for row, view, text in self.db.execute("SELECT row, view, text FROM entry"):
            _checked(row, view, text)

    # Reading for search

    def allowed(self, filters: Filters) -> RowIds:
        """Rows of the entries that pass *filters*, ascending."""
        clauses, values = where(filters)
        among = f"SELECT row FROM entry e WHERE {' AND '.join(clauses) or '1'} ORDER BY row"
        (found,) = self.db.execute(f"SELECT group_concat(row) FROM ({among})", values).fetchone()
        return np.fromstring(found or "", np.int64, sep=",")

    def population(self) -> RowIds:
        """Every entry's row, length in words, day (YYYYMMDD, 0 without one) and passages: shape (entries, 4), by row."""
        found = self.db.execute(
            "SELECT row, length, ifnull(day, 0), count(ordinal) FROM entry LEFT JOIN passage USING (row) GROUP BY row ORDER BY row"
        ).fetchall()
        return np.array(found, np.int64).reshape(-1, 4)

    def row_names(self) -> dict[str, int]:
        """Entry rows by the part of a record's id that names the entry."""
        return {f"{pool}/{entry_id}": row for pool, entry_id, row in self.db.execute("SELECT pool, id, row FROM entry")}

    def postings(self, term: str) -> tuple[RowIds, NDArray[np.float64]]:
        """Rows of the entries that hold *term*, ascending, and how often, weighted by field."""
        found = self.db.execute(f"SELECT doc, sum({_WEIGHT}) FROM posting WHERE term = ? GROUP BY doc", (term,)).fetchall()
        both = np.array(found, np.float64).reshape(-1, 2)
        return both[:, 0].astype(np.int64), both[:, 1]

    def holding(self, phrase: str) -> RowIds:
        """Rows of the entries in which the words of *phrase* stand side by side, ascending."""
        quoted = '"' + words.normalised(phrase).replace('"', " ").replace("\0", " ") + '"'
        return np.fromiter((r[0] for r in self.db.execute("SELECT rowid FROM word WHERE word MATCH ? ORDER BY rowid", (quoted,))), np.int64)

    def passages_of(self, rows: Iterable[int]) -> list[StoredPassage]:
        """All passages of these entries, in order."""
        found = self.db.execute(f"SELECT * FROM passage WHERE row IN {AMONG} ORDER BY row, ordinal", (as_json(rows),))
        return [StoredPassage(*row) for row in found]

    def all_passages(self) -> tuple[RowIds, RowIds, list[bytes]]:
        """Entry rows (ascending), ordinals and embedding keys of all passages."""
        found = self.db.execute("SELECT row, ordinal, key FROM passage ORDER BY row, ordinal").fetchall()
        rows, ordinals, keys = zip(*found, strict=True) if found else ((), (), ())
        return np.array(rows, np.int64), np.array(ordinals, np.int64), list(keys)

    def by_record(self, ids: Sequence[tuple[str, str, int]]) -> dict[tuple[str, str, int], int]:
        """Entry rows by (pool, id, ordinal), for those that the catalog has."""
        wanted = as_json({entry_id for _, entry_id, _ in ids})
        found = self.db.execute(f"SELECT pool, id, row FROM entry WHERE id IN {AMONG}", (wanted,))
        rows = {(pool, entry_id): row for pool, entry_id, row in found}
        return {key: rows[key[:2]] for key in ids if key[:2] in rows}

    def names(self, rows: Iterable[int]) -> dict[int, tuple[Tier, str, str]]:
        """Tier, pool and id of entries, by row."""
        found = self.db.execute(f"SELECT row, tier, pool, id FROM entry WHERE row IN {AMONG}", (as_json(rows),))
        return {row: (tier, pool, entry_id) for row, tier, pool, entry_id in found}

    def all_rows(self) -> RowIds:
        """Every entry's row, ascending."""
        return np.fromiter((r[0] for r in self.db.execute("SELECT row FROM entry ORDER BY row")), np.int64)

    def keys(self) -> set[bytes]:
        """The key of every passage's embedding."""
        return {row[0] for row in self.db.execute("SELECT DISTINCT key FROM passage")}

    def entries(self, rows: Sequence[int]) -> dict[int, StoredEntry]:
        """Entries by row."""
        found = self.db.execute(f"SELECT row, view, text FROM entry WHERE row IN {AMONG}", (as_json(rows),))
        return {row: _checked(row, view, text) for row, view, text in found}

    def find(self, prefix: str, most: int = 10) -> list[StoredEntry]:
        """Entries whose id is *prefix*, or else begins with it; the same id can stand in several pools."""
        exact = self.db.execute("SELECT row, view, text FROM entry WHERE id = ? ORDER BY row LIMIT ?", (prefix, most)).fetchall()
        last = prefix + "\U0010ffff"
        rows = exact or self.db.execute(
            "SELECT row, view, text FROM entry WHERE id >= ? AND id < ? ORDER BY row LIMIT ?", (prefix, last, most)
        )
        return [_checked(row, view, text) for row, view, text in rows]

    def newest(self, allowed: RowIds | None, most: int) -> list[int]:
        """Rows in order of date, newest first, undated last."""
        rows = self.db.execute("SELECT row FROM entry ORDER BY day IS NULL, day DESC, id")
        chosen = None if allowed is None else set(allowed.tolist())
        picked = (r[0] for r in rows if chosen is None or r[0] in chosen)
        return [row for row, _ in zip(picked, range(most), strict=False)]

    # Writing

    def write(
        self, indexed: Sequence[Indexed], moved: Sequence[PlacedEntry], gone: Sequence[Known], surplus: Sequence[tuple[Tier, str]]
    ) -> None:
        """Takes in one sync's changes at once; *surplus* are records that the vector store may now drop."""
        with self.transaction() as db:
            for known in gone:
                for table in ("entry", "tag", "passage"):
                    db.execute(f"DELETE FROM {table} WHERE row = ?", (known.row,))
                db.execute("DELETE FROM word WHERE rowid = ?", (known.row,))
            for item in indexed:
                _write_entry(db, item)
            for placed in moved:
                view = entry_view(placed)
                db.execute(
                    "UPDATE entry SET tier = ?, file = ?, view = ? WHERE pool = ? AND id = ?",
                    (placed.tier, view.file, view.model_dump_json(), placed.pool, placed.id),
                )
            db.executemany("INSERT OR IGNORE INTO surplus VALUES (?, ?)", surplus)
        self.revision += 1

    def surplus(self) -> list[tuple[Tier, str]]:
        """Records that the vector store may drop."""
        return self.db.execute("SELECT tier, record FROM surplus").fetchall()

    def forget_surplus(self) -> None:
        """The surplus records are gone."""
        self.db.execute("DELETE FROM surplus")


def _checked(row: int, view: str, text: bytes) -> StoredEntry:
    """An entry as it was read, if its text is still the one that its version names."""
    try:
        entry = StoredEntry(row, EntryView.model_validate_json(view), text)
        is_whole = hashlib.sha256(text).hexdigest() == entry.view.version
    except (ValueError, TypeError) as error:
        raise sqlite3.DatabaseError(f"row {row} cannot be understood") from error
    if not is_whole:
        raise sqlite3.DatabaseError(f"the text in row {row} is not the one that was catalogued")
    return entry


def read_known(db: sqlite3.Connection) -> dict[tuple[str, str], Known]:
    """Every catalogued entry by (pool, id)."""
    counts = "(SELECT count(*) FROM passage p WHERE p.row = e.row)"
    rows = db.execute(f"SELECT pool, id, row, version, tier, file, view, {counts} FROM entry e")
    return {(pool, entry_id): Known(*rest) for pool, entry_id, *rest in rows}


def _write_entry(db: sqlite3.Connection, item: Indexed) -> None:
    placed, e = item.placed, item.placed.entry
    view = entry_view(placed)
    essence, body = _parts(e)
    values = {
        "version": e.version, "tier": placed.tier, "file": view.file, "kind": words.folded(view.kind), "verdict": view.verdict,
        "signal": words.folded(view.signal) if view.signal else None, "day": as_day(e.date),
        "sources": sources_of(view), "length": words.count(essence) + words.count(body),
        "view": view.model_dump_json(), "text": e.text,
    }  # fmt: skip
    names = ", ".join(values)
    columns = "pool, id, version, tier, file, kind, sources, length, view, text"
    db.execute(f"INSERT OR IGNORE INTO entry ({columns}) VALUES (?, ?, '', '', '', '', '', 0, '', '')", (placed.pool, placed.id))
    (row,) = db.execute("SELECT row FROM entry WHERE pool = ? AND id = ?", (placed.pool, placed.id)).fetchone()
    db.execute(f"UPDATE entry SET ({names}) = ({', '.join('?' * len(values))}) WHERE row = ?", (*values.values(), row))
    for statement in ("DELETE FROM tag WHERE row = ?", "DELETE FROM passage WHERE row = ?", "DELETE FROM word WHERE rowid = ?"):
        db.execute(statement, (row,))
    db.executemany("INSERT OR IGNORE INTO tag VALUES (?, ?)", [(words.folded(t), row) for t in view.tags])
    db.executemany("INSERT INTO passage VALUES (?, ?, ?, ?, ?)", [(row, p.ordinal, p.start, p.end, key) for p, key in item.passages])
    db.execute("INSERT INTO word (rowid, title, essence, body) VALUES (?, ?, ?, ?)", (row, words.normalised(view.title), essence, body))


def _parts(entry: Entry) -> tuple[str, str]:
    """The words of the fields that say what a spark is about, and those of all the rest of it."""
    text = decode(entry.text)
    spans = [(start, end) for name, _, start, end in entry.field_spans if name.casefold() in _ESSENCE]
    borders = [0, *(border for span in spans for border in span), len(text)]
    rest = zip(borders[::2], borders[1::2], strict=True)
    essence, body = ("\n".join(readable(text[a:b]) for a, b in ranges) for ranges in (spans, rest))
    return words.normalised(essence), words.normalised(body)
