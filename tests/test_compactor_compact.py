"""Compaction from end to end: when it runs, what it reports, and that a dry run writes nothing."""

from __future__ import annotations

import datetime as dt
import hashlib
from pathlib import Path
from typing import Any

import pytest

from compactor.compact import compact, dry_run
from compactor.durable import Disk
from models.errors import BrokenSurvivalLogError
from models.pool import Pool
from models.results import CompactResult
from models.snapshot import read_pool
from tests.compactor_disks import (
    MIXED,
    MIXED_AFTER,
    MOVING,
    OLD_ARCHIVE,
    STAYING,
    HookedDisk,
    batch_lines,
    entries_of,
    everywhere,
    lay,
    request,
    tree,
)
from tests.samples import HEADER, KILN, TIDE, delve, log


def messages(result: CompactResult) -> list[str]:
    """Warnings that concern a whole file."""
    return [w.message for w in result.warnings if w.line is None]


def test_a_compaction_moves_and_reports(pool: Pool) -> None:
    """Both files and the report agree."""
    before = lay(pool, archive=OLD_ARCHIVE)
    result = compact(request(pool), Disk())
    assert (result.status, result.pool, result.today) == ("compacted", "default", "2026-06-15")
    assert (result.archived, result.kept) == (5, 2)
    assert pool.active.read_bytes() == MIXED_AFTER
    assert (result.active.bytes, result.active.entries, result.active.over_target) == (len(MIXED_AFTER), 2, False)
    assert result.active.lines == len(MIXED_AFTER.splitlines())
    assert result.archive.model_dump() == {"file": str(pool.archive), "bytes": len(pool.archive.read_bytes()), "entries": 6}
    assert [(d.title, d.action, d.rule) for d in result.decisions] == [
        ("Move one", "archive", "6 released"), ("Stay one", "keep", "4 absorbed"), ("Move two", "archive", "6 released"),
        ("Kiln cooling and staged eviction", "archive", "7 spent-signal"),
        ("Twin", "archive", "6 released"), ("Twin", "archive", "6 released"), ("Stay two, \ufffd\x00", "keep", "11 unexamined"),
    ]  # fmt: skip
    moved, kept = (sum(len(text.rstrip(b"\r\n")) for text in texts) for texts in (MOVING, STAYING))
    assert result.conserved == f"7 entries ({moved + kept} bytes) = 2 kept ({kept} bytes) + 5 archived ({moved} bytes)"
    assert everywhere(pool) == before
    assert pool.archive.read_bytes().startswith(OLD_ARCHIVE + b"\n\n## Archived 2026-06-15 ")


def test_ids_survive_the_move(pool: Pool) -> None:
    """Every entry, twins included, is known by the same id before and after."""
    lay(pool, archive=OLD_ARCHIVE)
    before = {p.id: p.entry.text for p in read_pool(pool).entries}
    compact(request(pool), Disk())
    assert {p.id: p.entry.text for p in read_pool(pool).entries} == before


def test_the_batch_is_on_record(pool: Pool) -> None:
    """The list of batches says where each lies from its heading on, how long it is and what it sums to."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    tail = pool.archive.read_bytes()[len(OLD_ARCHIVE) :].lstrip(b"\n")
    line = batch_lines(pool)[0]
    assert {k: v for k, v in line.items() if k != "run"} == {
        "file": pool.archive_file, "offset": len(OLD_ARCHIVE) + 2, "size": len(tail), "sha256": hashlib.sha256(tail).hexdigest(),
        "entries": 5, "date": "2026-06-15",
    }  # fmt: skip


def test_a_second_run_has_nothing_to_do(pool: Pool) -> None:
    """What stays stays, and nothing at all is written."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    before = tree(pool.memory_dir)
    disk = HookedDisk()
    result = compact(request(pool), disk)
    assert (result.status, result.archived, result.kept) == ("nothing-to-archive", 0, 2)
    assert disk.steps == []
    assert tree(pool.memory_dir) == before


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, "already-compact"),
        ({"target_lines": len(MIXED.splitlines())}, "compacted"),
        ({"target_lines": len(MIXED.splitlines()) + 1}, "already-compact"),
        ({"target_bytes": len(MIXED)}, "compacted"),
        ({"target_bytes": len(MIXED) + 1}, "already-compact"),
        ({"target_tokens": len(MIXED) // 4}, "compacted"),
        ({"target_tokens": len(MIXED)}, "already-compact"),
    ],
)
def test_below_its_targets_a_file_is_left_alone(pool: Pool, settings: dict[str, Any], status: str) -> None:
    """Only a file under every target is compact already; forcing it overrides them."""
    lay(pool, archive=OLD_ARCHIVE)
    before = tree(pool.memory_dir)
    result = compact(request(pool, force=False, **settings), Disk())
    assert result.status == status
    if status == "already-compact":
        assert (result.archived, result.kept) == (0, 7)
        assert tree(pool.memory_dir) == before
        assert compact(request(pool, **settings), Disk()).status == "compacted"


