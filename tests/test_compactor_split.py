"""Splitting an archive by quarters: every batch verbatim, whatever the archive looks like."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import plan_split, split
from compactor.verify import verify_archive
from models.errors import EvictedFileError, RefusedError
from models.pool import Pool
from models.snapshot import read_pool
from tests.compactor_archives import (
    ARCHIVE,
    AUTUMN,
    LATE,
    LEFT,
    MARCH,
    QUARTERS,
    SETTINGS,
    SPRING,
    TITLE,
    WINTER,
    batch,
    known,
    lay_archive,
    litter_beside_shards,
    over_all_files,
    seen,
    shard,
    shards_of,
)
from tests.compactor_disks import request, tree
from tests.compactor_places import other_file_system
from tests.samples import HEADER, KILN, TIDE, delve, log

FENCED = delve("Fenced", "2026-04-01") + b"```\ncode\n\n" + SPRING + b"```\nend\n"
OPEN = delve("Open", "2026-04-01") + b"```\nnever closed\n"
COMMENT = delve("Comment", "2026-04-01") + b"<!-- never closed\n"
LOOSE = b"## Archived 2026-01-01\n\n" + delve("Loose", "2025-11-01")
IMPOSSIBLE = SPRING.replace(b"2026-05-02", b"2026-02-30").replace(b"Spring twin", b"No such day")

STRANGE = {
    "ordinary": ARCHIVE,
    "crlf": ARCHIVE.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
    "bom": b"\xef\xbb\xbf" + ARCHIVE,
    "bom before a batch": b"\xef\xbb\xbf" + WINTER + b"\n" + SPRING,
    "no last newline": ARCHIVE.rstrip(b"\n"),
    "many last newlines": ARCHIVE + b"\n \n\t\n",
    "no title": WINTER + b"\n" + SPRING,
    "entries before the first batch": TITLE + b"\n" + log(KILN, TIDE) + b"\n" + WINTER,
    "prose behind the heading": TITLE + b"\n" + WINTER.replace(b")\n\n###", b")\n\nA word first.\n\n###", 1) + b"\n" + SPRING,
    "own headings between": TITLE + b"\n" + WINTER + b"\n## Notes\n\nby hand\n\n# Other\n\n" + SPRING,
    "no blank line between": TITLE + WINTER + SPRING + MARCH,
    "an impossible date": TITLE + b"\n" + WINTER + b"\n" + IMPOSSIBLE + b"\n" + LATE,
    "an impossible date first": TITLE + b"\n" + IMPOSSIBLE + b"\n" + WINTER,
    "a loosely written heading": TITLE + b"\n" + SPRING + b"\n" + LOOSE + b"\n" + WINTER,
    "loosely written headings only": TITLE + b"\n" + LOOSE,
    "an open fence": TITLE + b"\n" + batch("2026-05-02", OPEN) + b"\n" + WINTER + b"\n" + batch("2026-05-03", OPEN, KILN),
    "an open comment": TITLE + b"\n" + batch("2026-05-02", COMMENT) + b"\n" + WINTER + b"\n" + batch("2026-05-03", COMMENT, TIDE),
    "an open fence in front": TITLE + b"\n```\n\n" + WINTER + b"\n" + SPRING + b"\n```\n",
    "a quoted batch heading": TITLE + b"\n" + batch("2026-05-02", KILN) + b"\n" + FENCED + b"\n" + WINTER,
    "twins": TITLE + b"\n" + b"\n".join(batch(day, KILN, KILN) for day in ("2026-05-02", "2026-01-02", "2026-05-02", "2026-09-09")),
    "the ends of the calendar": TITLE + b"\n" + batch("0001-01-01", KILN) + b"\n" + batch("9999-12-31", TIDE),
    "a batch without entries": TITLE + b"\n" + WINTER.partition(b"\n")[0] + b"\n\n" + SPRING,
    "odd line separators": TITLE + b"\r\r" + WINTER.replace(b"one", "one\u2028\x00\r".encode()) + b"\x0c\n" + SPRING,
}


@pytest.fixture(params=STRANGE, ids=lambda name: str(name).replace(" ", "-"))
def strange(request: pytest.FixtureRequest, pool: Pool) -> Counter[bytes]:
    """A pool with one of the strange archives; its entries."""
    return lay_archive(pool, STRANGE[request.param])


def test_batches_go_to_the_files_of_their_quarters(pool: Pool) -> None:
    """Each quarter's file begins with the title and holds its batches verbatim, in the archive's order; prose stays where it was."""
    lay_archive(pool)
    result = split(pool, SETTINGS, Disk())
    assert shards_of(pool) == QUARTERS
    assert pool.archive.read_bytes() == LEFT
    rows = [(Path(m.file).name, m.batches, m.entries, m.bytes) for m in result.moved]
    assert (result.status, result.left, result.archive.entries) == ("split", 0, 8)
    assert rows == [
        (shard(pool, "2025-Q4"), 1, 1, len(AUTUMN) + 1),
        (shard(pool, "2026-Q1"), 2, 3, len(WINTER + MARCH) + 2),
        (shard(pool, "2026-Q2"), 2, 4, len(SPRING + LATE) + 1),
    ]
    size = sum(len(p.entry.text) for p in read_pool(pool).entries if p.tier == "archive")
    assert result.conserved == f"8 archived entries ({size} bytes) = 8 in quarterly files now + 0 where they were"
    assert result.archive.bytes == sum(p.stat().st_size for p in pool.archive_files())
    assert result.warnings == []


def test_no_entry_of_a_strange_archive_is_lost_or_changed(pool: Pool, strange: Counter[bytes]) -> None:
    """Every entry is in exactly one file, under the id it had; nothing is left over; a second split has nothing to do."""
    before, active = known(pool), pool.active.read_bytes()
    first = split(pool, SETTINGS, Disk())
    assert over_all_files(pool) == strange
    assert known(pool) == before
    assert pool.active.read_bytes() == active
    assert litter_beside_shards(pool) == set()
    files = tree(pool.memory_dir)
    again = split(pool, SETTINGS, Disk())
    assert (again.status, again.left) == ("nothing-to-split", first.left)
    assert {p: t for p, t in tree(pool.memory_dir).items() if p.endswith(".md")} == {p: t for p, t in files.items() if p.endswith(".md")}


@pytest.mark.usefixtures("strange")
def test_every_byte_of_a_strange_archive_is_somewhere(pool: Pool) -> None:
    """What the archive held is in the archive and its shards; besides, there are titles and line feeds alone."""
    before = Counter(pool.archive.read_bytes().splitlines())
    split(pool, SETTINGS, Disk())
    after = sum((Counter(path.read_bytes().splitlines()) for path in pool.archive_files()), Counter[bytes]())
    assert not before - after
    assert set(after - before) <= {b"", TITLE.rstrip()}


@pytest.mark.usefixtures("strange")
def test_the_plan_of_a_split_writes_nothing_and_says_the_same(pool: Pool) -> None:
    """What `plan_split` lists is what `split` does, and the pool is untouched by it."""
    files = tree(pool.memory_dir)
    planned = plan_split(pool)
    assert tree(pool.memory_dir) == files
    done = split(pool, SETTINGS, Disk())
    assert planned.moved == done.moved
    assert planned.left == done.left
    assert (planned.status == "planned") == (done.status == "split")


@pytest.mark.parametrize("archive", [None, b"", TITLE, b"prose only", log(KILN, TIDE)], ids=["none", "empty", "title", "prose", "entries"])
def test_an_archive_without_batches_is_left_alone(pool: Pool, archive: bytes | None) -> None:
    """Nothing to split is no failure, and changes no file."""
    lay_archive(pool, archive or b"")
    if archive is None:
        pool.archive.unlink()
    before = {p.name: p.read_bytes() for p in pool.memory_dir.glob("*.md")}
    result = split(pool, SETTINGS, Disk())
    assert (result.status, result.moved, result.left) == ("nothing-to-split", [], len(parse_left(archive)))
    assert plan_split(pool).status == "nothing-to-split"
    assert {p.name: p.read_bytes() for p in pool.memory_dir.glob("*.md")} == before


def parse_left(archive: bytes | None) -> list[bytes]:
    """The entries that an archive without batches holds."""
    return [KILN, TIDE] if archive and KILN in archive else []


def test_a_pool_whose_first_archive_file_is_gone_has_nothing_to_split(pool: Pool) -> None:
    """Where only quarterly files are left, a split has nothing to do, and says so."""
    lay_archive(pool, Q2_2026=TITLE + b"\n" + SPRING)
    pool.archive.unlink()
    assert plan_split(pool).status == "nothing-to-split"
    assert split(pool, SETTINGS, Disk()).status == "nothing-to-split"


def test_a_split_appends_to_quarterly_files_that_exist(pool: Pool) -> None:
    """What a shard holds already, later batches too, stays a strict prefix of it."""
    old = TITLE + b"\n" + LATE
    lay_archive(pool, TITLE + b"\n" + SPRING + b"\n" + WINTER, Q2_2026=old)
    before = known(pool)
    split(pool, SETTINGS, Disk())
    assert shards_of(pool) == {"2026-Q1": TITLE + b"\n" + WINTER, "2026-Q2": old + b"\n" + SPRING + b"\n"}
    assert known(pool) == before


def test_shards_take_the_mode_of_the_archive(pool: Pool) -> None:
    """A new shard is as open to others as the archive, and so is the archive's new self."""
    lay_archive(pool)
    pool.archive.chmod(0o640)
    split(pool, SETTINGS, Disk())
    assert {p.stat().st_mode & 0o7777 for p in pool.archive_files()} == {0o640}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_shards_take_the_owner_of_the_archive(pool: Pool) -> None:
    """Where root splits another user's archive, that user owns every file of it."""
    lay_archive(pool)
    os.chown(pool.archive, 1234, 4321)
    split(pool, SETTINGS, Disk())
    assert {(p.stat().st_uid, p.stat().st_gid) for p in pool.archive_files()} == {(1234, 4321)}


