"""Copies that an unfinished move has made count once, for whoever reads while it goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.entry import Entry
from models.log import parse
from models.pending import Pending, read_pending
from models.pool import Pool
from models.snapshot import read_pool
from tests.samples import KILN, TIDE, delve, log

OLD = b"# Dream Sparks Archive\n\n## Archived 2026-05-01 \xe2\x80\x94 1 entries (date range: 2026-05-04 to 2026-05-04)\n\n" + KILN
OTHER = delve("Other", "2026-05-01")


def entries(data: bytes) -> tuple[Entry, ...]:
    """The entries of *data*."""
    return parse(data, archive=True).entries


def pending(copies: bytes, *, size: int | None = None) -> Pending:
    """A move of the entries in *copies* behind OLD; its batch has *size* bytes."""
    versions = tuple(e.version for e in entries(copies))
    return Pending(Path("/m/active.md"), Path("/m/archive.md"), len(OLD), len(copies) if size is None else size, versions)


def shown(move: Pending, file: bytes, source: bytes) -> list[bytes]:
    """What counts of *file*."""
    return [e.text for e in move.without_copies(entries(file), entries(source))]


def texts(*found: bytes) -> list[bytes]:
    """Entries without their last line end."""
    return [text.rstrip(b"\n") for text in found]


BOTH = b"\n" + log(KILN, TIDE)
TABLE: dict[str, tuple[bytes, bytes, list[bytes]]] = {
    "nothing written yet": (OLD, log(KILN, TIDE), texts(KILN)),
    "whole, still in the source": (OLD + BOTH, log(KILN, TIDE), texts(KILN)),
    "whole, with more in the source": (OLD + BOTH, log(TIDE, OTHER, KILN), texts(KILN)),
    "whole, gone from the source": (OLD + BOTH, OTHER, texts(KILN, KILN, TIDE)),
    "whole, the source is empty": (OLD + BOTH, b"", texts(KILN, KILN, TIDE)),
    "torn within the second": (OLD + BOTH[:-30], log(KILN, TIDE), texts(KILN)),
    "torn within the first heading": (OLD + BOTH[:8], log(KILN, TIDE), texts(KILN)),
    "behind the batch stands another's text": (OLD + BOTH + b"\n" + OTHER, log(KILN, TIDE), texts(KILN, OTHER)),
    "a twin of one has come to the source since": (OLD + BOTH, KILN, texts(KILN, TIDE)),
}


@pytest.mark.parametrize("case", TABLE, ids=lambda name: str(name).replace(" ", "-"))
def test_copies_of_what_the_source_still_holds_do_not_count(case: str) -> None:
    """An entry in the batch counts when it has left the source; everything before and behind the batch always does."""
    file, source, expected = TABLE[case]
    assert shown(pending(BOTH), file, source) == expected


def test_a_copy_is_told_by_its_place() -> None:
    """A twin before the batch is no copy, though its version is the same."""
    assert shown(pending(b"\n" + KILN), OLD + b"\n" + KILN, KILN) == texts(KILN)


def journal(pool: Pool, **more: Any) -> None:
    """Writes a journal with a batch into the pool's private folder."""
    batch = {"file": pool.archive_file, "existed": True, "offset": 7, "size": 8, "sha256": "", "date": "2026-06-15", "versions": ["v"]}
    found = {"format": 2, "run": "r", "source": pool.active_file, "batch": batch, "publication": None, "quarter": None, **more}
    pool.private_dir.mkdir(exist_ok=True)
    (pool.private_dir / "journal.json").write_text(json.dumps(found))


def test_the_journal_is_read_relative_to_the_memory_folder(pool: Pool) -> None:
    """Paths are joined to the real folder, also when it is reached through a link."""
    journal(pool)
    home = pool.memory_dir.resolve()
    expected = Pending(home / pool.active_file, home / pool.archive_file, 7, 8, ("v",))
    assert read_pending(pool) == expected
    link = pool.memory_dir.parent / "link"
    link.symlink_to(pool.memory_dir)
    assert read_pending(Pool("default", link)) == expected


def test_a_path_outside_the_memory_folder_is_absolute(pool: Pool) -> None:
    """A source that a link leads to lies elsewhere."""
    journal(pool, source="/elsewhere/real.md")
    found = read_pending(pool)
    assert found is not None
    assert found.source == Path("/elsewhere/real.md")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"7", b'"text"', b"{}", b'{"batch": {}}', b"\xff",
        b'{"source": "a", "batch": 7}', b'{"source": 7, "batch": {"file": "a"}}',
        b'{"source": "a", "batch": {"file": "b", "offset": "x", "size": 1, "versions": []}}',
        b'{"source": "a", "batch": {"file": "b", "offset": 1, "size": null, "versions": []}}',
        b'{"source": "a", "batch": {"file": "b", "offset": 1, "size": 1, "versions": 7}}',
        b'{"source": "a", "batch": {"file": "b", "offset": 1e999, "size": 1, "versions": []}}',
        b"[" * 100_000,
    ],
    ids=range(16),
)  # fmt: skip
def test_a_journal_that_cannot_be_understood_hides_nothing(pool: Pool, data: bytes) -> None:
    """Whatever lies there, reading goes on without it."""
    pool.private_dir.mkdir()
    (pool.private_dir / "journal.json").write_bytes(data)
    assert read_pending(pool) is None


@pytest.mark.parametrize("batch", ["{}", "0", '""', "[]", "false"])
def test_an_empty_batch_in_the_journal_stops_no_reader(pool: Pool, batch: str) -> None:
    """A journal whose batch says nothing is passed over, and the entries are read as they stand."""
    pool.archive.write_bytes(OLD)
    pool.private_dir.mkdir()
    (pool.private_dir / "journal.json").write_text(f'{{"format": 2, "source": "dream-sparks.md", "batch": {batch}}}')
    assert [p.entry.text for p in read_pool(pool).entries] == texts(KILN)


def test_without_a_batch_nothing_is_pending(pool: Pool) -> None:
    """A carry-over moves nothing between tiers; and mostly there is no journal at all."""
    assert read_pending(pool) is None
    journal(pool, batch=None)
    assert read_pending(pool) is None
    (pool.private_dir / "journal.json").unlink()
    (pool.private_dir / "journal.json").mkdir()
    assert read_pending(pool) is None
