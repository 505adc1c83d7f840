"""Recall with `explain`: what a score is made of, and what just missed the answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from indexer.fusion import W
from models.pool import Pool
from models.query import Filters, Mode, RecallRequest
from models.results import Explanation, Hit, RecallResult
from tests.fakes import FakeEmbedder
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, KILN, TIDE, delve, log

MODES: tuple[Mode, ...] = get_args(Mode)
QUESTION = 'slow "cooling a kiln" in steps, OPS-412, on 4 May 2026'


class HalfBlind(FakeEmbedder):
    """A model that reads a part of every question."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self.part = part

    def legible(self, text: str) -> float:
        """That part."""
        return self.part


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """KILN and TIDE, and twenty delves."""
    write_tiers(pool, HEADER + log(KILN, TIDE), log(*(delve(f"Salt number{n}", "2026-05-01") for n in range(20))))
    bench = Bench(tmp_path / "state", [pool])
    bench.sync()
    yield bench
    bench.close()


def ask(bench: Bench, query: str = QUESTION, mode: Mode = "hybrid", limit: int = 10, filters: Filters | None = None) -> RecallResult:
    """An explained answer."""
    return bench.search.recall(RecallRequest(query=query, mode=mode, limit=limit, explain=True, filters=filters or Filters()))


def why(hit: Hit) -> Explanation:
    """The hit's explanation, which must be there."""
    assert hit.explanation is not None
    return hit.explanation


def everything(result: RecallResult) -> list[Hit]:
    """Hits and near misses."""
    return [*result.hits, *(result.near_misses or [])]


def test_without_explain_nothing_is_explained(bench: Bench) -> None:
    """Neither explanations nor near misses come unasked."""
    result = bench.search.recall(RecallRequest(query=QUESTION))
    assert result.near_misses is None
    assert [h.explanation for h in result.hits] == [None] * 10


@pytest.mark.parametrize("value", ["true", 1, 0, "yes", None])
def test_explain_is_a_truth_value(value: object) -> None:
    """Nothing but true and false is taken for one."""
    with pytest.raises(ValidationError, match="explain"):
        RecallRequest.model_validate({"query": "kiln", "explain": value})
    assert not RecallRequest(query="kiln").explain


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("query", [QUESTION, "tide", "nothing that stands there", "->", "the", "kiln kilns kiln's"])
def test_the_parts_add_up(bench: Bench, mode: Mode, query: str) -> None:
    """What matched makes `words`, no part gives more than it could, and the score is the mean of meaning and words."""
    for hit in everything(ask(bench, query, mode)):
        e = why(hit)
        assert sum(p.share for p in e.matched) == pytest.approx(e.words, abs=1e-3)
        assert all(0 < p.share <= p.most + 1e-9 <= 1.0001 for p in e.matched)
        assert [p.share for p in e.matched] == sorted((p.share for p in e.matched), reverse=True)
        assert not {p.name for p in e.matched} & set(e.missing)
        if mode == "lexical":
            assert e.meaning is None
            assert hit.score == pytest.approx(e.words, abs=1e-3)
        elif mode == "semantic" or query == "->":
            assert e.meaning is not None
            assert (e.words, e.matched, e.missing) == (0, [], [])
            assert hit.score == pytest.approx(max(e.meaning, 0), abs=1e-3)
        else:
            assert e.meaning is not None
            assert hit.score == pytest.approx((max(e.meaning, 0) + W * e.words) / (1 + W), abs=1e-3)


def test_the_parts_are_the_questions_own(bench: Bench) -> None:
    """Words as they were written, phrases in quotes, dates; each either matched or missing, at every hit."""
    (kiln, *_) = ask(bench).hits
    parts = {p.name for p in why(kiln).matched}
    assert parts == {"slow", "cooling", "kiln", "steps", '"cooling a kiln"', "dated 4 May 2026"}
    assert why(kiln).missing == ["ops", "412", '"OPS-412"']
    for hit in everything(ask(bench)):
        assert {p.name for p in why(hit).matched} | set(why(hit).missing) == parts | set(why(kiln).missing)