def test_an_archive_that_is_a_link_stays_a_link(pool: Pool, tmp_path: Path) -> None:
    """The link's target is replaced where it lies, with its snapshot beside it; the shards lie in the memory folder."""
    lay_archive(pool)
    target = tmp_path / "elsewhere" / "old.md"
    target.parent.mkdir()
    pool.archive.rename(target)
    pool.archive.symlink_to(target)
    before = known(pool)
    split(pool, SETTINGS, Disk())
    assert pool.archive.is_symlink()
    assert target.read_bytes() == LEFT
    assert shards_of(pool) == QUARTERS
    assert known(pool) == before
    assert min((target.parent / ".coldspark" / "replaced-archive").iterdir()).read_bytes() == ARCHIVE
    assert litter_beside_shards(pool) == set()


def test_an_archive_on_another_file_system_is_split(pool: Pool) -> None:
    """A link that leads to another file system is followed there."""
    lay_archive(pool)
    with other_file_system(pool.memory_dir) as folder:
        (folder / "old.md").write_bytes(pool.archive.read_bytes())
        pool.archive.unlink()
        pool.archive.symlink_to(folder / "old.md")
        split(pool, SETTINGS, Disk())
        assert (folder / "old.md").read_bytes() == LEFT
        assert shards_of(pool) == QUARTERS


