"""Bringing a store in line with the catalog: what it lacks is put, what it has too much goes, unless that is somebody else's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from indexer.chroma import Record
from indexer.mend import Mender
from models.pool import Pool
from tests.fakes import DIMENSIONS, MemoryStore
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, log


class SharedStore(MemoryStore):
    """A store on a server that others use as well."""

    is_shared = True


@pytest.mark.parametrize(("store", "stays"), [(MemoryStore(), False), (SharedStore(), True)], ids=["own", "shared"])
def test_unknown_records_go_unless_the_store_is_shared(pool: Pool, tmp_path: Path, store: MemoryStore, *, stays: bool) -> None:
    """A comparison puts back what was lost, and leaves other people's records alone."""
    write_tiers(pool, HEADER + log(KILN, TIDE), b"")
    bench = Bench(tmp_path / "state", [pool], store=store)
    bench.sync()
    whole = store.ids("active")
    lost = min(whole)
    store.delete("active", [lost])
    store.upsert("active", [Record("other/feed#0", np.ones(DIMENSIONS, np.float32), {}, "theirs")])
    mender = Mender(bench.catalog, bench.vectors, lambda: None)
    mender.compare(store)
    mender.settle(store)
    assert store.ids("active") == whole | ({"other/feed#0"} if stays else set())
    assert bench.catalog.surplus() == []
    bench.close()
