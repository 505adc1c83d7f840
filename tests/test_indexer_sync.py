"""Sync: the index follows the Markdown, and nothing is embedded twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexer.embedder import UnavailableEmbedder
from indexer.sync import Sync
from models.errors import ModelMissingError
from models.pool import Pool
from tests.fakes import FakeEmbedder, MemoryStore
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log

LONG = (
    b"### [dream] A plain record (2026-05-06)\n**Connection:** "
    + b"The workshop kept a record of firings and weather. " * 18
    + b"At the very end the potter retuned a cracked bell.\n"
)


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """An index of one pool, with KILN and TIDE active and a ledger in the archive."""
    write_tiers(pool, HEADER + log(KILN, TIDE), b"# Dream Sparks Archive\n\n" + ledger("release -- stale"))
    bench = Bench(tmp_path / "state", [pool])
    yield bench
    bench.close()


def embedded(bench: Bench) -> list[str]:
    """What has been embedded so far."""
    assert isinstance(bench.embedder, FakeEmbedder)
    return bench.embedder.embedded


def check_clean(bench: Bench) -> None:
    """Asserts that the store has exactly the records that the catalog knows, and that a new index would be the same."""
    fresh = Bench(bench.folder / "fresh", bench.pools)
    fresh.sync()
    assert bench.state() == fresh.state()
    assert bench.state()["wanted"] == bench.state()["stored"]
    fresh.close()
    shutil.rmtree(fresh.folder)


def test_a_second_sync_embeds_nothing(bench: Bench) -> None:
    """The first sync embeds every passage; the second does nothing, and says so."""
    first = bench.sync()
    assert (first.status, first.entries.active, first.entries.archive, first.added) == ("ok", 2, 1, 3)
    assert first.embedded == first.passages == len(embedded(bench)) > 0
    second = bench.sync()
    assert (second.embedded, second.reused, second.added, second.moved, second.removed) == (0, 0, 0, 0, 0)
    assert (second.passages, second.entries) == (first.passages, first.entries)
    check_clean(bench)


def test_a_move_between_tiers_embeds_nothing(bench: Bench) -> None:
    """An entry that compaction moved changes tier with its vectors; no record of it stays behind."""
    bench.sync()
    count = len(embedded(bench))
    (pool,) = bench.pools
    write_tiers(pool, HEADER + TIDE, pool.archive.read_bytes() + b"\n" + KILN)
    result = bench.sync()
    assert (result.embedded, result.added, result.moved, result.removed) == (0, 0, 1, 0)
    assert result.reused > 0
    assert (result.entries.active, result.entries.archive) == (1, 2)
    assert len(embedded(bench)) == count
    check_clean(bench)


def test_a_tier_that_is_emptied_answers_nothing(bench: Bench) -> None:
    """When every active entry has moved, the active tier is empty and each entry stands in one tier."""
    bench.sync()
    (pool,) = bench.pools
    write_tiers(pool, HEADER, log(ledger("release -- stale"), KILN, TIDE))
    result = bench.sync()
    assert (result.entries.active, result.entries.archive, result.moved, result.removed) == (0, 3, 2, 0)
    assert bench.store.count("active") == 0
    check_clean(bench)


@pytest.mark.parametrize("emptied", [b"", b"\xef\xbb\xbf", HEADER], ids=["no bytes", "a BOM", "prose only"])
def test_a_file_without_entries_takes_its_entries_along(bench: Bench, emptied: bytes) -> None:
    """Entries deleted from a file that can be read leave the index."""
    bench.sync()
    write_tiers(bench.pools[0], emptied)
    result = bench.sync()
    assert (result.status, result.removed, result.entries.active, result.entries.archive) == ("ok", 2, 0, 1)
    check_clean(bench)


def test_an_edit_of_the_same_size_and_time_is_seen(bench: Bench) -> None:
    """Change is told by content: same length and restored time do not hide an edit, and a mere touch embeds nothing."""
    bench.sync()
    path = bench.pools[0].active
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"cracks", b"breaks"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    result = bench.sync()
    assert result.embedded > 0
    assert any("breaks" in text for text in embedded(bench)[-result.embedded :])
    path.touch()
    assert bench.sync().embedded == 0
    check_clean(bench)


def test_an_entry_that_shrinks_leaves_no_old_passage(bench: Bench) -> None:
    """A long entry cut down to one sentence has one passage, and no record holds the removed text."""
    (pool,) = bench.pools
    write_tiers(pool, HEADER + log(KILN, LONG))
    bench.sync()
    assert bench.store.count("active") > 3
    write_tiers(pool, HEADER + log(KILN, b"### [dream] A plain record (2026-05-06)\n**Connection:** Nothing much.\n"))
    bench.sync()
    assert isinstance(bench.store, MemoryStore)
    assert not any("cracked bell" in r.document for r in bench.store.records["active"].values())
    assert [h.text for h in bench.recall("retuned a cracked bell", limit=20) if "bell" in (h.text or "")] == []
    counts = sorted(k.passages for k in bench.catalog.known().values() if k.tier == "active")
    assert counts[0] == 1
    check_clean(bench)


def test_retagging_in_place_embeds_nothing_and_keeps_the_id(bench: Bench) -> None:
    """A tag or annotation added to a heading changes the record's metadata and text but no id and no vector."""
    bench.sync()
    before = set(bench.catalog.known())
    write_tiers(bench.pools[0], HEADER + log(KILN.replace(b"[ext-signal]", b"[ext-signal] [expired] [consumed: 2026-05-09]"), TIDE))
    result = bench.sync()
    assert (result.embedded, result.added, result.removed) == (0, 0, 0)
    assert set(bench.catalog.known()) == before
    assert isinstance(bench.store, MemoryStore)
    assert any(r.metadata["tags"] == ["dream", "ext-signal", "expired"] for r in bench.store.records["active"].values())
    check_clean(bench)