def test_a_file_held_over_its_target_says_what_holds_it(pool: Pool) -> None:
    """When the rules leave the file too large, the report says so, and by which rules."""
    lay(pool, archive=OLD_ARCHIVE)
    result = compact(request(pool, force=False, target_bytes=50), Disk())
    assert result.active.over_target
    assert {(h.rule, h.entries) for h in result.held} == {("4 absorbed", 1), ("11 unexamined", 1)}


def test_fitting_to_the_limit_archives_more(pool: Pool) -> None:
    """With `fit_to_limit` a dream within its window moves, and its decision says why."""
    pool.active.write_bytes(log(TIDE.replace(b" [ext-signal]", b"").replace(b"05-05", b"05-20"), delve("Stay", "2026-06-14")))
    result = compact(request(pool, fit_to_limit=True, limit_bytes=200), Disk())
    assert [d.rule for d in result.decisions] == ["10 faded-dream fit", "3 recent"]
    assert entries_of(pool.active) == [delve("Stay", "2026-06-14").rstrip(b"\n")]


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("archive", [OLD_ARCHIVE, None], ids=["old-archive", "no-archive"])
def test_a_dry_run_writes_nothing_and_plans_what_the_run_does(pool: Pool, force: bool, archive: bytes | None) -> None:  # noqa: FBT001
    """Names, bytes, times and modes are the same afterwards; the decisions are those of the real run."""
    lay(pool, archive=archive)
    before = tree(pool.memory_dir.parent)
    plan = dry_run(request(pool, force=force))
    assert tree(pool.memory_dir.parent) == before
    run = compact(request(pool, force=force), Disk())
    assert plan.status == ("planned" if force else "already-compact")
    assert (plan.archived, plan.kept, plan.decisions, plan.held) == (run.archived, run.kept, run.decisions, run.held)


def test_a_dry_run_after_a_dry_run_is_the_same(pool: Pool) -> None:
    """Planning changes no plan."""
    lay(pool, archive=OLD_ARCHIVE)
    assert dry_run(request(pool)) == dry_run(request(pool))


def test_today_decides(pool: Pool) -> None:
    """The same file on an earlier day keeps what was then young."""
    pool.active.write_bytes(delve("Released", "2026-06-08"))
    assert compact(request(pool, now=dt.datetime(2026, 6, 15, tzinfo=dt.UTC)), Disk()).status == "nothing-to-archive"
    assert compact(request(pool, now=dt.datetime(2026, 6, 16, tzinfo=dt.UTC)), Disk()).status == "compacted"


PROSE = [
    b"", b"# Sparks\n\nTwo lines\nof prose.\n", bytes(range(256)) * 16, b"\xef\xbb\xbf", b"\r\n\r\n",
    b"```\n### [delve] In a fence (2020-01-01)\n```\n",
]  # fmt: skip


@pytest.mark.parametrize("data", PROSE, ids=["empty", "prose", "random-bytes", "bom", "blank", "fenced"])
@pytest.mark.parametrize("archive", [OLD_ARCHIVE, None], ids=["old-archive", "no-archive"])
def test_a_file_without_entries_is_never_written(pool: Pool, data: bytes, archive: bytes | None) -> None:
    """No entries, nothing to do: neither file changes, and no archive appears, however large the file."""
    pool.active.write_bytes(data)
    if archive is not None:
        pool.archive.write_bytes(archive)
    before = tree(pool.memory_dir)
    for _ in range(2):
        assert compact(request(pool), Disk()).status == "nothing-to-archive"
        assert compact(request(pool, force=False, target_bytes=0), Disk()).status == "nothing-to-archive"
    assert tree(pool.memory_dir) == before


