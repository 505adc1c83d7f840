"""Looking at the index without opening it: right numbers, and not one file made or changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from indexer.generations import current_generation
from indexer.index import IndexFolder
from indexer.overview import overview, planned_sync
from models.pool import Pool
from models.snapshot import read_pool
from tests.fakes import FakeEmbedder
from tests.indexer_bench import write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file and folder with mode, time and bytes; SQLite's shared memory, which lists readers, by name alone."""
    found = {}
    for path in folder.rglob("*"):
        stat = path.stat()
        shared = path.name.endswith("-shm")
        data = b"" if path.is_dir() or shared else path.read_bytes()
        found[str(path.relative_to(folder))] = (stat.st_mode, 0 if shared else stat.st_mtime_ns, data)
    return found


@pytest.fixture
def state(pool: Pool, tmp_path: Path) -> Path:
    """An index of KILN, TIDE and an archived ledger in an oddly named folder, synced and closed."""
    write_tiers(pool, HEADER + log(KILN, TIDE), ledger("release -- stale"))
    state = tmp_path / "a b?c#d%41"
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=True)
    index.sync([read_pool(pool)])
    index.close()
    folder.vectors.close()
    return state


def check_unchanged(state: Path, look: Callable[[], object]) -> None:
    """Asserts that *look* leaves the tree as it is."""
    before = tree(state.parent)
    look()
    assert tree(state.parent) == before


def test_counts_are_the_indexs(state: Path) -> None:
    """Entries by tier, passages, and the model are as the sync left them."""
    found = overview(state)
    assert found is not None
    assert (found.path, found.entries.active, found.entries.archive, found.model) == (str(state / "index"), 2, 1, "fake:1")
    assert found.passages >= 3
    assert found.stale is None


def test_a_sync_that_could_not_read_all_is_told(state: Path, pool: Pool) -> None:
    """After a sync with a file unread, the overview says so."""
    pool.archive.unlink()
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=True)
    index.sync([read_pool(pool)])
    index.close()
    folder.vectors.close()
    found = overview(state)
    assert found is not None
    assert (found.stale, found.entries.archive) == ("the last sync could not read every file", 1)


def test_looking_changes_no_file(state: Path, pool: Pool) -> None:
    """Neither the overview nor the plan of a sync makes, changes or touches anything."""
    check_unchanged(state, lambda: (overview(state), planned_sync(state, [read_pool(pool)])))


def test_looking_beside_an_open_index_changes_no_file(state: Path, pool: Pool) -> None:
    """The same while another process has the index open, of whose latest writes the overview knows."""
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=False)
    write_tiers(pool, HEADER + log(KILN, TIDE, delve("Salt", "2026-05-01")))
    index.sync([read_pool(pool)])
    check_unchanged(state, lambda: (overview(state), planned_sync(state, [read_pool(pool)])))
    found = overview(state)
    assert found is not None
    assert found.entries.active == 3
    index.close()
    folder.vectors.close()


def test_looking_at_what_a_crash_left_changes_no_file(state: Path, pool: Pool, tmp_path: Path) -> None:
    """A write-ahead log without its shared memory, as a killed process or a copied folder leaves it, stays so, and is read."""
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=False)
    write_tiers(pool, HEADER + log(KILN, TIDE, delve("Salt", "2026-05-01")))
    index.sync([read_pool(pool)])
    left = tmp_path / "left" / "state"
    shutil.copytree(state, left, ignore=shutil.ignore_patterns("*-shm"))
    index.close()
    folder.vectors.close()
    assert list(left.rglob("catalog.sqlite3-wal"))
    check_unchanged(left, lambda: (overview(left), planned_sync(left, [read_pool(pool)])))
    found = overview(left)
    assert found is not None
    assert found.entries.active == 3


def test_the_plan_is_what_the_sync_then_does(state: Path, pool: Pool) -> None:
    """Added, moved and removed of the plan are those of the sync that follows."""
    write_tiers(pool, HEADER + log(TIDE.replace(b"host", b"hut"), delve("Salt", "2026-05-01")), log(ledger("release -- stale"), KILN))
    plan = planned_sync(state, [read_pool(pool)])
    folder = IndexFolder(state, FakeEmbedder())
    index = folder.open(create=True)
    done = index.sync([read_pool(pool)])
    index.close()
    folder.vectors.close()
    assert plan.status == "planned"
    assert (plan.added, plan.moved, plan.removed, plan.entries) == (done.added, done.moved, done.removed, done.entries)
    assert (plan.added, plan.moved, plan.removed) == (2, 1, 1)


def test_the_plan_without_an_index_adds_everything(pool: Pool, tmp_path: Path) -> None:
    """Before the first sync, every entry is to be added, and no state folder is made."""
    write_tiers(pool, HEADER + log(KILN, TIDE), b"")
    plan = planned_sync(tmp_path / "none", [read_pool(pool)])
    assert (plan.added, plan.moved, plan.removed, plan.entries.active) == (2, 0, 0, 2)
    assert overview(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"\x00", b"gone", b"../..", b"a\nb"])
def test_a_garbled_pointer_is_no_index(state: Path, pool: Pool, garbage: bytes) -> None:
    """Whatever `current` holds, there is no index to look at, and no error."""
    (state / "index" / "current").write_bytes(garbage)
    check_unchanged(state, lambda: overview(state))
    assert overview(state) is None
    assert planned_sync(state, [read_pool(pool)]).added == 3


@pytest.mark.parametrize("garbage", [b"", b"no database " * 999])
def test_a_garbled_catalog_is_no_index(state: Path, pool: Pool, garbage: bytes) -> None:
    """A catalog that is no database, or has no tables, is no index, and no error."""
    current = current_generation(state)
    assert current is not None
    (current / "catalog.sqlite3").write_bytes(garbage)
    check_unchanged(state, lambda: overview(state))
    assert overview(state) is None
    assert planned_sync(state, [read_pool(pool)]).added == 3


@pytest.mark.parametrize(
    ("wanted", "rebuild"),
    [
        ({"model": "fake:1"}, None),
        (None, None),
        ({"model": "fake:2"}, "the index was made with another model"),
        ({"model": "fake:2", "format": "99", "passage_rules": "9"}, "the index was made with another model and format and passage_rules"),
        ({"chroma_url": "http://127.0.0.1:1"}, "the index was made with another chroma_url"),
    ],
)
def test_the_plan_foresees_a_rebuild(state: Path, pool: Pool, wanted: dict[str, str] | None, rebuild: str | None) -> None:
    """Another model, format, rules or store than the index was made with are named, and then every entry is to be added."""
    plan = planned_sync(state, [read_pool(pool)], wanted)
    assert (plan.rebuild, plan.added > 0) == (rebuild, rebuild is not None)


def test_the_plan_foresees_damage(state: Path, pool: Pool) -> None:
    """A catalog that cannot be read is to be built anew; with no index at all there is nothing to rebuild."""
    folder = current_generation(state)
    assert folder is not None
    (folder / "catalog.sqlite3").write_bytes(b"no database at all " * 500)
    plan = planned_sync(state, [read_pool(pool)])
    assert plan.rebuild == "the catalog is damaged (file is not a database)"
    assert plan.added == plan.entries.active + plan.entries.archive > 0
    assert planned_sync(state / "none", [read_pool(pool)]).rebuild is None
