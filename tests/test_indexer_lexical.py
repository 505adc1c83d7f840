"""The lexical arm over a catalog: BM25 by the book, phrases, dates, filters, and which words count how often."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.dates import NamedDate, nearness
from indexer.lexical import K1, PHRASE, B, LexicalScores, bm25
from indexer.postings import Postings, Scope
from indexer.question import Phrase, Question, read_question
from indexer.words import Stemmer
from models.pool import Pool
from models.query import Filters
from tests.indexer_bench import Bench, write_tiers
from tests.samples import HEADER, delve, log

if TYPE_CHECKING:
    from indexer.catalog import RowIds


def scored(bench: Bench, question: Question, rows: RowIds | None = None) -> LexicalScores:
    """BM25 among *rows*, or all entries."""
    postings = Postings(bench.catalog)
    everyone = postings.population()
    return bm25(postings, question, Scope(everyone, everyone.rows if rows is None else rows))


@pytest.fixture
def bench(pool: Pool, tmp_path: Path) -> Iterator[Bench]:
    """An empty index."""
    bench = Bench(tmp_path / "state", [pool])
    yield bench
    bench.close()


def fill(bench: Bench, *entries: bytes, archive: bytes = b"") -> dict[str, int]:
    """Makes these the entries; rows by title."""
    write_tiers(bench.pools[0], HEADER + log(*entries), archive)
    bench.sync()
    rows = [k.row for k in bench.catalog.known().values()]
    return {s.view.title: row for row, s in bench.catalog.entries(rows).items()}


def dream(title: str, connection: str = "", date: str = "2026-05-04") -> bytes:
    """A dream with one field."""
    return f"### [dream] {title} ({date})\n**Connection:** {connection}\n".encode()


def counts(bench: Bench, term: str) -> dict[int, float]:
    """How often each entry has *term*, weighted, by row."""
    rows, often = Postings(bench.catalog).term(term)
    return dict(zip(rows.tolist(), often.tolist(), strict=True))


def scores(found: LexicalScores) -> dict[int, float]:
    """Scores by row."""
    return dict(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


ASKED = "amber"


@pytest.mark.parametrize(
    ("entry", "often"),
    [
        (b"### [dream] T (2026-05-04)\n**Pass:** amber\n", 0.5),
        (b"### [dream] amber (2026-05-04)\n", 2),
        (b"### [dream] T (2026-05-04)\n**Connection:** amber\n", 1),
        (b"### [delve] T (2026-05-04)\n**Core pattern:** amber Amber AMBER\n", 3),
        (b"### [dream] amber (2026-05-04)\n**Connection:** amber\n**Chain:** amber -> amber\n", 4),
        (b"### [dream] T (2026-05-04)\n**Connection:** amber\n**Pass:** 1\n**Connection:** amber\n", 2),  # a field repeated
        (b"### [dream] T (2026-05-04)\n**CONNECTION:** amber\n", 1),
        (b"### [dream] T (2026-05-04)\n**Connection:** one\ntwo amber\n\nthree amber\n**Pass:** amber\n", 2.5),  # over many lines
        (b"### [dream] T (2026-05-04)\n```\n**Connection:** amber\n```\n", 0.5),  # in a fence it is no field
        (b"### [dream] T (2026-05-04)\n**Connection:** a\n```\n**Pass:** amber\n```\n", 1),  # a field's fence is part of it
        (b"### [dream] T (2026-05-04)\n**Pass:** \xff\xfe\xc3\n**Connection:** amber\n**Signal:** amber\n", 1.5),  # invalid UTF-8 before
        (b"### [dream] \xffamber (2026-05-04)\n**Connection:** \xffamber\xff\n", 3),
        ("### [dream] Größe 窑炉 🦊 (2026-05-04)\n**Pass:** é\n**Connection:** amber\n".encode(), 1),  # offsets count characters
        (b"### [dream] amber (2026-05-04)\r\n**Connection:** amber\r\n**Pass:** amber\r\n", 3.5),
        (b"### [dream] T (2026-05-04)\n**Connection:** a\x00amber\x00\n**Pass:** \x00 amber\n", 1.5),
        (b"### [dream] T (2026-05-04)\n**Connection:** one\xe2\x80\xa8amber\x0bamber\xc2\x85\n", 2),
        (b"### [dream] [amber] T (2026-05-04)\n", 0.5),  # a tag
        (b"### [dream] T (2026-05-04) amber\n", None),  # behind the date, wherever it is counted
        (b"### [dream] T (2026-05-04)\n**Connection:** amber_snake AMBER-1 (amber)\n", 3),
    ],
)
def test_how_often_a_word_counts(bench: Bench, entry: bytes, often: float | None) -> None:
    """Twice in the title, once in what says what the spark is about, else half."""
    fill(bench, entry, dream("Salt"))
    (found,) = counts(bench, ASKED).values()
    assert found == often or (often is None and found > 0)


def test_an_edit_leaves_no_old_words(bench: Bench) -> None:
    """Words that an entry lost are found no more; those of a moved entry still are."""
    rows = fill(bench, dream("Salt", "amber"), dream("Pepper", "resin"))
    assert counts(bench, "amber") == {rows["Salt"]: 1}
    rows = fill(bench, dream("Salt", "jet"), archive=b"# Dream Sparks Archive\n\n" + dream("Pepper", "resin"))
    assert counts(bench, "amber") == {}
    assert counts(bench, "resin") == {rows["Pepper"]: 1}


def test_only_what_the_filters_pass_is_counted(bench: Bench) -> None:
    """N and df are of the allowed entries alone, so a word that is common elsewhere may be rare here."""
    rows = fill(bench, dream("A", "amber salt"), dream("B", "salt"), *(delve(f"Amber {n}", "2026-05-01") for n in range(6)))
    allowed = bench.catalog.allowed(Filters(kind=("dream",)))
    assert allowed is not None
    found = scored(bench, Question(("amber", "salt")), allowed)
    assert found.parts[0].most == pytest.approx(math.log(1 + (2 - 1 + 0.5) / (1 + 0.5)) * (K1 + 1))
    assert found.parts[1].most == pytest.approx(math.log(1 + (2 - 2 + 0.5) / (2 + 0.5)) * (K1 + 1))
    assert found.best(9) == [rows["A"], rows["B"]]


def test_a_phrase_counts_as_a_whole(bench: Bench) -> None:
    """Words side by side, in order, in one part of the entry; it weighs half as much as a term that is as rare."""
    rows = fill(
        bench, dream("A", "slow cooling works"), dream("B", "cooling slow works"), dream("C slow", "cooling"), dream("D Slow-Cooling"),
        *(dream(f"N{n}", "salt") for n in range(5)),
    )  # fmt: skip
    question = read_question('"slow cooling"', Stemmer())
    found = scored(bench, question)
    (phrase,) = [p for p in found.parts if p.name == '"slow cooling"']
    assert phrase.rows.tolist() == sorted([rows["A"], rows["D Slow-Cooling"]])
    assert phrase.most == pytest.approx(PHRASE * math.log(1 + (9 - 2 + 0.5) / (2 + 0.5)) * (K1 + 1))
    assert phrase.points.tolist() == [phrase.most] * 2
    assert scores(found)[rows["A"]] > scores(found)[rows["B"]]


@pytest.mark.parametrize("phrase", ['slow" OR "x', "a\x00b c", "NEAR(slow cooling)", "* ^ slow : x", "-slow +x", "(((", "slow\x00"])
def test_a_phrase_is_only_text(bench: Bench, phrase: str) -> None:
    """FTS5's own syntax, quotes and NULs inside a phrase raise nothing."""
    fill(bench, dream("A", "slow cooling works"))
    question = Question(("slow",), phrases=(Phrase(phrase, tuple(Stemmer().sequence(phrase))),))
    assert scored(bench, question).ceiling > 0