def test_a_hard_linked_archive_is_refused_before_anything_is_written(pool: Pool) -> None:
    """A replacement would part the two names."""
    lay_archive(pool)
    (pool.memory_dir / "other").hardlink_to(pool.archive)
    before = tree(pool.memory_dir)
    with pytest.raises(RefusedError, match="it has 2 hard links, and a replacement would part them"):
        split(pool, SETTINGS, Disk())
    assert tree(pool.memory_dir) == before


def test_a_shard_that_is_only_a_stub_stops_the_split(pool: Pool) -> None:
    """A shard that a cloud service has taken off the disk is not begun a second time, and the archive keeps its batches."""
    before = lay_archive(pool, TITLE + b"\n" + SPRING)
    (pool.memory_dir / f".{shard(pool, '2026-Q2')}.icloud").write_bytes(b"stub")
    with pytest.raises(EvictedFileError):
        split(pool, SETTINGS, Disk())
    assert pool.archive.read_bytes() == TITLE + b"\n" + SPRING
    assert seen(pool) == before
    assert litter_beside_shards(pool) <= {f".{shard(pool, '2026-Q2')}.icloud"}


def test_compactions_go_to_the_quarter_of_their_day_after_a_split(pool: Pool) -> None:
    """Once there is a shard, new batches go to the shard of the run's day, and the checksums of all are proven wherever they lie."""
    lay_archive(pool, b"")
    pool.archive.unlink()
    pool.active.write_bytes(HEADER + log(delve("First", "2026-05-01")))
    compact(request(pool), Disk())
    split(pool, SETTINGS, Disk())
    with pool.active.open("ab") as file:
        file.write(b"\n" + delve("Second", "2026-05-02"))
    result = compact(request(pool), Disk())
    assert Path(result.archive.file).name == shard(pool, "2026-Q2")
    assert pool.archive.read_bytes() == TITLE + b"\n"
    found = verify_archive(pool)
    assert (found.status, found.batches, found.proven) == ("verified", 2, 2)


def test_what_the_archive_was_before_each_quarter_left_it_is_kept(pool: Pool) -> None:
    """The snapshots of a split are there afterwards, oldest first, each a quarter shorter."""
    lay_archive(pool)
    split(pool, SETTINGS, Disk())
    kept = [path.read_bytes() for path in sorted((pool.private_dir / "replaced-archive").iterdir())]
    assert kept == [ARCHIVE, ARCHIVE.replace(AUTUMN + b"\n", b""), LEFT + SPRING + b"\n" + LATE]
