"""Recall and related: whole answers, folded to entries, every hit with its place and verbatim text."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from indexer.hits import PREVIEW_CHARACTERS
from models.pool import Pool, Tier
from models.query import Filters, Mode, RecallRequest
from models.results import Hit
from tests.fakes import MemoryStore
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log

if TYPE_CHECKING:
    from indexer.embedder import Vectors

MODES: tuple[Mode, ...] = get_args(Mode)
LONG = b"### [dream] A plain record (2026-05-06)\n**Connection:** " + b"The kiln was cooled in steps, as every week. " * 30 + b"\n"


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """KILN, a long entry about kilns, and TIDE active; thirty delves in the archive."""
    archive = b"# Dream Sparks Archive\n\n## Archived 2026-05-20 \xe2\x80\x94 30 entries (date range: 2026-05-01 to 2026-05-02)\n\n"
    write_tiers(pool, HEADER + log(KILN, LONG, TIDE), archive + log(*(delve(f"Salt number{n}", "2026-05-01") for n in range(30))))
    bench = Bench(tmp_path / "state", [pool])
    bench.sync()
    yield bench
    bench.close()


def refill(bench: Bench, *entries: bytes) -> None:
    """Makes these the active entries, beside an empty archive."""
    write_tiers(bench.pools[0], HEADER + log(*entries), b"")
    bench.sync()


def check_hits(hits: Sequence[Hit]) -> None:
    """Asserts what holds for the hits of any question."""
    assert len({(h.pool, h.id) for h in hits}) == len(hits)
    assert [h.score for h in hits] == sorted((h.score for h in hits), reverse=True)
    assert all(0 <= h.score <= 1 for h in hits)
    for hit in hits:
        data = Path(hit.file).read_bytes()
        lines = data.split(b"\n")[hit.line_start - 1 : hit.line_end]
        assert hit.text is not None
        assert hit.text.encode() == b"\n".join(lines)
        if hit.passage:
            assert hit.passage.text.encode() == hit.text.encode()[hit.passage.start : hit.passage.end]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", ["kiln cooling in steps", "nothing like any of this", "->", "the", "🦊", "number7"])
def test_an_answer_is_as_long_as_asked_for(bench: Bench, mode: Mode, query: str) -> None:
    """Whatever the question, `limit` hits come while there are as many entries, one per entry, best first, verbatim."""
    for limit in (1, 10, 33, 34, 1_000_000):
        hits = bench.recall(query, mode=mode, limit=limit)
        assert len(hits) == min(limit, 33)
        check_hits(hits)


@pytest.mark.parametrize("mode", MODES)
def test_the_right_entry_is_first(bench: Bench, mode: Mode) -> None:
    """A question in the entry's words finds it first, in every mode."""
    assert bench.recall("boats waiting for one tide crowd the lock", mode=mode)[0].title == "Tide tables and cron jitter"


def test_an_entry_of_many_passages_is_one_hit(bench: Bench) -> None:
    """A long entry whose passages all match comes once, with one passage of its text."""
    hits = bench.recall("the kiln was cooled in steps as every week", mode="semantic", limit=5)
    assert [h.title for h in hits].count("A plain record") == 1
    assert len(hits) == 5
    assert hits[0].passage is not None
    assert "cooled in steps" in hits[0].passage.text


def test_a_hit_says_where_it_stands(bench: Bench) -> None:
    """Tier, file, lines and batch date are those of the entry in its file."""
    hit = bench.recall("number7")[0]
    pool = bench.pools[0]
    lines = pool.archive.read_bytes().split(b"\n")
    at = next(n for n, line in enumerate(lines, 1) if b"number7 " in line)
    assert (hit.tier, hit.file, hit.line_start, hit.line_end, hit.batch_date) == ("archive", str(pool.archive), at, at + 2, "2026-05-20")
    assert (hit.kind, hit.tags, hit.date, hit.verdict, hit.pool) == ("delve", ["delve"], "2026-05-01", "release", "default")