def test_a_date_counts_by_nearness(bench: Bench) -> None:
    """Entries of the day get all of it, those near a part; df is the sum of the nearnesses."""
    rows = fill(
        bench, dream("On", date="2026-05-04"), dream("Near", date="2026-05-06"), dream("Far", date="2025-01-01"), dream("None", date="x"),
    )  # fmt: skip
    found = scored(bench, Question(dates=(NamedDate(2026, 5, 4, "4 May 2026"),)))
    (part,) = found.parts
    assert part.name == "dated 4 May 2026"
    assert part.most == pytest.approx(math.log(1 + (4 - 1.5 + 0.5) / (1.5 + 0.5)) * (K1 + 1))
    assert scores(found) == pytest.approx({rows["On"]: part.most, rows["Near"]: part.most / 2})
    assert found.shares([rows["On"], rows["Near"], rows["Far"]]).tolist() == pytest.approx([1, 0.5, 0])


def test_dates_are_counted_among_the_allowed(bench: Bench) -> None:
    """A filter leaves out the days of other entries too."""
    rows = fill(bench, dream("A"), *(delve(f"D{n}", "2026-05-04") for n in range(4)))
    found = scored(bench, Question(dates=(NamedDate(2026, 5, 4, "x"),)), bench.catalog.allowed(Filters(kind=("dream",))))
    assert scores(found) == pytest.approx({rows["A"]: math.log(1 + (1 - 1 + 0.5) / (1 + 0.5)) * (K1 + 1)})


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
def test_the_best_are_first_and_ties_go_by_row(limit: int) -> None:
    """However many are asked for, the highest scores come, the lower row first among equals."""
    found = LexicalScores(np.array([2, 3, 5, 8]), np.array([1.0, 2.0, 1.0, 2.0]), 4.0)
    assert found.best(limit) == [3, 8, 2, 5][:limit]
    assert found.shares([1, 2, 3, 8, 9]).tolist() == [0, 0.25, 0.5, 0.5, 0]


