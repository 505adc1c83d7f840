"""A crash at every step of a compaction, and at every step of the recovery behind it, loses and doubles nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.verify import verify_archive
from models.errors import RefusedError
from models.pool import Pool
from tests.compactor_disks import (
    MIXED,
    MIXED_AFTER,
    MOVING,
    OLD_ARCHIVE,
    CrashingDisk,
    MeddledDisk,
    PowerCutError,
    When,
    batch_lines,
    entries_of,
    everywhere,
    lay,
    litter,
    request,
)
from tests.samples import delve

ARCHIVES = pytest.mark.parametrize("archive", [OLD_ARCHIVE, None], ids=["old-archive", "no-archive"])
WHEN = pytest.mark.parametrize("when", ["before", "torn", "after"])


def _crashes(pool: Pool, when: When, archive: bytes | None, *, swaps: bool = True) -> Iterator[tuple[int, Counter[bytes]]]:
    """A crash at the first step, then (from a fresh copy) at the second, and so on until a run completes."""
    for at in range(1, 200):
        before = lay(pool, archive=archive)
        disk = CrashingDisk(at, when, swaps=swaps)
        try:
            compact(request(pool), disk)
        except PowerCutError:
            yield at, before
        else:
            assert not disk.crashed
            assert at > 20, "a compaction has more steps than that"
            return


def _assert_settled(pool: Pool, before: Counter[bytes], archive: bytes | None, at: object) -> None:
    assert everywhere(pool) == before, at
    assert pool.active.read_bytes() == MIXED_AFTER, at
    assert pool.archive.read_bytes().startswith(archive or b"# Dream Sparks Archive\n"), at
    assert litter(pool) == set(), at
    assert pool.active.stat().st_nlink == 1, at


@pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])
@ARCHIVES
@WHEN
def test_a_crash_at_any_step_is_settled_by_the_rerun(pool: Pool, when: When, archive: bytes | None, *, swaps: bool) -> None:
    """After the crash every entry is in a tier at least once; after the rerun, exactly once and in its place."""
    for at, before in _crashes(pool, when, archive, swaps=swaps):
        assert not before - everywhere(pool), at
        compact(request(pool), Disk())
        _assert_settled(pool, before, archive, at)


@ARCHIVES
@WHEN
def test_the_list_of_batches_names_each_batch_once(pool: Pool, when: When, archive: bytes | None) -> None:
    """Whatever step crashes, the rerun leaves one whole line for the batch, and its bytes are where the line says."""
    for at, _ in _crashes(pool, when, archive):
        compact(request(pool), Disk())
        lines = batch_lines(pool)
        assert [line["entries"] for line in lines] == [len(MOVING)], at
        assert pool.archive.read_bytes()[lines[0]["offset"] :].startswith(b"## Archived 2026-06-15 "), at
        assert lines[0]["offset"] + lines[0]["size"] == len(pool.archive.read_bytes()), at


@WHEN
def test_a_rerun_below_the_target_settles_a_crash_too(pool: Pool, when: When) -> None:
    """An unfinished run is finished or undone even when nothing else is due, without losing or doubling an entry."""
    for at, before in _crashes(pool, when, OLD_ARCHIVE):
        compact(request(pool, force=False), Disk())
        assert everywhere(pool) == before, at
        assert pool.active.read_bytes() in (MIXED, MIXED_AFTER), at
        # A run with nothing to do writes nothing, so an unborn journal may stay in the private folder until the next one.
        assert litter(pool) <= {"journal.tmp"}, at


def test_a_crash_at_any_step_of_the_recovery_is_settled_too(pool: Pool) -> None:
    """A run that dies while it settles a dead run leaves a state from which the third run settles both."""
    first = _step_of(pool, "replace", "journal.json")
    for second in range(1, 20):
        for at in range(first, first + 17, 2):
            before = lay(pool, archive=OLD_ARCHIVE)
            for disk in (CrashingDisk(at, "after"), CrashingDisk(second, "after")):
                with suppress(PowerCutError):
                    compact(request(pool), disk)
            assert not before - everywhere(pool), (at, second)
            compact(request(pool), Disk())
            _assert_settled(pool, before, OLD_ARCHIVE, (at, second))


def test_the_rerun_says_what_it_finished(pool: Pool) -> None:
    """A run that finds a whole batch in the archive finishes the move and reports it as a warning."""
    lay(pool, archive=OLD_ARCHIVE)
    _crash_before(pool, "swap", pool.active_file)
    result = compact(request(pool), Disk())
    assert result.status == "nothing-to-archive"
    assert [w.message for w in result.warnings if "batch" in w.message] == [
        "a batch of 5 entries was in dream-sparks-archive.md but still in dream-sparks.md; the move was finished"
    ]


def test_the_rerun_says_what_it_undid(pool: Pool) -> None:
    """A run that finds half a batch in the archive cuts it off, reports it, and archives the entries itself."""
    lay(pool, archive=OLD_ARCHIVE)
    with pytest.raises(PowerCutError):
        compact(request(pool), CrashingDisk(_step_of(pool, "append", pool.archive_file), "torn"))
    assert len(pool.archive.read_bytes()) > len(OLD_ARCHIVE)
    result = compact(request(pool), Disk())
    assert (result.status, result.archived) == ("compacted", 5)
    assert [w.message for w in result.warnings if "batch" in w.message] == [
        "a batch of 5 entries was not archived in full; what there was of it was taken off dream-sparks-archive.md again"
    ]


def test_a_damaged_journal_is_refused(pool: Pool) -> None:
    """A journal that cannot be read is named, and neither tier is touched."""
    lay(pool, archive=OLD_ARCHIVE)
    desk = Desk.of(pool)
    desk.prepare(Disk())
    desk.journal.write_bytes(b"{not json")
    with pytest.raises(RefusedError) as caught:
        compact(request(pool), Disk())
    assert str(caught.value) == (
        f"Refused to touch {desk.journal}: the journal of an unfinished run is damaged."
        " Compare both tiers with a backup, then remove that file and run again."
    )
    assert (pool.active.read_bytes(), pool.archive.read_bytes()) == (MIXED, OLD_ARCHIVE)


def test_a_newer_versions_journal_is_refused(pool: Pool) -> None:
    """A journal of another format is left to the version that wrote it."""
    lay(pool, archive=OLD_ARCHIVE)
    _crash_before(pool, "swap", pool.active_file)
    journal = Desk.of(pool).journal
    journal.write_bytes(journal.read_bytes().replace(b'"format": 2', b'"format": 3'))
    with pytest.raises(RefusedError, match="another version of Coldspark left an unfinished run"):
        compact(request(pool), Disk())
    assert pool.active.read_bytes() == MIXED


def test_text_added_to_the_active_file_after_a_crash_survives(pool: Pool) -> None:
    """Entries appended between a crash and the rerun, a twin of a moved one among them, are kept."""
    for at, before in _crashes(pool, "after", OLD_ARCHIVE):
        with pool.active.open("ab") as file:
            file.write(b"\n\n" + delve("Added later", "2026-06-14") + b"\n" + MOVING[0])
        added = [delve("Added later", "2026-06-14").rstrip(b"\n"), MOVING[0].rstrip(b"\n")]
        compact(request(pool), Disk())
        compact(request(pool), Disk())
        assert everywhere(pool) == before + Counter(added), at
        assert litter(pool) == set(), at


def test_an_entry_that_is_tagged_anew_after_a_crash_is_there_once(pool: Pool) -> None:
    """A skill that marks an entry between a crash and the rerun makes no twin of it: one tier holds it."""
    old, new = b"### [delve] Move one", b"### [consumed: 2026-06-15] [delve] Move one"
    for at, before in _crashes(pool, "after", OLD_ARCHIVE):
        is_there = old in pool.active.read_bytes()
        pool.active.write_bytes(pool.active.read_bytes().replace(old, new))
        compact(request(pool), Disk())
        marked = MOVING[0].rstrip(b"\n").replace(old, new)
        expected = before - Counter([MOVING[0].rstrip(b"\n")]) + Counter([marked]) if is_there else before
        assert everywhere(pool) == expected, at
        assert litter(pool) == set(), at


def test_text_added_to_the_archive_after_a_crash_survives(pool: Pool) -> None:
    """What a person appends to the archive between a crash and the rerun is never cut off with a torn batch."""
    own = b"\n\n" + delve("By hand", "2026-02-02")
    for at, _ in _crashes(pool, "before", OLD_ARCHIVE):
        with pool.archive.open("ab") as file:
            file.write(own)
        for _ in range(2):
            try:
                compact(request(pool), Disk())
            except RefusedError:
                continue
        assert own.strip() in pool.archive.read_bytes(), at


def test_a_foreign_append_to_the_archive_during_a_run_does_not_block_for_ever(pool: Pool) -> None:
    """When a person appends to the archive in the midst of a run, their text survives and later runs settle the move."""
    own = b"\n\n" + delve("By hand", "2026-02-02")

    def append_by_hand() -> None:
        with pool.archive.open("ab") as file:
            file.write(own)

    at = _step_of(pool, "append", pool.archive_file)
    before = lay(pool, archive=OLD_ARCHIVE)
    for disk in (MeddledDisk(at, append_by_hand), Disk(), Disk()):
        try:
            compact(request(pool), disk)
        except RefusedError:
            continue
    assert everywhere(pool) == before + Counter([own.strip()])
    assert litter(pool) == set()


def _step_of(pool: Pool, step: str, name: str) -> int:
    """The number of the first step of this kind at a file of this name, learned from a run on a copy."""
    lay(pool, archive=OLD_ARCHIVE)
    disk = MeddledDisk(0, lambda: None)
    compact(request(pool), disk)
    lay(pool, archive=OLD_ARCHIVE)
    return next(n for n, (s, p) in enumerate(disk.steps, 1) if (s, p.name) == (step, name))


def _crash_before(pool: Pool, step: str, name: str) -> None:
    with pytest.raises(PowerCutError):
        compact(request(pool), CrashingDisk(_step_of(pool, step, name), "before"))
    assert entries_of(pool.active)


def test_an_archive_that_lost_the_batch_after_the_move_is_told_of(pool: Pool) -> None:
    """A sync service that puts the old archive back behind a crash is not taken for a finished move; the way to the text is named."""
    lay(pool, archive=OLD_ARCHIVE)
    _crash_before(pool, "remove", "journal.json")
    pool.archive.write_bytes(OLD_ARCHIVE)
    result = compact(request(pool), Disk())
    (told,) = (w.message for w in result.warnings if "another program has changed" in w.message)
    assert str(Desk.of(pool).snapshots) in told
    assert any(path.read_bytes() == MIXED for path in Desk.of(pool).snapshots.iterdir())
    assert verify_archive(pool).status == "damaged"
