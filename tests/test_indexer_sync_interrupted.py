"""A sync that dies anywhere: the next one ends where a clean build ends."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from indexer.chroma import Record
from models.pool import TIERS, Pool, Tier
from tests.fakes import FakeEmbedder, MemoryStore
from tests.indexer_bench import Bench, InterruptedError_, Mine, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log

if TYPE_CHECKING:
    from indexer.embedder import Vectors

LONG = b"### [dream] A plain record (2026-05-06)\n**Connection:** " + b"Firings, glazes and weather of the season. " * 12 + b"\n"
BEFORE = (HEADER + log(KILN, TIDE, LONG, delve("Salt", "2026-05-01"), KILN), ledger("release -- stale"))
CHANGES = {
    "first build": (b"", b"", *BEFORE),
    "compaction": (*BEFORE, HEADER + log(TIDE, KILN), log(ledger("release -- stale"), KILN, LONG, delve("Salt", "2026-05-01"))),
    "edits": (
        *BEFORE,
        HEADER + log(KILN.replace(b"[ext-signal]", b"[expired]"), LONG[:120] + b"\n", TIDE.replace(b"host", b"hut")),
        BEFORE[1],
    ),
    "all gone": (*BEFORE, b"", b""),
}


class Torn(MemoryStore):
    """A store that takes one record of an upsert and then dies, once."""

    armed = False

    def upsert(self, tier: Tier, records: Sequence[Record]) -> None:
        """Takes all, or only the first record."""
        if self.armed and len(records) > 1:
            self.armed = False
            super().upsert(tier, records[:1])
            raise InterruptedError_
        super().upsert(tier, records)


def writes_of(pool: Pool, folder: Path, before: tuple[bytes, bytes], after: tuple[bytes, bytes]) -> int:
    """How many writes the sync from *before* to *after* makes."""
    mine = Mine()
    bench = Bench(folder, [pool], mine=mine)
    write_tiers(pool, *before)
    bench.sync()
    made = mine.calls
    write_tiers(pool, *after)
    bench.sync()
    bench.close()
    return mine.calls - made


def interrupted(bench: Bench, mine: Mine, at: int, *, after: bool) -> None:
    """Runs a sync that dies at its write number *at*."""
    mine.calls, mine.at, mine.after = 0, at, after
    with pytest.raises(InterruptedError_):
        bench.sync()
    mine.at = 0


@pytest.mark.parametrize("after", [False, True], ids=["before the write", "behind the write"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_rerun_ends_like_a_clean_build(pool: Pool, tmp_path: Path, change: str, *, after: bool) -> None:
    """Whichever write of catalog or store a sync dies at, the next sync gives the records and rows of a clean build."""
    old, new = CHANGES[change][:2], CHANGES[change][2:]
    count = writes_of(pool, tmp_path / "count", old, new)
    clean = Bench(tmp_path / "clean", [pool])
    clean.sync()
    for at in range(1, count + 1):
        mine = Mine()
        bench = Bench(tmp_path / f"at{at}", [pool], mine=mine)
        write_tiers(pool, *old)
        bench.sync()
        write_tiers(pool, *new)
        interrupted(bench, mine, at, after=after)
        bench.sync()
        assert bench.state() == clean.state(), f"interrupted at write {at} of {count}"
        again = bench.sync()
        assert (again.embedded, again.added, again.moved, again.removed) == (0, 0, 0, 0)
        bench.close()
    clean.close()


@pytest.mark.parametrize("change", ["compaction", "edits", "all gone"])
def test_a_change_taken_back_after_an_interruption_is_taken_back(pool: Pool, tmp_path: Path, change: str) -> None:
    """When the files are as before again after an interrupted sync, the next sync makes the index as before, too."""
    old, new = CHANGES[change][:2], CHANGES[change][2:]
    count = writes_of(pool, tmp_path / "count", old, new)
    write_tiers(pool, *old)
    clean = Bench(tmp_path / "clean", [pool])
    clean.sync()
    for at in range(1, count + 1):
        mine = Mine()
        bench = Bench(tmp_path / f"at{at}", [pool], mine=mine)
        write_tiers(pool, *old)
        bench.sync()
        write_tiers(pool, *new)
        interrupted(bench, mine, at, after=True)
        write_tiers(pool, *old)
        bench.sync()
        assert bench.state() == clean.state(), f"interrupted behind write {at} of {count}"
        bench.close()
    clean.close()


def test_two_interruptions_in_a_row_are_mended(pool: Pool, tmp_path: Path) -> None:
    """A sync that dies while it mends the last one's damage is mended by the next."""
    old, new = CHANGES["compaction"][:2], CHANGES["compaction"][2:]
    count = writes_of(pool, tmp_path / "count", old, new)
    clean = Bench(tmp_path / "clean", [pool])
    clean.sync()
    for at in range(2, count, 3):
        for second in (1, 2, 3):
            mine = Mine()
            bench = Bench(tmp_path / f"at{at}-{second}", [pool], mine=mine)
            write_tiers(pool, *old)
            bench.sync()
            write_tiers(pool, *new)
            interrupted(bench, mine, at, after=False)
            mine.calls, mine.at = 0, second
            with suppress(InterruptedError_):  # little may be left to do
                bench.sync()
            mine.at = 0
            bench.sync()
            assert bench.state() == clean.state(), f"interrupted at writes {at}, then {second}"
            bench.close()
    clean.close()