def test_the_form_of_the_text_is_as_asked_for(bench: Bench) -> None:
    """Full text, a preview that marks its cut, or none at all."""
    search = bench.search
    (full,) = search.recall(RecallRequest(query="plain record kiln cooled in steps as every week", limit=1)).hits
    (preview,) = search.recall(RecallRequest(query="plain record kiln cooled in steps as every week", limit=1, text="preview")).hits
    (none,) = search.recall(RecallRequest(query="plain record kiln cooled in steps as every week", limit=1, text="none")).hits
    assert full.text == LONG.decode().rstrip("\n")
    assert preview.text is not None
    assert preview.text.endswith(" …")
    assert len(preview.text) <= PREVIEW_CHARACTERS + 2
    assert full.text.startswith(preview.text.removesuffix(" …"))
    assert none.text is None


def test_text_that_is_not_utf8_is_shown_and_found(bench: Bench) -> None:
    """An entry with undecodable bytes answers with U+FFFD in their place; its passage's offsets count its own bytes."""
    data = b"### [dream] Amber\xff (2026-05-04)\n**Connection:** Resin \xfe hardens slowly.\n"
    refill(bench, KILN, data)
    hit = bench.recall("resin hardens slowly")[0]
    assert hit.text == data.decode("utf-8", "replace").rstrip("\n")
    assert hit.passage is not None
    assert data[hit.passage.start : hit.passage.end].decode("utf-8", "replace") == hit.passage.text