def test_shares_of_everything_make_one(bench: Bench) -> None:
    """What the parts could give is the whole of the question's information."""
    hit = ask(bench, "kiln tide number3").hits[0]
    stray = ask(bench, "kiln").hits[0]
    assert [p.most for p in why(stray).matched] == [1.0]
    assert sum(p.most for p in why(hit).matched) < 1
    assert len(why(hit).missing) == 2


def test_a_word_that_all_entries_have_is_not_missing(bench: Bench) -> None:
    """However little it says beside the question's other words, what stands in the entry is no missing word."""
    write_tiers(bench.pools[0], HEADER + log(*(delve(f"Common number{n}", "2026-05-01") for n in range(100))), b"")
    bench.sync()
    hit = ask(bench, "common " + " ".join(f"absent{n}" for n in range(100))).hits[0]
    assert "common" not in why(hit).missing


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("limit", [1, 5, 16, 18, 22, 500])
def test_near_misses_come_after_the_limit(bench: Bench, mode: Mode, limit: int) -> None:
    """They are the next five hits, in order; explaining changes neither hits nor scores."""
    result = ask(bench, mode=mode, limit=limit)
    plain = bench.search.recall(RecallRequest(query=QUESTION, mode=mode, limit=limit + 5)).hits
    assert [(h.id, h.score) for h in everything(result)] == [(h.id, h.score) for h in plain]
    assert len(result.hits) == min(limit, 22)
    assert result.near_misses is not None
    assert len(result.near_misses) == max(0, min(5, 22 - limit))


def test_near_misses_pass_the_filters(bench: Bench) -> None:
    """Nothing is shown that the question had excluded."""
    result = ask(bench, limit=1, filters=Filters(kind=("dream",)))
    assert [h.title for h in result.hits] == ["Kiln cooling and staged eviction"]
    assert [h.title for h in result.near_misses or []] == ["Tide tables and cron jitter"]


@pytest.mark.parametrize("query", ["\u0130stanbul", "q\u0303uz", "\u0301", "किताब", "a\x00b", "in Apr\u0131l", "“", "🦊\ufe0f"])
@pytest.mark.parametrize("mode", MODES)
def test_any_question_can_be_explained(bench: Bench, query: str, mode: Mode) -> None:
    """Lone marks, odd letters and open quotes have names like all other parts."""
    for hit in everything(ask(bench, query, mode)):
        assert all(name.strip() for name in [*why(hit).missing, *(p.name for p in why(hit).matched)])


def test_meaning_counts_as_far_as_it_was_read(bench: Bench) -> None:
    """Of a question that the model reads half of, the meaning weighs half; the explanation says so."""
    whole = {h.id: why(h) for h in everything(ask(bench, limit=50))}
    bench.embedder = HalfBlind(0.5)
    result = ask(bench, limit=50)
    assert result.degraded is None
    for hit in result.hits:
        e, before = why(hit), whole[hit.id]
        assert e.legible == 0.5
        assert e.meaning is not None
        assert before.meaning is not None
        assert e.meaning == pytest.approx(before.meaning / 2, abs=1e-3)
        assert e.words == before.words
        assert hit.score == pytest.approx((max(0.0, e.meaning) + W * e.words) / (1 + W), abs=1e-3)


@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_an_illegible_question_goes_by_words(bench: Bench, mode: Mode) -> None:
    """When nothing of it can be read, the answer says so, and is the lexical one."""
    lexical = ask(bench, mode="lexical")
    bench.embedder = HalfBlind(0.0)
    result = ask(bench, mode=mode)
    assert (result.mode, result.degraded) == ("lexical", "the model cannot read this question")
    assert [(h.id, h.score) for h in everything(result)] == [(h.id, h.score) for h in everything(lexical)]
    assert {why(h).meaning for h in result.hits} == {None}


def test_an_empty_index_explains_nothing(bench: Bench) -> None:
    """There are no hits and no near misses, and no error."""
    write_tiers(bench.pools[0], b"", b"")
    bench.sync()
    result = ask(bench)
    assert (result.hits, result.near_misses) == ([], [])