def test_the_survival_log_and_the_session_logs_are_heeded(pool: Pool) -> None:
    """An alive anchor keeps an old signal, and a session that names one keeps another."""
    assert pool.knowledge_dir is not None
    sparks = pool.knowledge_dir / "sparks"
    (sparks / "survival-log.md").write_text("| Anchor | Status |\n|---|---|\n| KILN cooling | alive |\n| Tide | dead |\n")
    pool.active.write_bytes(log(KILN, TIDE.replace(b"[dream] ", b"")))
    assert [d.rule for d in dry_run(request(pool)).decisions] == ["1 alive", "7 spent-signal"]
    (sparks / "2026-05-06-session.md").write_text("Took up tide tables and cron jitter.\n")
    assert [d.rule for d in dry_run(request(pool)).decisions] == ["1 alive", "11 unexamined"]


def test_a_broken_survival_log_moves_nothing(pool: Pool) -> None:
    """When nobody can say what is alive the run ends before anything is written."""
    assert pool.knowledge_dir is not None
    (pool.knowledge_dir / "sparks" / "survival-log.md").write_text("| 1 | Kiln | alive |\n")
    lay(pool, archive=OLD_ARCHIVE)
    before = tree(pool.memory_dir)
    with pytest.raises(BrokenSurvivalLogError):
        compact(request(pool), Disk())
    assert tree(pool.memory_dir) == before


def _daylog(pool: Pool) -> Path:
    assert pool.knowledge_dir is not None
    return pool.knowledge_dir / "daylog" / "2026-06-15.md"


def test_a_daylog_folder_gets_one_line(pool: Pool) -> None:
    """Where the folder exists one line is added behind what is there; a run with nothing to do adds none."""
    lay(pool, archive=OLD_ARCHIVE)
    _daylog(pool).parent.mkdir()
    _daylog(pool).write_bytes(b"# Day\n- no final newline")
    compact(request(pool), Disk())
    compact(request(pool), Disk())
    lines = (len(MIXED.splitlines()), len(MIXED_AFTER.splitlines()))
    line = f"- coldspark: 5 sparks archived, 2 kept ({lines[0]} -> {lines[1]} lines, 0 -> 0 KB)\n"
    assert _daylog(pool).read_bytes() == b"# Day\n- no final newline\n" + line.encode()


def test_without_a_daylog_folder_there_is_no_line(pool: Pool) -> None:
    """The folder is never created."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    assert not _daylog(pool).parent.exists()


def test_an_unwritable_daylog_is_a_warning(pool: Pool) -> None:
    """The move is complete all the same, and the report says what is missing."""
    lay(pool, archive=OLD_ARCHIVE)
    _daylog(pool).mkdir(parents=True)
    result = compact(request(pool), Disk())
    assert result.status == "compacted"
    assert any("the compaction is complete, but the daylog has no line of it" in m for m in messages(result))
    assert pool.active.read_bytes() == MIXED_AFTER


def test_a_pool_without_knowledge_is_compacted_with_a_warning(tmp_path: Path) -> None:
    """No knowledge folder at all is no hindrance."""
    pool = Pool("default", tmp_path)
    pool.active.write_bytes(HEADER + delve("Moves", "2026-05-01"))
    result = compact(request(pool), Disk())
    assert result.archived == 1
    assert messages(result) == ["there is no survival log here, so no entry counts as alive"]


def test_a_file_that_stays_over_its_target_gets_advice(pool: Pool) -> None:
    """The result says which windows would bring the file under its targets, or that none would."""
    old = [delve(f"Parked {n}", "2026-05-25", "park -- later") for n in range(3)]
    pool.active.write_bytes(HEADER + log(*old))
    result = compact(request(pool, target_lines=10), Disk())
    assert result.advice == (
        "it would come under its targets with signal_days 7, swarm_days 7, park_days 20, dream_days 20, resonant_days 20"
    )
    pool.active.write_bytes(HEADER + log(*(delve(f"Kept {n}", "2026-05-25", "absorb -- now") for n in range(3))))
    result = compact(request(pool, target_lines=10), Disk())
    assert result.advice == ("no window of rules 7 to 10 brings the file under its targets: what holds it there is kept by the other rules")