@pytest.mark.parametrize(
    ("words", "query"),
    [
        ("深夜的窑炉慢慢冷却，缓存也应当逐步淘汰。", "窑炉慢慢冷却"),  # noqa: RUF001 - a fullwidth comma
        ("潮汐决定船只何时过闸。", "船只"),
        ("ミツバチは踊りで方向を伝える", "方向"),
        ("가마는 천천히 식힌다", "천천"),
        ("เตาเผาเย็นลงอย่างช้าๆ", "เย็นลง"),
        ("Cafe\u0301 bru\u0302le\u0301", "Café brûlé"),
        ("Café brûlé", "Cafe\u0301 bru\u0302le\u0301"),
        ("crème brûlée", "CREME BRULEE"),
        ("the 🦊 came back", "🦊"),
        ("see OPS-377 for more", "OPS-377"),
        ("port 8081 listens", "8081"),
        ("\ufb01re in \uff12\uff10\uff12\uff16", "fire 2026"),  # a ligature and fullwidth digits
        ("it’s the potter’s wheel", "potter's wheel"),  # noqa: RUF001 - the apostrophe people type
        ("snake_case_name is kept", "snake_case_name"),
        ("Größe der Straße", "STRASSE"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "lexical"])
def test_words_of_any_script_are_found(bench: Bench, words: str, query: str, mode: Mode) -> None:
    """Literal words are found first whatever their script, composition, case or width; the bytes keep their form."""
    others = [delve(f"Salt number{n}", "2026-05-01") for n in range(12)]
    refill(bench, *others, f"### [dream] Odd (2026-05-02)\n**Connection:** {words}\n".encode())
    hits = bench.recall(query, mode=mode)
    assert (hits[0].title, hits[0].score > hits[1].score) == ("Odd", True)
    assert hits[0].text is not None
    assert words in hits[0].text


def test_without_a_model_words_answer(bench: Bench) -> None:
    """While the model cannot be had, the reply says why, and goes by words."""
    result = bench.search.recall(RecallRequest(query="tide"), degraded="the model is loading", stale="old")
    assert (result.mode, result.degraded, result.stale, result.hits[0].title) == (
        "lexical", "the model is loading", "old", "Tide tables and cron jitter",
    )  # fmt: skip
    assert len(result.hits) == 10


@pytest.mark.parametrize("limit", [1, 5, 100])
def test_related_leaves_the_entry_itself_out(bench: Bench, limit: int) -> None:
    """The neighbours of an entry are others, nearest first, as many as asked for; a twin is another entry."""
    (kiln,) = [s for s in bench.catalog.entries([k.row for k in bench.catalog.known().values()]).values() if s.text in KILN]
    hits = bench.search.related(kiln, limit).hits
    assert len(hits) == min(limit, 32)
    assert hits[0].title == "A plain record"
    assert kiln.view.id not in {h.id for h in hits}
    check_hits(hits)


def test_related_finds_a_twin(bench: Bench) -> None:
    """A byte-identical entry is the nearest neighbour of its twin."""
    refill(bench, KILN, TIDE, KILN)
    first = bench.catalog.find(next(i for _, i in bench.catalog.known() if "-" in i))[0]
    assert bench.search.related(first, 1).hits[0].id == first.view.id.removesuffix("-2")


@pytest.mark.parametrize("filters", [Filters(), Filters(tier=("archive",))], ids=["unfiltered", "filtered"])
def test_a_lost_vector_cache_shortens_no_answer(bench: Bench, filters: Filters) -> None:
    """The cache may be deleted at any time: after the next sync, recall by meaning is as long as before."""
    before = len(bench.recall("salt", filters, "semantic", 20))
    bench.lose_vectors()
    bench.sync()
    assert len(bench.recall("salt", filters, "semantic", 20)) == before == 20


def test_a_lost_vector_cache_leaves_related_working(bench: Bench) -> None:
    """Neighbours are still found when the cache is gone."""
    bench.lose_vectors()
    bench.sync()
    assert len(bench.search.related(bench.catalog.find("")[0], 3).hits) == 3


class Forgetful(MemoryStore):
    """An approximate store, as HNSW is: of every ten neighbours, it misses one."""

    def query(self, tier: Tier, vector: Vectors, limit: int, ids: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """The nearest, less some."""
        found = super().query(tier, vector, limit, ids)
        return [hit for n, hit in enumerate(found) if n % 10 != 3]


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
@pytest.mark.parametrize("filters", [Filters(), Filters(kind=("delve",))], ids=["unfiltered", "filtered"])
def test_what_an_approximate_store_misses_shortens_no_answer(pool: Pool, tmp_path: Path, mode: Mode, filters: Filters) -> None:
    """Asked for as many hits as there are entries, recall gives them all, though the store leaves some out."""
    write_tiers(pool, HEADER + log(*(delve(f"Salt number{n}", "2026-05-01") for n in range(300))), b"")
    bench = Bench(tmp_path / "forgetful", [pool], store=Forgetful())
    bench.sync()
    assert len(bench.recall("pepper", filters, mode, 300)) == 300
    bench.close()


def test_several_threads_get_the_same_answer(bench: Bench) -> None:
    """Recalls at the same time do not disturb one another."""
    expected = [h.id for h in bench.recall("kiln salt number7 tide", limit=20)]
    answers: list[list[str]] = []

    def ask() -> None:
        answers.append([h.id for h in bench.recall("kiln salt number7 tide", limit=20)])

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [expected] * 6


def test_an_empty_index_answers_with_nothing(bench: Bench) -> None:
    """No entries, no hits, in any mode, and no error."""
    write_tiers(bench.pools[0], b"", b"")
    bench.sync()
    assert [bench.recall("kiln", mode=mode) for mode in MODES] == [[], [], []]


def test_entries_that_differ_in_one_word_are_recalled_apart(bench: Bench) -> None:
    """Always and never, 8080 and 8081: each of two near-equal entries is first for its own words."""
    refill(bench, ledger("park -- always retry a failed write"), ledger("park -- never retry a failed write"), KILN, TIDE)
    assert "always" in (bench.recall("always retry a failed write")[0].text or "")
    gateways = [delve(f"The gateway listens on port {port}", "2026-05-04") for port in (8080, 8081)]
    refill(bench, *gateways, KILN, TIDE)
    assert bench.recall("gateway port 8081")[0].title.endswith("8081")
