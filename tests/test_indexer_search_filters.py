"""Filters: what passes is what a look through the parsed files would pick, and no filter shortens an answer."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.pool import Pool
from models.query import Filters, Mode
from models.snapshot import PlacedEntry, read_pool
from tests.indexer_bench import Bench, write_tiers
from tests.samples import KILN, TIDE, ledger, log

KINDS = [
    "[dream]", "[Daydream]", "[delve]", "[swarm-docs]", "[Swarm-Ops] [expired]", "[ext-signal]", "[muse]", "[dream] [delve]", "[swarm]",
]  # fmt: skip
DATES = ["(2026-05-03 23:59)", "(2026-05-04)", "(2026-05-04 00:00)", "(2026-05-04 23:30)", "(2026-05-05 00:10)", "(2026-02-30)", ""]
FIELDS = [
    "**Signal:** faint\n**Source:** Harbour Almanac", "**Verdict:** Park -- later\n**Sources:** pottery x queue", "**Verdict:** release",
    "**Signal:** Noise — all of it", "**Signal:** humming\n**SOURCE:** a\n**Sources:** b", "**Signal:** \n**Connection:** bare",
]  # fmt: skip


def entry(n: int) -> bytes:
    """One of many different entries."""
    kind, date, fields = KINDS[n % len(KINDS)], DATES[n % len(DATES)], FIELDS[n % len(FIELDS)]
    return f"### {kind} Salt number{n} {date}\n{fields}\n".encode()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Two pools of 126 entries each, in both tiers."""
    folder = tmp_path_factory.mktemp("filters")
    pools = []
    for name in ("Main", "other/one"):
        pool = Pool(name, folder / name.replace("/", "-"))
        pool.memory_dir.mkdir()
        write_tiers(pool, log(*(entry(n) for n in range(0, 126, 3))), log(*(entry(n) for n in range(126) if n % 3)))
        pools.append(pool)
    bench = Bench(folder / "state", pools)
    bench.sync()
    yield bench
    bench.close()


def passes(placed: PlacedEntry, f: Filters) -> bool:
    """The contract's words, over one parsed entry."""
    e = placed.entry
    sources = "\n".join(e.values("source") + e.values("sources")).casefold()
    checks = [
        f.tier is None or placed.tier in f.tier,
        f.kind is None or e.kind in f.kind or ("swarm" in f.kind and e.kind.startswith("swarm-")),
        f.tags is None or any(t.casefold() in f.tags for t in e.tags),
        f.verdict is None or (e.verdict is not None and e.verdict.word in f.verdict),
        f.signal is None or e.signal in f.signal,
        f.pool is None or placed.pool.casefold() in f.pool,
        f.source is None or f.source.casefold() in sources,
        f.since is None or (e.date is not None and e.date >= f.since),
        f.until is None or (e.date is not None and e.date <= f.until),
    ]
    return all(checks)


def some(*values: str) -> st.SearchStrategy[list[str] | None]:
    """A filter of one or two of these, in odd case, or none."""
    odd = st.sampled_from([*values, *(v.upper() for v in values), *(v.title() for v in values)])
    return st.none() | st.lists(odd, min_size=1, max_size=2)


DAYS = st.none() | st.sampled_from([dt.date(2026, 5, 3), dt.date(2026, 5, 4), dt.date(2026, 5, 5), dt.date(1, 1, 1), dt.date(9999, 12, 31)])