def test_metadata_that_an_edit_drops_is_gone(bench: Bench) -> None:
    """A delve that loses verdict and signal keeps no value of them in the store, though its id and keys stay."""
    (pool,) = bench.pools
    write_tiers(pool, HEADER + ledger("park -- later").replace(b"[delve]", b"[delve] [expired]"), b"")
    bench.sync()
    write_tiers(pool, HEADER + ledger("park -- later").replace(b"[delve]", b"[muse]"))
    bench.sync()
    assert isinstance(bench.store, MemoryStore)
    for record in bench.store.records["active"].values():
        assert (record.metadata["kind"], record.metadata["tags"], record.metadata["verdict"]) == ("muse", ["muse"], "")
        assert set(record.metadata) == {"pool", "tier", "entry", "kind", "tags", "verdict", "signal", "date"}


def test_every_metadata_value_is_one_that_chroma_takes(bench: Bench) -> None:
    """Whatever an entry lacks, no value is None, an empty list or an empty dictionary."""
    write_tiers(bench.pools[0], b"### [DEAD: no]\n\n### [muse] bare\n**Mood:** wry\n\n### [dream] \xff (2026-02-30)\n**Signal:** \n")
    bench.sync()
    assert isinstance(bench.store, MemoryStore)
    values = [v for r in bench.store.records["active"].values() for v in r.metadata.values()]
    assert bench.store.count("active") == 3
    assert all(isinstance(v, str | int) or (isinstance(v, list) and v) for v in values)


@pytest.mark.parametrize("loss", ["unreadable", "vanished"])
@pytest.mark.parametrize("tier", ["active", "archive"])
def test_a_file_that_cannot_be_read_keeps_its_entries(bench: Bench, loss: str, tier: str) -> None:
    """Entries of a file that is gone or unreadable stay, are still found, and the result names the file; then all heals."""
    bench.sync()
    (pool,) = bench.pools
    path = pool.active if tier == "active" else pool.archive
    kept = path.read_bytes()
    path.unlink()
    if loss == "unreadable":
        path.mkdir()  # root reads files of any mode, so a folder stands in for a file that cannot be read
    count = 2 if tier == "active" else 1
    for _ in range(2):
        result = bench.sync()
        message = f"the file is gone; {count} entries of it stay in the index as they were"
        if loss == "unreadable":
            reason = f"The {tier} file {path} cannot be read (Is a directory): make it readable and run again."
            message = f"{reason} {count} entries of it stay in the index as they were."
        assert (result.status, result.removed, result.entries.active, result.entries.archive) == ("degraded", 0, 2, 1)
        assert [(w.file, w.message) for w in result.warnings] == [(str(path), message)]
        assert result.stale == message
    assert len(bench.recall("kiln ledger tide")) == 3
    if loss == "unreadable":
        path.rmdir()
    path.write_bytes(kept)
    assert (bench.sync().status, bench.sync().stale) == ("ok", None)
    check_clean(bench)


def test_the_other_file_is_followed_while_one_cannot_be_read(bench: Bench) -> None:
    """With the archive unreadable, new and deleted active entries are still taken in."""
    bench.sync()
    (pool,) = bench.pools
    pool.archive.unlink()
    pool.archive.mkdir()
    write_tiers(pool, HEADER + log(TIDE, delve("Salt", "2026-05-09")))
    result = bench.sync()
    assert (result.added, result.removed, result.entries.active, result.entries.archive) == (1, 1, 2, 1)


