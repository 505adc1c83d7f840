"""The JSON shapes that commands and HTTP answer with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from models.pool import Pool
from models.results import FileWarning
from models.snapshot import read_pool
from models.views import entry_view, file_warnings
from tests.samples import HEADER, ledger
from tests.strategies import any_bytes


def test_an_entry_is_listed_with_every_promised_key(pool: Pool) -> None:
    """Offsets and lines are those of the text in its file."""
    data = HEADER + ledger("Park \u2013 later").replace(b"[delve]", b"[delve] [consumed: 2026-05-09]")
    pool.active.write_bytes(data)
    (placed,) = read_pool(pool).entries
    view = json.loads(entry_view(placed).model_dump_json())
    assert data[view["byte_start"] : view["byte_end"]] == placed.entry.text
    assert view == {
        "id": placed.id, "pool": "default", "tier": "active", "file": str(pool.active), "line_start": 9, "line_end": 15,
        "byte_start": len(HEADER), "byte_end": len(data) - 1, "kind": "delve", "tags": ["delve"], "annotations": {"consumed": "2026-05-09"},
        "title": "Ledger forks", "date": "2026-05-07", "time": None, "verdict": "park", "verdict_reason": "later", "signal": None,
        "batch_date": None, "version": placed.entry.version, "warnings": [],
        "fields": {
            "Source": "https://example.org/ledger", "Type": "article", "Resonance": "strong",
            "Core pattern": "Two writers fork a ledger when each trusts its own clock", "Connects to": "sync design",
            "Verdict": "Park \u2013 later",
        },
    }  # fmt: skip


def test_an_archived_entry_knows_its_batch(pool: Pool) -> None:
    """What is missing is null, and the batch's date is there."""
    pool.active.touch()
    pool.archive.write_bytes(
        b"## Archived 2026-06-01 \xe2\x80\x94 1 entries (date range: 2026-05-04 to 2026-05-04)\n\n### [dream] A (2026-05-04 02:10)\n"
    )
    (placed,) = read_pool(pool).entries
    view = entry_view(placed)
    assert (view.tier, view.batch_date, view.date, view.time) == ("archive", "2026-06-01", "2026-05-04", "02:10")
    assert (view.verdict, view.verdict_reason, view.signal, view.fields) == (None, None, None, {})


def test_no_repeated_annotation_is_lost(pool: Pool) -> None:
    """An entry that two sessions consumed shows both."""
    pool.active.write_bytes(b"### [dream] A (2026-05-04) [consumed: 2026-05-05] [consumed: 2026-05-06]\n")
    shown = entry_view(read_pool(pool).entries[0]).annotations
    assert "2026-05-05" in str(shown)
    assert "2026-05-06" in str(shown)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(any_bytes)
def test_any_bytes_can_be_listed_as_json(pool: Pool, data: bytes) -> None:
    """Views and warnings of any file are valid JSON."""
    pool.active.write_bytes(data)
    pool.archive.write_bytes(data)
    read = read_pool(pool)
    for view in [*map(entry_view, read.entries), *file_warnings(read)]:
        assert json.loads(view.model_dump_json())


def test_a_folder_whose_name_is_not_utf8_can_be_listed(tmp_path: Path) -> None:
    """Such names exist on Linux; the answer is JSON all the same."""
    try:
        memory = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
        memory.mkdir()
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (memory / "dream-sparks.md").write_bytes(b"### [dream] A\n")
    read = read_pool(Pool("p", memory))
    for view in [*map(entry_view, read.entries), *file_warnings(read)]:
        assert json.loads(view.model_dump_json())


def test_warnings_name_file_and_line_and_problems_the_file(pool: Pool) -> None:
    """What could not be read at all has no line."""
    pool.active.write_bytes(b"# T\n\n### [dream] A\n")
    pool.archive.mkdir()
    undated = "the heading has no (YYYY-MM-DD) date; the entry is never archived for its age"
    unread = f"The archive file {pool.archive} cannot be read (Is a directory): make it readable and run again."
    assert file_warnings(read_pool(pool)) == [
        FileWarning(file=str(pool.archive), message=unread),
        FileWarning(file=str(pool.active), line=3, message=undated),
    ]


def test_results_are_frozen() -> None:
    """An answer is a value; nobody changes it on the way out."""
    warning = FileWarning(file="f", message="m")
    with pytest.raises(ValidationError):
        warning.__setattr__("line", 1)