@settings(deadline=None)
@given(
    st.fixed_dictionaries({
        "tier": some("active", "archive"), "kind": some("dream", "delve", "swarm", "swarm-docs", "muse", "unknown"),
        "tags": some("dream", "expired", "swarm-ops", "unknown"), "verdict": some("park", "release"),
        "signal": some("faint", "noise", "humming"), "pool": some("main", "other/one"),
        "source": st.none() | st.sampled_from(["almanac", "QUEUE", "pottery x", "zzz", "%", "_"]), "days": st.tuples(DAYS, DAYS),
    }),
    st.sampled_from(["hybrid", "semantic", "lexical"]), st.integers(1, 300),
)  # fmt: skip
def test_hits_are_what_a_look_through_the_files_picks(bench: Bench, drawn: dict[str, Any], mode: Mode, limit: int) -> None:
    """Any mix of filters picks the same entries as a check of each parsed entry, and `limit` of them while there are."""
    since, until = drawn.pop("days")
    if since and until and since > until:
        since, until = until, since
    filters = Filters(**drawn, since=since, until=until)
    expected = {(p.pool, p.id) for snapshot in bench.snapshots() for p in snapshot.entries if passes(p, filters)}
    hits = bench.recall("salt number5 harbour", filters, mode, limit)
    assert {(h.pool, h.id) for h in hits} <= expected
    assert len({(h.pool, h.id) for h in hits}) == len(hits) == min(limit, len(expected))


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Tokyo", ""])
def test_dates_are_the_entrys_own_in_any_time_zone(tmp_path: Path, zone: str) -> None:
    """The process's time zone shifts no entry to another day: since and until are inclusive and by the heading's words."""
    pool = Pool("default", tmp_path)
    stamps = ["2026-05-04 23:30", "2026-05-05 00:10", "2026-05-04", "2026-05-03 23:59"]
    write_tiers(pool, log(*(f"### [dream] At {stamp} ({stamp})\n**Connection:** a\n".encode() for stamp in stamps)), b"")
    script = (
        "from pathlib import Path; from models.pool import Pool; from models.query import Filters; from tests.indexer_bench import Bench\n"
        f"folder = Path({str(tmp_path)!r}); bench = Bench(folder / 'state', [Pool('default', folder)]); bench.sync()\n"
        "hits = bench.recall('at', Filters(since='2026-05-04', until='2026-05-04')); bench.close()\n"
        "print(sorted((h.title, h.date) for h in hits))"
    )
    environ = {**os.environ, "TZ": zone, "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "[('At 2026-05-04', '2026-05-04'), ('At 2026-05-04 23:30', '2026-05-04')]\n"


@pytest.mark.parametrize(
    ("filters", "data"),
    [
        ({"source": "Café brûlé"}, "### [dream] A (2026-05-04)\n**Source:** the Cafe\u0301 bru\u0302le\u0301 book\n"),
        ({"source": "cafe\u0301 BRU\u0302LE\u0301"}, "### [dream] A (2026-05-04)\n**Sources:** the Café brûlé book\n"),
        ({"source": "慢冷"}, "### [dream] A (2026-05-04)\n**Source:** 窑炉慢慢冷却\n"),
        ({"source": "https://example.org/ledger"}, ledger("park -- ok").decode()),
        ({"tags": ["Café"]}, "### [dream] [cafe\u0301] A (2026-05-04)\n**Source:** x\n"),
        ({"kind": ["Café"]}, "### [cafe\u0301] A (2026-05-04)\n**Source:** x\n"),
        ({"signal": ["hörbar"]}, "### [dream] A (2026-05-04)\n**Signal:** ho\u0308rbar\n"),
        ({"tags": ["STRASSE"]}, "### [dream] [straße] A (2026-05-04)\n**Source:** x\n"),
    ],
)
def test_values_match_whatever_their_case_or_composition(pool: Pool, tmp_path: Path, filters: dict[str, Any], data: str) -> None:
    """A filter value written composed finds the decomposed spelling and the other way round, in any case."""
    write_tiers(pool, log(KILN, data.encode(), TIDE), b"")
    bench = Bench(tmp_path / "state", [pool])
    bench.sync()
    hits = bench.recall("anything", Filters.model_validate(filters))
    bench.close()
    assert len(hits) == 1
    assert unicodedata.normalize("NFC", hits[0].text or "") == unicodedata.normalize("NFC", data.rstrip("\n"))


def test_an_entry_without_the_field_passes_no_filter_on_it(bench: Bench) -> None:
    """A filter on signal, verdict or date leaves out entries that have none."""
    for filters in (Filters(signal=("none",)), Filters(since=dt.date(1, 1, 1)), Filters(verdict=("park",))):
        for hit in bench.recall("salt", filters, limit=300):
            assert (hit.signal, hit.verdict, hit.date) != (None, None, None)
    assert bench.recall("salt", Filters(signal=("none",)), limit=300) == []


def test_the_pools_of_the_bench_are_read_whole(bench: Bench) -> None:
    """The look through the files, to which the index is held, sees every entry."""
    assert [len(read_pool(pool).entries) for pool in bench.pools] == [126, 126]
