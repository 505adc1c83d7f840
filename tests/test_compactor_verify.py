"""Proving the archive: every damage to every part of it is found, nothing sound is called damaged, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.split import split
from compactor.verify import verify_archive
from models.errors import MissingFileError
from models.pool import Pool
from models.results import VerifyResult
from tests.compactor_archives import ARCHIVE, SETTINGS, TITLE, batch, lay_archive, shard
from tests.compactor_disks import NOON, CrashingDisk, PowerCutError, lay, request, tree
from tests.samples import HEADER, KILN, TIDE, delve, log

GONE = "is not as it was written; restore it from a backup"


@pytest.fixture
def proven(pool: Pool) -> Pool:
    """A pool whose archive holds two recorded batches: two entries of March, one of June."""
    pool.active.write_bytes(HEADER + log(delve("One", "2026-01-01"), delve("Two", "2026-01-02")))
    compact(request(pool, now=NOON.replace(month=3)), Disk())
    with pool.active.open("ab") as file:
        file.write(b"\n" + delve("Three", "2026-01-03"))
    compact(request(pool), Disk())
    return pool


def edit(path: Path, old: bytes, new: bytes) -> None:
    """Changes the first *old* in a file; it must be there."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def problems(found: VerifyResult) -> list[tuple[str, int | None, str]]:
    """File name, line and message of every problem."""
    return [(Path(p.file).name, p.line, p.message) for p in found.problems]


def counts(found: VerifyResult) -> tuple[str, int, int, int, int]:
    """Status, entries, batches, proven and unrecorded ones."""
    return found.status, found.entries, found.batches, found.proven, found.unrecorded


def test_a_sound_archive_is_proven_batch_by_batch(proven: Pool) -> None:
    """Every batch fits its checksum and its heading; files are listed with what they hold."""
    found = verify_archive(proven)
    assert counts(found) == ("verified", 3, 2, 2, 0)
    assert (found.pool, found.problems, found.warnings) == ("default", [], [])
    (file,) = found.files
    size = proven.archive.stat().st_size
    assert (file.file, file.bytes, file.entries, file.batches, file.proven) == (str(proven.archive), size, 3, 2, 2)


def test_verifying_writes_nothing(proven: Pool) -> None:
    """Neither a sound pool nor a damaged or a fresh one is touched."""
    before = tree(proven.memory_dir)
    verify_archive(proven)
    assert tree(proven.memory_dir) == before
    lay_archive(proven)
    before = tree(proven.memory_dir)
    assert verify_archive(proven).status == "verified"
    assert tree(proven.memory_dir) == before


