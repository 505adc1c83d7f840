"""The journal: written and read wherever the memory folder lies by then."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import BatchRecord, Desk, Journal, Publication
from compactor.split import split
from models.errors import RefusedError
from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_archives import ARCHIVE, SETTINGS, known, lay_archive, litter_beside_shards, over_all_files, seen
from tests.compactor_disks import MIXED_AFTER, OLD_ARCHIVE, CrashingDisk, HookedDisk, PowerCutError, entries_of, everywhere, lay, request
from tests.samples import HEADER, delve

SWAPS = pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])


def crashes(pool: Pool, *, swaps: bool = True) -> Iterator[tuple[str, Counter[bytes]]]:
    """A compaction that crashes behind its first step, then (from a fresh copy) behind the second, and so on."""
    lay(pool, archive=OLD_ARCHIVE)
    whole = HookedDisk(swaps=swaps)
    compact(request(pool), whole)
    for at, (step, path) in enumerate(whole.steps, 1):
        before = lay(pool, archive=OLD_ARCHIVE)
        with suppress(PowerCutError):
            compact(request(pool), CrashingDisk(at, "after", swaps=swaps))
        yield f"after step {at}, {step} {path.name}", before


def elsewhere(pool: Pool, bring: Callable[[Path, Path], object]) -> Pool:
    """The pool with its memory folder brought to another place."""
    place = pool.memory_dir.parent / "elsewhere" / "memory"
    if place.exists():
        shutil.rmtree(place)
    place.parent.mkdir(exist_ok=True)
    bring(pool.memory_dir, place)
    return replace(pool, memory_dir=place)


@SWAPS
def test_a_memory_folder_that_is_moved_after_a_crash_is_settled_where_it_is(pool: Pool, *, swaps: bool) -> None:
    """The rerun settles the run in the new place, and makes nothing in the old one."""
    for at, before in crashes(pool, swaps=swaps):
        moved = elsewhere(pool, lambda old, new: old.rename(new))
        assert Counter(p.entry.text for p in read_pool(moved).entries) == before, at
        compact(request(moved), Disk())
        assert everywhere(moved) == before, at
        assert moved.active.read_bytes() == MIXED_AFTER, at
        assert not pool.memory_dir.exists(), at
        assert litter_beside_shards(moved) == set(), at
        pool.memory_dir.mkdir()


@SWAPS
@pytest.mark.parametrize("links", [True, False], ids=["keeping-links", "parting-links"])
def test_a_copy_of_the_folder_made_at_the_moment_of_a_crash_is_settled_too(pool: Pool, *, swaps: bool, links: bool) -> None:
    """In a copy, where every file has another inode, the rerun loses and doubles nothing; the original is not touched."""
    for at, before in crashes(pool, swaps=swaps):
        copied = elsewhere(pool, _copy_with_links if links else shutil.copytree)
        originals = {p: p.read_bytes() for p in pool.memory_dir.rglob("*") if p.is_file()}
        assert Counter(p.entry.text for p in read_pool(copied).entries) == before, at
        compact(request(copied), Disk())
        assert everywhere(copied) == before, at
        assert copied.active.read_bytes() == MIXED_AFTER, at
        assert list(copied.private_dir.glob("replaced/*.conflict.md")) == [], at
        assert {p: p.read_bytes() for p in pool.memory_dir.rglob("*") if p.is_file()} == originals, at


def _copy_with_links(old: Path, new: Path) -> None:
    first: dict[int, Path] = {}

    def copy(source: str, target: str) -> None:
        inode = Path(source).stat().st_ino
        if inode in first:
            Path(target).hardlink_to(first[inode])
        else:
            shutil.copy2(source, target)
            first[inode] = Path(target)

    shutil.copytree(old, new, copy_function=copy)


@SWAPS
def test_text_appended_to_a_copy_before_it_is_settled_stays_in_the_memory(pool: Pool, *, swaps: bool) -> None:
    """What is written to the copied active file counts as much as what was copied."""
    added = delve("Added", "2026-06-14").strip()
    for at, before in crashes(pool, swaps=swaps):
        copied = elsewhere(pool, shutil.copytree)
        with copied.active.open("ab") as file:
            file.write(b"\n\n" + added)
        compact(request(copied), Disk())
        assert everywhere(copied) == before + Counter([added]), at


def test_a_carry_over_in_a_copied_folder_happens_once(pool: Pool) -> None:
    """Late text that a crashed run was about to bring back is there once, in a copy of the folder too."""
    late = delve("Late", "2026-06-14")
    for at in range(1, 60):
        before = _lay_with_late_text(pool, late)
        disk = CrashingDisk(at, "after")
        with suppress(PowerCutError):
            compact(request(pool), disk)
        copied = elsewhere(pool, shutil.copytree)
        for _ in range(2):
            compact(request(copied), Disk())
        assert everywhere(copied) == before, at
        if not disk.crashed:
            return


def _lay_with_late_text(pool: Pool, late: bytes) -> Counter[bytes]:
    """A compacted pool, to whose replaced file somebody appended."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with pool.active.open("ab") as file:
        compact(request(pool), Disk())
        file.write(b"\n\n" + late)
    return before + Counter([late.strip()])