@pytest.mark.parametrize(
    ("wanted", "titles"),
    [("thoughts", ["A"]), ("thought", ["A"]), ("THOUGHTS.md", ["A"]), ("data", ["B"]), ("bases", ["B"]), ("mice", ["C"]), ("ledger", [])],
)
def test_a_part_of_a_source_is_enough(bench: Bench, wanted: str, titles: list[str]) -> None:
    """The filter goes by the letters, in any case: a word's beginning that is an irregular form is a part like any other."""
    sources = {"A": "memory/thoughts.md", "B": "on databases", "C": "three mice"}
    fill(bench, *(f"### [delve] {t} (2026-05-04)\n**Source:** {source}\n".encode() for t, source in sources.items()))
    assert [h.title for h in bench.recall("x", Filters(source=wanted))] == titles


_vocabulary = st.sampled_from(["amber", "salt", "tide", "kiln", "jet", "resin"])
_corpus = st.lists(st.tuples(st.lists(_vocabulary, max_size=3), st.lists(_vocabulary, max_size=6), st.booleans()), min_size=1, max_size=8)


@settings(deadline=None, max_examples=60)
@given(_corpus, st.lists(_vocabulary, min_size=1, max_size=4, unique=True), st.booleans())
def test_bm25_is_the_formula(corpus: list[tuple[list[str], list[str], bool]], terms: list[str], filtered: bool) -> None:  # noqa: FBT001 - drawn by position
    """On any small corpus, filtered or not, each score is what a count by hand gives, and shares lie in 0 to 1."""
    texts = [(f"Z{n} {' '.join(title)}", " ".join(words), kind) for n, (title, words, kind) in enumerate(corpus)]
    entries = [f"### [{'dream' if k else 'daydream'}] {t} (2026-05-04)\n**Connection:** {c}\n".encode() for t, c, k in texts]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "memory").mkdir()
        bench = Bench(place / "state", [Pool("default", place / "memory", None)])
        rows = fill(bench, *entries)
        allowed = bench.catalog.allowed(Filters(kind=("dream",))) if filtered else None
        found = scored(bench, Question(tuple(terms)), allowed)
        bench.close()
    lengths = [len(re.findall(r"\w+", e.decode())) for e in entries]
    inside = [n for n, (_, _, kind) in enumerate(texts) if kind or not filtered]
    expected = dict.fromkeys(inside, 0.0)
    stemmed = {term: Stemmer().terms(term)[0] for term in terms}
    for term in stemmed:
        often = {n: 2 * texts[n][0].split().count(term) + texts[n][1].split().count(term) for n in inside}
        df = sum(n > 0 for n in often.values())
        idf = math.log(1 + (len(inside) - df + 0.5) / (df + 0.5))
        for n in inside:
            norm = K1 * (1 - B + B * lengths[n] / (sum(lengths) / len(lengths)))
            expected[n] += idf * (K1 + 1) * often[n] / (often[n] + norm)
    assert scores(found) == pytest.approx({rows[texts[n][0].strip()]: score for n, score in expected.items() if score})
    assert ((found.shares(found.rows.tolist()) > 0) & (found.shares(found.rows.tolist()) <= 1)).all()


def test_nearness_and_score_agree(bench: Bench) -> None:
    """The days that the population knows are the entries' own."""
    fill(bench, *(dream(f"T{n}", date=f"2026-05-{n:02}") for n in range(1, 10)))
    everyone = Postings(bench.catalog).population()
    assert nearness(NamedDate(2026, 5, 9, "x"), everyone.days).argmax() == 8