MARCH = "'## Archived 2026-03-15 — 2 entries (date range: 2026-01-01 to 2026-01-02)'"
TWO_GONE = f"the batch of 2 entries archived on 2026-03-15 {GONE}"
DAMAGE: dict[str, tuple[Callable[[Path], object], list[tuple[int | None, str]]]] = {
    "the heading's count": (
        lambda path: edit(path, b"2 entries", b"3 entries"),
        [(None, TWO_GONE), (3, f"{MARCH.replace('2 entries', '3 entries')} is followed by 2 entries")],
    ),
    "the heading's range": (
        lambda path: edit(path, b"range: 2026-01-01", b"range: 2025-01-01"),
        [
            (3, TWO_GONE),
            (3, f"{MARCH.replace('(date range: 2026', '(date range: 2025')} is followed by entries of 2026-01-01 to 2026-01-02"),
        ],
    ),
    "the heading's day": (lambda path: edit(path, b"d 2026-03-15", b"d 2026-03-16"), [(None, TWO_GONE)]),
    "an entry's byte": (lambda path: edit(path, b"thought", b"Thought"), [(3, TWO_GONE)]),
    "an entry's heading": (
        lambda path: edit(path, b"### [delve] One", b"### One"),
        [(3, TWO_GONE), (3, f"{MARCH} is followed by 1 entries")],
    ),
    "a blank line": (lambda path: edit(path, b"\n\n### [delve] Two", b"\n### [delve] Two"), [(3, TWO_GONE)]),
    "line ends": (lambda path: edit(path, b"thought\n", b"thought\r\n"), [(3, TWO_GONE)]),
    "a text put into a batch": (lambda path: edit(path, b"\n\n### [delve] Two", b"\nmore\n\n### [delve] Two"), [(3, TWO_GONE)]),
    "an entry put between batches": (
        lambda path: edit(path, b"\n## Archived 2026-06", b"\n" + delve("New", "2026-01-01") + b"\n## Archived 2026-06"),
        [(3, f"{MARCH} is followed by 3 entries")],
    ),
    "a removed batch": (
        lambda path: path.write_bytes(TITLE + b"\n" + path.read_bytes()[path.read_bytes().index(b"## Archived 2026-06") :]),
        [(None, TWO_GONE)],
    ),
    "a removed entry": (
        lambda path: edit(path, delve("Two", "2026-01-02"), b""),
        [(3, TWO_GONE), (3, f"{MARCH} is followed by 1 entries")],
    ),
    "swapped entries": (
        lambda path: edit(
            path, log(delve("One", "2026-01-01"), delve("Two", "2026-01-02")), log(delve("Two", "2026-01-02"), delve("One", "2026-01-01"))
        ),
        [(3, TWO_GONE)],
    ),
    "an empty file": (
        lambda path: path.write_bytes(b""),
        [(None, TWO_GONE), (None, f"the batch of 1 entries archived on 2026-06-15 {GONE}")],
    ),
    "a removed file": (
        Path.unlink,
        [(None, TWO_GONE), (None, f"the batch of 1 entries archived on 2026-06-15 {GONE}")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE, ids=lambda name: str(name).replace(" ", "-"))
def test_damage_is_found_and_named(proven: Pool, damage: str) -> None:
    """Whatever part of a batch is not as it was, the archive is damaged, and file and line say where."""
    harm, expected = DAMAGE[damage]
    harm(proven.archive)
    found = verify_archive(proven)
    assert found.status == "damaged"
    assert problems(found) == [("dream-sparks-archive.md", line, message) for line, message in expected]


def test_any_byte_that_changes_in_a_batch_is_found(proven: Pool) -> None:
    """Each single byte of each batch is covered, from the heading's first to the last entry's line end."""
    data = proven.archive.read_bytes()
    for at in range(data.index(b"## Archived"), len(data)):
        second = data.index(b"## Archived 2026-06")
        if at == second - 1:  # the blank line between the batches belongs to neither
            continue
        proven.archive.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert verify_archive(proven).status == "damaged", (at, data[at : at + 1])


def test_any_cut_through_the_archive_is_found(proven: Pool) -> None:
    """However much is missing at the end, it shows."""
    data = proven.archive.read_bytes()
    for size in range(len(data)):
        proven.archive.write_bytes(data[:size])
        assert verify_archive(proven).status == "damaged", size


def test_of_two_equal_batches_the_damaged_one_is_named(pool: Pool) -> None:
    """Two batches of one day with the same text do not stand in for each other."""
    for _ in range(2):
        pool.active.write_bytes(HEADER + delve("Same", "2026-01-01"))
        compact(request(pool), Disk())
    assert counts(verify_archive(pool)) == ("verified", 2, 2, 2, 0)
    data = pool.archive.read_bytes()
    for at, line in ((data.index(b"thought"), 3), (data.rindex(b"thought"), 9)):
        pool.archive.write_bytes(data[:at] + b"T" + data[at + 1 :])
        assert problems(verify_archive(pool)) == [
            ("dream-sparks-archive.md", line, f"the batch of 1 entries archived on 2026-06-15 {GONE}")
        ]


def test_a_batch_that_is_there_twice_is_proven_once(proven: Pool) -> None:
    """A pasted copy of a batch has no checksum of its own, so it counts as unrecorded."""
    data = proven.archive.read_bytes()
    proven.archive.write_bytes(data + b"\n" + data[data.index(b"## Archived 2026-06") :])
    assert counts(verify_archive(proven)) == ("verified", 4, 3, 2, 1)


def test_batches_are_proven_wherever_a_split_has_brought_them(proven: Pool) -> None:
    """A split changes nothing about what is proven; damage in a shard is found there; a shard that is gone is missed."""
    split(proven, SETTINGS, Disk())
    assert counts(verify_archive(proven)) == ("verified", 3, 2, 2, 0)
    path = proven.memory_dir / shard(proven, "2026-Q1")
    data = path.read_bytes()
    edit(path, b"thought", b"Thought")
    assert problems(verify_archive(proven)) == [(path.name, 3, TWO_GONE)]
    path.unlink()
    assert [message for _, _, message in problems(verify_archive(proven))] == [TWO_GONE]
    path.write_bytes(data)
    assert verify_archive(proven).status == "verified"


def test_batches_without_a_record_are_judged_by_their_headings(pool: Pool) -> None:
    """An archive older than the list of checksums, or without it, verifies by counts and ranges."""
    lay_archive(pool, ARCHIVE)
    assert counts(verify_archive(pool)) == ("verified", 8, 5, 0, 5)
    edit(pool.archive, b"2 entries", b"9 entries")
    found = verify_archive(pool)
    assert [(line, "is followed by 2 entries" in message) for _, line, message in problems(found)] == [(5, True)]


def test_a_list_that_is_gone_proves_nothing(proven: Pool) -> None:
    """Without the list, what stands there is unrecorded, and no damage."""
    Desk.of(proven).batches.unlink()
    assert counts(verify_archive(proven)) == ("verified", 3, 2, 0, 2)


@pytest.mark.parametrize(
    "line", [b"garbage", b"[]", b"7", b"null", b"{}", b'{"run": "x"}', b"\xff\xfe", b"", b'{"file": 1, "offset": "a"}'],
    ids=["text", "list", "number", "null", "empty", "partial", "bytes", "blank", "types"],
)  # fmt: skip
def test_a_garbled_line_of_the_list_is_a_warning(proven: Pool, line: bytes) -> None:
    """A line that cannot be read is named; the other lines prove their batches."""
    path = Desk.of(proven).batches
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + line + b"\n" + second)
    found = verify_archive(proven)
    assert counts(found) == ("verified", 3, 2, 2, 0)
    message = "this line of the list of checksums cannot be read, so it proves nothing"
    assert [(Path(w.file).name, w.line, w.message) for w in found.warnings] == [("batches.jsonl", 2, message)]


def test_a_torn_last_line_of_the_list_counts_for_nothing(proven: Pool) -> None:
    """What a crash left of a line is passed over; the next run writes a whole one there."""
    path = Desk.of(proven).batches
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"run": "2026')
    assert (counts(verify_archive(proven)), verify_archive(proven).warnings) == (("verified", 3, 2, 2, 0), [])
    with proven.active.open("ab") as file:
        file.write(b"\n" + delve("Four", "2026-01-04"))
    compact(request(proven), Disk())
    assert len([json.loads(line) for line in path.read_bytes().splitlines()]) == 3
    assert counts(verify_archive(proven)) == ("verified", 4, 3, 3, 0)


@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_a_run_that_was_cut_short_is_no_damage(pool: Pool, when: str) -> None:
    """Whatever step a compaction dies at, the batches before it stay proven, and nothing is called damaged."""
    for at in range(1, 200):
        lay(pool, archive=None)
        pool.active.write_bytes(HEADER + delve("Before", "2026-01-01"))
        compact(request(pool, now=NOON.replace(month=3)), Disk())
        with pool.active.open("ab") as file:
            file.write(b"\n" + log(KILN, TIDE))
        disk = CrashingDisk(at, when)  # type: ignore[arg-type]
        with suppress(PowerCutError):
            compact(request(pool), disk)
        found = verify_archive(pool)
        assert (found.status, found.problems) == ("verified", []), at
        assert found.proven >= 1, at
        assert found.entries in {1, 3}, at
        if not disk.crashed:
            return


def test_a_loosely_written_heading_ends_the_batch_before_it(pool: Pool) -> None:
    """A batch that another program wrote with a heading of its own form does not make the one before it look damaged."""
    loose = b"\n## Archived 2026-02-01\n\n" + delve("Loose", "2026-01-01")
    lay_archive(pool, TITLE + b"\n" + batch("2026-01-20", KILN) + loose)
    found = verify_archive(pool)
    assert (found.status, found.problems, found.entries) == ("verified", [], 2)


def test_a_memory_folder_that_is_not_there_is_missing(pool: Pool) -> None:
    """A wrong path is no verified archive."""
    with pytest.raises(MissingFileError):
        verify_archive(Pool("default", pool.memory_dir / "nowhere"))


def test_an_empty_memory_verifies(pool: Pool) -> None:
    """Where nothing was archived yet, nothing is wrong."""
    assert counts(verify_archive(pool)) == ("verified", 0, 0, 0, 0)


def test_an_archive_that_cannot_be_read_is_damage(proven: Pool) -> None:
    """A file that the system does not hand over is a problem of its own, by its path."""
    proven.archive.unlink()
    proven.archive.mkdir()
    found = verify_archive(proven)
    assert found.status == "damaged"
    assert ("dream-sparks-archive.md", None) in [(name, line) for name, line, message in problems(found) if "cannot be read" in message]


def test_an_active_file_that_cannot_be_read_is_no_damage_of_the_archive(proven: Pool) -> None:
    """What is wrong with the active file is a warning here."""
    proven.active.unlink()
    proven.active.mkdir()
    found = verify_archive(proven)
    assert (found.status, found.proven) == ("verified", 2)
    assert [Path(w.file).name for w in found.warnings] == ["dream-sparks.md"]