def test_a_temporary_file_that_somebody_cleared_away_is_no_replacement(pool: Pool) -> None:
    """A backup or a cleaner that leaves out hidden temporary files does not make the next run believe that all is done."""
    for at, before in crashes(pool):
        for path in pool.memory_dir.glob(".*.tmp"):
            path.unlink()
        if not before - everywhere(pool):
            compact(request(pool), Disk())
            assert everywhere(pool) == before, at


def test_other_file_names_in_the_settings_settle_the_run_where_it_was_begun(pool: Pool) -> None:
    """A run is finished or undone in the files it was about, whatever names the settings have by now."""
    for at, before in crashes(pool):
        named = replace(pool, active_file="other.md", archive_file="other-archive.md")
        own = HEADER + delve("Own", "2026-05-01")
        named.active.write_bytes(own)
        compact(request(named), Disk())
        assert everywhere(pool) == before, at
        assert Counter(entries_of(named.active) + entries_of(named.archive)) == Counter([delve("Own", "2026-05-01").rstrip()]), at
        journal = pool.private_dir / "journal.json"
        assert not journal.exists(), at


def test_a_split_that_was_cut_short_is_settled_in_a_moved_folder(pool: Pool) -> None:
    """The same holds for the archive's shards."""
    for at in range(1, 80):
        before = lay_archive(pool)
        ids = known(pool)
        disk = CrashingDisk(at, "after")
        with suppress(PowerCutError):
            split(pool, SETTINGS, disk)
        moved = elsewhere(pool, lambda old, new: old.rename(new))
        assert seen(moved) == before, at
        split(moved, SETTINGS, Disk())
        assert over_all_files(moved) == before, at
        assert known(moved) == ids, at
        assert not pool.memory_dir.exists(), at
        pool.memory_dir.mkdir()
        if not disk.crashed:
            return


def test_paths_in_the_memory_folder_are_written_relative_to_it(pool: Pool) -> None:
    """A journal names its files by where they lie in the folder, those that a link leads away to in full."""
    home = pool.memory_dir.resolve()
    batch = BatchRecord(
        file=home / "a.md", existed=True, offset=1, size=2, sha256="x", heading=0, checksum="y", date="2026-06-15", versions=("v",)
    )
    publication = Publication(
        temp=home / ".t", dev=1, ino=2, size=3, sha256="z", snapshot=home / ".coldspark/replaced/s", credits=((home / "c", Path("/far/d")),)
    )
    journal = Journal(run="r", source=Path("/far/active.md"), batch=batch, publication=publication, quarter="2026-Q2")
    desk = Desk.of(pool)
    desk.prepare(Disk())
    desk.write(Disk(), journal)
    found: dict[str, Any] = json.loads(desk.journal.read_bytes())
    assert (found["format"], found["source"], found["batch"]["file"], found["publication"]["temp"]) == (2, "/far/active.md", "a.md", ".t")
    assert (found["publication"]["snapshot"], found["publication"]["credits"]) == (".coldspark/replaced/s", [["c", "/far/d"]])
    assert desk.read() == journal


def test_a_path_that_is_not_utf8_comes_back(pool: Pool) -> None:
    """A folder's name may be any bytes."""
    home = pool.memory_dir.parent / "caf\udce9"
    home.mkdir()
    desk = Desk.of(replace(pool, memory_dir=home))
    desk.prepare(Disk())
    journal = Journal(run="r", source=Path("/far/caf\udce9/active.md"))
    desk.write(Disk(), journal)
    assert desk.read() == journal


@pytest.mark.parametrize("number", ["1", "3", "0"])
def test_another_versions_journal_is_refused(pool: Pool, number: str) -> None:
    """A journal of another format is left to the version that wrote it, and nothing is written."""
    desk = Desk.of(pool)
    before = lay_archive(pool)
    desk.prepare(Disk())
    desk.journal.write_text(f'{{"format": {number}, "run": "r", "source": "a"}}')
    for run in (lambda: compact(request(pool), Disk()), lambda: split(pool, SETTINGS, Disk())):
        with pytest.raises(RefusedError) as caught:
            run()
        assert str(caught.value) == (
            f"Refused to touch {desk.journal}: another version of Coldspark left an unfinished run. Finish it with that version."
        )
    assert over_all_files(pool) == before


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"7", b"{}", b'{"format": 2}', b'{"format": null, "run": "r", "source": "a"}',
        b'{"format": 2, "run": "r", "source": 7}',
        b'{"format": 2, "run": "r", "source": "a", "batch": {}}', b"\xff\xfe",
    ],
    ids=range(11),
)  # fmt: skip
def test_a_journal_that_cannot_be_understood_is_refused(pool: Pool, data: bytes) -> None:
    """Nothing is written before a person has looked at it."""
    desk = Desk.of(pool)
    desk.prepare(Disk())
    desk.journal.write_bytes(data)
    with pytest.raises(RefusedError) as caught:
        desk.read()
    assert str(caught.value) == (
        f"Refused to touch {desk.journal}: the journal of an unfinished run is damaged."
        " Compare both tiers with a backup, then remove that file and run again."
    )
    before = lay_archive(pool, ARCHIVE)
    desk.prepare(Disk())
    desk.journal.write_bytes(data)
    for run in (lambda: compact(request(pool), Disk()), lambda: split(pool, SETTINGS, Disk())):
        with pytest.raises(RefusedError):
            run()
    assert over_all_files(pool) == before
