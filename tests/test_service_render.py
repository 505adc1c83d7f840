"""Results as people read them."""

from __future__ import annotations

import pytest

from models.results import FileWarning, Hit, IndexedEntries, IndexResult, PassageView, RecallResult
from service import render

HIT = Hit(
    id="ab12", score=0.421, tier="archive", pool="default", file="/m/a.md", line_start=5, line_end=9, batch_date="2026-05-19", kind="delve",
    tags=["delve"], title="Ledger forks", date="2026-05-07", verdict="release", signal=None,
    text="### [delve] Ledger forks (2026-05-07)\nplain words", passage=None,
)  # fmt: skip


def recalled(*hits: Hit, degraded: str | None = None, stale: str | None = None, query: str = "q") -> RecallResult:
    """A recall with these hits."""
    return RecallResult(query=query, mode="hybrid", degraded=degraded, stale=stale, hits=list(hits), took_ms=12.4)


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 KB"), (1, "0.0 KB"), (1024, "1.0 KB"), (10_239, "10.0 KB"), (10_240, "10 KB"), (10_485_760, "10,240 KB")],
)
def test_sizes_are_in_kilobytes(count: int, shown: str) -> None:
    """One decimal below ten, none above."""
    assert render.kilobytes(count) == shown


def test_columns_line_up() -> None:
    """Each column is as wide as its widest cell; numbers stand flush right."""
    assert render.table([("a", "1", "x"), ("bbb", "22", "y")], frozenset({1})) == "a     1  x\nbbb  22  y\n"
    assert render.table([]) == ""


def test_hit_shows_where_it_came_from() -> None:
    """File, lines, tier, batch and id stand with every hit."""
    lines = render.recall(recalled(HIT)).splitlines()
    assert "Ledger forks" in lines[0]
    assert "delve · release · 2026-05-07 · archive · ab12" in lines[1]
    assert "/m/a.md:5-9, archived 2026-05-19" in lines[2]
    assert lines[3].strip() == "plain words"
    assert lines[-1] == "1 hits in 12 ms"


def test_passage_goes_before_the_whole_text() -> None:
    """What matched is shown rather than the entry's beginning, on one paragraph."""
    hit = HIT.model_copy(update={"passage": PassageView(text="a\r\n b\tc", start=0, end=6)})
    assert "    a b c\n" in render.recall(recalled(hit))


def test_degraded_and_stale_answers_say_so() -> None:
    """Notes stand above the hits, and above their absence."""
    for hits in ((), (HIT,)):
        shown = render.recall(recalled(*hits, degraded="no model", stale="files changed"))
        assert "! by words alone: no model" in shown.splitlines()[0]
        assert "! files changed" in shown.splitlines()[1]
    assert render.recall(recalled()) == "No entry passes the filters.\n"


def test_many_warnings_are_counted() -> None:
    """Eight warnings are shown and the rest is counted."""
    warnings = [FileWarning(file="/m/a.md", line=n, message="odd") for n in range(1, 12)]
    entries = IndexedEntries(active=2, archive=1)
    result = IndexResult(
        status="ok", entries=entries, passages=4, embedded=3, reused=1, added=3, moved=0, removed=0, seconds=0.25, warnings=warnings
    )
    shown = render.sync(result)
    assert shown.splitlines()[0] == (
        "Indexed 2 active + 1 archived entries, 4 passages (3 embedded, 1 reused; 3 added, 0 moved, 0 removed; 0.2 s)"
    )
    assert shown.count("! /m/a.md:") == 8
    assert "! and 3 more; --json lists them all" in shown


def test_preview_begins_where_the_question_is_met() -> None:
    """Of a long passage, the sentence that shares most words with the question comes first; without any, its beginning."""
    text = "**Chain:** Ice is ballast. -> Sawdust is rubbish. -> Forgetting is done by the ground. -> Nobody meets."
    hit = HIT.model_copy(update={"passage": PassageView(text=text, start=0, end=len(text))})
    assert "    … -> Forgetting is done by the ground. -> Nobody meets.\n" in render.recall(recalled(hit, query="what the ground forgets"))
    assert "    Ice is ballast. -> Sawdust" in render.recall(recalled(hit, query="quarterly tax"))
