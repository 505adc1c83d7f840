"""Clients, appends, nightly runs and kills at once: every answer is true, and the index ends up as if there had been peace."""

from __future__ import annotations

from pathlib import Path

from tests.storm import Storm


def test_storm_leaves_nothing_wrong(tmp_path: Path) -> None:
    """Through three kills every hit is an entry as it was written, every exit code a documented one, and nothing is lost."""
    seen = Storm(tmp_path).run(25, 3)
    assert seen.wrong == []
    assert seen.counts["kills"] == seen.counts["services"] == 4
    assert seen.counts["hits"] > 100
    assert seen.counts["nights"] > 0