def test_a_twin_in_an_unreadable_file_stays(bench: Bench) -> None:
    """Of two identical entries, one in each tier, neither is dropped or moved because the archive cannot be read."""
    (pool,) = bench.pools
    write_tiers(pool, HEADER + KILN, KILN)
    bench.sync()
    pool.archive.unlink()
    result = bench.sync()
    assert (result.entries.active, result.entries.archive, result.moved, result.removed) == (1, 1, 0, 0)


def test_twins_are_two_entries(bench: Bench) -> None:
    """Byte-identical entries are indexed each, embed once, and deleting one leaves the other findable."""
    (pool,) = bench.pools
    write_tiers(pool, HEADER + log(KILN, KILN, TIDE), b"")
    first = bench.sync()
    assert first.entries.active == 3
    assert first.embedded < first.passages
    assert bench.sync().embedded == 0
    assert len({h.id for h in bench.recall("kiln cooling")[:2]}) == 2
    write_tiers(pool, HEADER + log(KILN, TIDE))
    assert (bench.sync().removed, bench.recall("kiln cooling")[0].title) == (1, "Kiln cooling and staged eviction")
    check_clean(bench)


def test_a_twin_that_moves_renumbers_nothing_that_matters(bench: Bench) -> None:
    """When one of two twins moves to the archive, each tier has one of them and nothing is embedded."""
    (pool,) = bench.pools
    write_tiers(pool, HEADER + log(KILN, TIDE, KILN), b"")
    bench.sync()
    write_tiers(pool, HEADER + log(TIDE, KILN), KILN)
    result = bench.sync()
    assert (result.embedded, result.entries.active, result.entries.archive) == (0, 2, 1)
    check_clean(bench)


def test_pools_may_hold_the_same_entry(bench: Bench, tmp_path: Path) -> None:
    """An entry that stands in two pools is two entries with one embedding; a pool that is dropped leaves the other alone."""
    other = Pool("other/with#odd", tmp_path / "other")
    other.memory_dir.mkdir()
    write_tiers(other, KILN, TIDE)
    both = Bench(tmp_path / "both", [*bench.pools, other])
    result = both.sync()
    assert (result.entries.active, result.entries.archive) == (3, 2)
    hits = both.recall("kiln cooling in steps avoids cracks")
    assert {(h.pool, h.tier) for h in hits[:2]} == {("default", "active"), ("other/with#odd", "active")}
    both.pools.pop()
    assert (both.sync().removed, len(both.recall("kiln cooling"))) == (2, 3)
    check_clean(both)
    both.close()


def test_a_lost_vector_cache_comes_back_from_the_store(bench: Bench) -> None:
    """Neither a quiet sync nor a move embeds anything again when the cache was deleted."""
    bench.sync()
    bench.lose_vectors()
    assert bench.sync().embedded == 0
    (pool,) = bench.pools
    write_tiers(pool, HEADER + TIDE, log(ledger("release -- stale"), KILN))
    count = len(embedded(bench))
    result = bench.sync()
    assert (result.moved, result.embedded, len(embedded(bench)) - count) == (1, 0, 0)
    check_clean(bench)


def test_a_store_that_lost_its_records_gets_them_back(bench: Bench) -> None:
    """The vector store can be deleted at any time: the next sync fills it from the cache without embedding."""
    bench.sync()
    bench.store = MemoryStore()
    assert bench.sync().embedded == 0
    check_clean(bench)


def test_an_entry_without_fields_is_indexed(bench: Bench) -> None:
    """An entry of bare lines is indexed and found like any other."""
    write_tiers(bench.pools[0], HEADER + log(KILN, b"### [muse] Unknown kind (2026-05-09)\nonly one line about amber\n"))
    bench.sync()
    assert bench.recall("amber")[0].title == "Unknown kind"


def test_without_a_model_nothing_is_changed(bench: Bench) -> None:
    """When the model cannot be had, a sync that needs it raises and leaves the index; one that needs it not succeeds."""
    bench.sync()
    before = bench.state()
    lame = UnavailableEmbedder(ModelMissingError("m", "gone"))
    sync = Sync(bench.catalog, bench.vectors, lambda: bench.store, lame)
    assert sync.run(bench.snapshots()).status == "ok"
    write_tiers(bench.pools[0], HEADER + log(KILN, TIDE, delve("Salt", "2026-05-09")))
    with pytest.raises(ModelMissingError):
        sync.run(bench.snapshots())
    assert bench.state() == before
    assert bench.sync().added == 1
    check_clean(bench)
