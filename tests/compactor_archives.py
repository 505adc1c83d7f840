"""Archives of many batches and quarters, and what a pool's readers see of them, for the tests of growth and proof."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Iterator

import pytest

from compactor import batch as batches
from compactor.durable import Disk
from compactor.split import split
from models.log import parse
from models.memory_file import read_bytes
from models.pool import Pool
from models.settings import Settings
from models.snapshot import read_pool
from tests.compactor_disks import NOON, CrashingDisk, HookedDisk, PowerCutError, When, litter
from tests.samples import HEADER, KILN, TIDE, delve, log

SETTINGS = Settings(now=NOON)
TITLE = b"# Dream Sparks Archive\n"


def batch(day: str, *entries: bytes) -> bytes:
    """A batch of *entries* as `compact` writes it behind a blank line."""
    parsed = list(parse(log(*entries)).entries)
    return batches.render(parsed, dt.date.fromisoformat(day), b"\n\n")


# Two quarters of 2026 that alternate, one of the year before, and prose in front.
WINTER = batch("2026-01-20", delve("Winter one", "2025-12-01"), KILN)
SPRING = batch("2026-05-02", TIDE, delve("Spring twin", "2026-04-01"))
MARCH = batch("2026-03-31", delve("Winter two", "2026-02-01").replace(b"\n", b"\r\n"))
AUTUMN = batch("2025-10-01", delve("Autumn \xe2\x80\xa8 \xff", "2025-08-01"))
LATE = batch("2026-06-30", delve("Spring twin", "2026-04-01"), delve("Spring two", "2026-04-02"))
ARCHIVE = TITLE + b"\nSome prose.\n\n" + b"\n".join([WINTER, SPRING, MARCH, AUTUMN, LATE])
QUARTERS = {
    "2025-Q4": TITLE + b"\n" + AUTUMN + b"\n",
    "2026-Q1": TITLE + b"\n" + WINTER + b"\n" + MARCH + b"\n",
    "2026-Q2": TITLE + b"\n" + SPRING + b"\n" + LATE,
}
LEFT = TITLE + b"\nSome prose.\n\n"


def shard(pool: Pool, quarter: str) -> str:
    """The name of a quarter's file."""
    return pool.archive_file.replace(".md", f"-{quarter}.md")


def lay_archive(pool: Pool, archive: bytes = ARCHIVE, **shards: bytes) -> Counter[bytes]:
    """Empties the memory folder and writes an active file, an archive and shards (`Q2_2026=…`) there; answers all entries."""
    shutil.rmtree(pool.memory_dir)
    pool.memory_dir.mkdir()
    pool.active.write_bytes(HEADER + delve("Active", "2026-06-14"))
    pool.archive.write_bytes(archive)
    for name, data in shards.items():
        quarter, _, year = name.partition("_")
        (pool.memory_dir / shard(pool, f"{year}-{quarter}")).write_bytes(data)
    return over_all_files(pool)


def over_all_files(pool: Pool) -> Counter[bytes]:
    """Every entry's text over the active file, the archive and all shards, as the bytes say, counted."""
    paths = [(pool.active, False), *((path, True) for path in pool.archive_files())]
    return Counter(e.text for path, archive in paths for e in parse(read_bytes(path, "file")[0], archive=archive).entries)


def seen(pool: Pool) -> Counter[bytes]:
    """Every entry's text as readers see it, counted."""
    return Counter(p.entry.text for p in read_pool(pool).entries)


def known(pool: Pool) -> dict[str, bytes]:
    """The text of every entry, by its id."""
    placed = read_pool(pool).entries
    found = {p.id: p.entry.text for p in placed}
    assert len(found) == len(placed), "two entries have the same id"
    return found


def litter_beside_shards(pool: Pool) -> set[str]:
    """What does not belong in the memory folder of a split archive."""
    return litter(pool) - {p.name for p in pool.archive_files()} - {"replaced-archive"}


def shards_of(pool: Pool) -> dict[str, bytes]:
    """The bytes of every shard, by quarter."""
    return {p.stem[-7:]: p.read_bytes() for p in pool.archive_files() if p != pool.archive}


def split_crashes(pool: Pool, archive: bytes, *, swaps: bool = True) -> Iterator[tuple[str, Counter[bytes]]]:
    """A split that crashes behind its first step, or in the midst of it, then (from a fresh copy) at the second, and so on."""
    lay_archive(pool, archive)
    whole = HookedDisk(swaps=swaps)
    split(pool, SETTINGS, whole)
    assert len(whole.steps) > 20, "a split has more steps than that"
    for at, (step, path) in enumerate(whole.steps, 1):
        ways: tuple[When, ...] = ("after", "torn") if step in {"append", "write_new"} else ("after",)
        for when in ways:
            before = lay_archive(pool, archive)
            with pytest.raises(PowerCutError):
                split(pool, SETTINGS, CrashingDisk(at, when, swaps=swaps))
            yield f"{when} step {at}, {step} {path.name}", before


def settled_split(pool: Pool) -> None:
    """A split that nothing disturbs."""
    split(pool, SETTINGS, Disk())
