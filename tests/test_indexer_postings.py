"""The cache between the lexical arm and the catalog: dropped with every change, bounded, shared by threads."""

from __future__ import annotations

import datetime as dt
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from indexer.catalog import Catalog
from indexer.lexical import bm25
from indexer.postings import MOST_KEPT, Postings
from indexer.question import Question
from models.pool import TIERS, Pool
from models.query import Filters, RecallRequest
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, log

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from indexer.catalog import RowIds

UNDATED = b"### [delve] Undated salt\n**Source:** thought\n"


class CountingCatalog(Catalog):
    """A catalog that remembers what was read of it, and may let something happen in front of a reading."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: list[str] = []
        self.before: Callable[[], None] | None = None

    def postings(self, term: str) -> tuple[RowIds, NDArray[np.float64]]:
        """Reads."""
        self._note(term)
        return super().postings(term)

    def holding(self, phrase: str) -> RowIds:
        """Reads."""
        self._note(f'"{phrase}"')
        return super().holding(phrase)

    def population(self) -> RowIds:
        """Reads."""
        self._note("everyone")
        return super().population()

    def _note(self, what: str) -> None:
        self.read.append(what)
        before, self.before = self.before, None
        if before:
            before()


class WideCatalog(Catalog):
    """A catalog in which every term stands in a quarter as many entries as may be kept."""

    def postings(self, term: str) -> tuple[RowIds, NDArray[np.float64]]:
        """Half of them are rows, half counts."""
        return np.zeros(MOST_KEPT // 8 - 50, np.int64), np.zeros(MOST_KEPT // 8 - 50)


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """KILN and TIDE, and an undated delve."""
    write_tiers(pool, HEADER + log(KILN, TIDE, UNDATED), b"")
    bench = Bench(tmp_path / "state", [pool])
    bench.catalog.close()
    bench.catalog = CountingCatalog(tmp_path / "state" / "catalog.sqlite3")
    bench.sync()
    yield bench
    bench.close()


@pytest.fixture
def counted(bench: Bench) -> CountingCatalog:
    """The bench's catalog."""
    assert isinstance(bench.catalog, CountingCatalog)
    return bench.catalog


def test_everything_is_read_once(counted: CountingCatalog) -> None:
    """Terms, phrases and the population come from memory the second time, and are the same."""
    postings = Postings(counted)
    for _ in range(3):
        assert len(postings.term("kiln")[0]) == 1
        assert len(postings.term("absent")[0]) == 0
        assert len(postings.phrase("staged eviction")) == 1
        assert len(postings.phrase("eviction staged")) == 0
        assert len(postings.population().rows) == 3
    assert counted.read == ["kiln", "absent", '"staged eviction"', '"eviction staged"', "everyone"]


def test_a_term_and_a_phrase_of_the_same_text_are_two(counted: CountingCatalog) -> None:
    """Nothing that is kept is mistaken for something else of the same name."""
    postings = Postings(counted)
    assert len(postings.term("population")[0]) == 0
    assert len(postings.phrase("kiln")) == len(postings.term("kiln")[0]) == 1
    assert len(postings.population().rows) == 3
    assert postings.passages(TIERS) == sum(counted.counts()[1].values())


def test_the_population_is_in_order(counted: CountingCatalog) -> None:
    """Rows ascend, lengths are positive, days are ordinals, 0 without a date."""
    everyone = Postings(counted).population()
    assert (np.diff(everyone.rows) > 0).all()
    assert (everyone.lengths > 0).all()
    assert sorted(everyone.days.tolist()) == [0, dt.date(2026, 5, 4).toordinal(), dt.date(2026, 5, 5).toordinal()]


def test_a_change_of_the_catalog_drops_all(bench: Bench, counted: CountingCatalog) -> None:
    """After a sync that changed something the new entries are there and the old ones gone."""
    postings = Postings(counted)
    assert [len(postings.term(t)[0]) for t in ("kiln", "amber")] == [1, 0]
    write_tiers(bench.pools[0], HEADER + log(TIDE, delve("Amber", "2026-05-01")), b"")
    bench.sync()
    assert [len(postings.term(t)[0]) for t in ("kiln", "amber")] == [0, 1]
    assert len(postings.phrase("staged eviction")) == 0
    assert len(postings.population().rows) == 2
    assert postings.passages(TIERS) == sum(counted.counts()[1].values())


def test_a_change_during_a_reading_is_not_kept(bench: Bench, counted: CountingCatalog) -> None:
    """What was read while a sync went on is not taken for the catalog's new state."""
    postings = Postings(counted)

    def change() -> None:
        write_tiers(bench.pools[0], HEADER + log(TIDE), b"")
        bench.sync()

    counted.before = change
    postings.term("kiln")
    assert len(postings.term("kiln")[0]) == 0
    assert counted.read.count("kiln") == 2


def test_a_question_survives_a_sync_between_its_readings(bench: Bench, counted: CountingCatalog) -> None:
    """Entries that came after the population was read cannot be scored yet, and disturb nothing."""
    postings = Postings(counted)
    scope = postings.scope(Filters())
    assert len(scope.rows) == 3

    def change() -> None:
        write_tiers(bench.pools[0], HEADER + log(KILN, TIDE, UNDATED, delve("Another kiln", "2026-05-01")), b"")
        bench.sync()

    counted.before = change
    found = bm25(postings, Question(("kiln",)), scope)
    (kiln, *_) = counted.find(next(i for (_, i), k in counted.known().items() if "Kiln cooling" in k.view))
    assert kiln.row in found.rows


def test_a_recall_survives_entries_that_go_meanwhile(bench: Bench, counted: CountingCatalog) -> None:
    """An entry that a sync removes between ranking and reading is left out of the answer."""
    search = bench.search
    search.recall(RecallRequest(query="kiln"))

    def change() -> None:
        write_tiers(bench.pools[0], HEADER + log(TIDE), b"")
        bench.sync()

    counted.before = change
    hits = search.recall(RecallRequest(query="kiln salt", mode="lexical")).hits
    assert "Tide tables and cron jitter" in [h.title for h in hits]


def test_no_more_is_kept_than_the_bound(tmp_path: Path) -> None:
    """The terms asked for least recently go first."""
    catalog = WideCatalog(tmp_path / "catalog.sqlite3")
    postings = Postings(catalog)
    for n in range(4):
        postings.term(str(n))
    postings.term("0")
    postings.term("4")
    assert [key[1] for key in postings._kept] == ["2", "3", "0", "4"]
    assert postings._size <= MOST_KEPT
    catalog.close()


def test_terms_that_stand_nowhere_are_bounded_too(counted: CountingCatalog) -> None:
    """Words that no entry has cost memory each, so that questions by the million may not pile them up."""
    postings = Postings(counted)
    for n in range(200):
        postings.term(f"absent{n}")
    assert postings._size >= len(postings._kept)


def test_threads_share_one_cache(bench: Bench) -> None:
    """Several threads reading while the catalog changes see whole answers only, and the last state in the end."""
    postings = Postings(bench.catalog)
    seen: set[int] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add(len(postings.term("salt")[0]))
            assert len(postings.population().rows) >= 1

    threads = [threading.Thread(target=read) for _ in range(4)]
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    for thread in threads:
        thread.start()
    for n in range(1, 6):
        write_tiers(bench.pools[0], HEADER + log(TIDE, *(delve(f"Salt number{i}", "2026-05-01") for i in range(10 * n))), b"")
        bench.sync()
    done.set()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(switch)
    assert seen <= {1, 10, 20, 30, 40, 50}
    assert len(postings.term("salt")[0]) == 50
    assert len(postings.population().rows) == 51