def test_half_an_upsert_is_completed(pool: Pool, tmp_path: Path) -> None:
    """A batch of which the store took only the first record is put in whole by the next sync, without embedding."""
    write_tiers(pool, *BEFORE)
    store = Torn()
    bench = Bench(tmp_path / "state", [pool], store=store)
    store.armed = True
    with pytest.raises(InterruptedError_):
        bench.sync()
    assert sum(store.count(tier) for tier in TIERS) == 1
    assert bench.sync().embedded == 0
    assert bench.state()["wanted"] == bench.state()["stored"]
    bench.close()


class MortalEmbedder(FakeEmbedder):
    """An embedder that dies at its second batch, once."""

    batches = 0

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeds, or dies."""
        self.batches += 1
        if self.batches == 2:
            raise InterruptedError_
        return super().embed_passages(texts)


def test_embeddings_made_before_an_interruption_are_not_made_again(pool: Pool, tmp_path: Path) -> None:
    """Killed half way through embedding, the rerun embeds only what is missing."""
    write_tiers(pool, b"\n".join(delve(f"Entry number{n}", "2026-05-01") for n in range(300)), b"")
    embedder = MortalEmbedder()
    bench = Bench(tmp_path / "state", [pool], embedder=embedder)
    with pytest.raises(InterruptedError_):
        bench.sync()
    done = len(embedder.embedded)
    assert done > 0
    result = bench.sync()
    assert (result.entries.active, result.passages) == (300, 300)
    assert result.embedded == 300 - done
    assert len(embedder.embedded) == len(set(embedder.embedded)) == 300
    bench.close()


def test_six_thousand_entries_are_indexed_in_one_run(pool: Pool, tmp_path: Path) -> None:
    """More entries than any batch holds are all indexed, those without Pass, Signal or Sources too."""
    lame = [b"### [dream] Bare one (2026-05-01)\n**Connection:** a\n", b"### [dream] Bare two (2026-05-01)\n**Signal:** noise\n"]
    write_tiers(pool, b"\n".join([*(delve(f"Entry number{n}", "2026-05-01") for n in range(5_998)), *lame]), b"")
    bench = Bench(tmp_path / "state", [pool])
    assert bench.sync().entries.active == 6_000
    assert len(bench.store.ids("active")) == bench.catalog.counts()[1]["active"] == 6_000
    bench.close()
