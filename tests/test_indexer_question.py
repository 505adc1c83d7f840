"""What a question asks for literally: terms, phrases and dates."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer.question import MOST_PHRASES, Question, read_question
from indexer.words import Stemmer


def phrases(text: str) -> list[tuple[str, tuple[str, ...]]]:
    """Text and terms of every phrase of *text*."""
    return [(p.text, p.terms) for p in read_question(text, Stemmer()).phrases]


def test_a_question_has_terms_phrases_and_dates() -> None:
    """Each is read from the same words."""
    question = read_question('what did "slow cooling" of OPS-412 teach in April 2026', Stemmer())
    assert question.terms == ("slow", "cool", "op", "412", "teach", "april", "2026")
    assert [p.text for p in question.phrases] == ["slow cooling", "OPS-412"]
    assert [d.text for d in question.dates] == ["April 2026"]
    assert question


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"slow cooling"', [("slow cooling", ("slow", "cool"))]),
        ("“slow cooling” and «staged eviction»", [("slow cooling", ("slow", "cool")), ("staged eviction", ("stage", "evict"))]),
        ("OPS-412", [("OPS-412", ("op", "412"))]),
        ("snake_case_name", [("snake_case_name", ("snake", "case", "name"))]),
        ("see foo/bar.py:12", [("foo/bar.py:12", ("foo", "bar", "py", "12"))]),
        ("v1.2.3", [("v1.2.3", ("v1", "2", "3"))]),
        ("https://example.org/a?b=c", [("https://example.org/a?b=c", ("http", "exampl", "org", "a", "b", "c"))]),
        ("C:\\temp\\x", [("C:\\temp\\x", ("c", "temp", "x"))]),
        ("who@example.org", [("who@example.org", ("who", "exampl", "org"))]),
        ("窑炉冷", [("窑炉", ("窑", "炉")), ("炉冷", ("炉", "冷"))]),
        ("가마", [("가마", ("가", "마"))]),
        ("\u1100\u1161\u1106\u1161", [("가마", ("가", "마"))]),  # conjoining jamo are composed first
        ("OPS-412 and ops-412", [("OPS-412", ("op", "412"))]),  # the same words count once
        ('"kiln"', []),  # one word is a term already
        ('"to be or not to be"', []),  # nothing but stop words
        ('"', []), ('""', []), ('"open end', []), ("“open end", []), ("«open end", []),
        ('"over\ntwo lines"', []),
        ("窑", []), ("a -> b", []), ("C++", []), ("--", []), ("kiln cooling", []), ("", []),
    ],
)  # fmt: skip
def test_phrases(text: str, found: list[tuple[str, tuple[str, ...]]]) -> None:
    """Quotations, identifiers, addresses and neighbours of unspaced scripts are phrases; lone words are not."""
    assert phrases(text) == found


def test_phrases_have_a_limit() -> None:
    """However many there are, so many are looked up, the quoted ones first."""
    many = " ".join(f"a-{n}" for n in range(500))
    found = phrases(f'{many} "slow cooling"')
    assert len(found) == MOST_PHRASES
    assert found[0][0] == "slow cooling"


def test_an_empty_question_asks_for_nothing() -> None:
    """Without terms and dates there is nothing to look up; a question of marks has none."""
    assert not Question()
    assert not read_question("-> ** ?", Stemmer())
    assert read_question("the", Stemmer())


@settings(deadline=None)
@given(st.text())
@example("in Apr\u0131l")
@example("\x00\x00")
@example('"\x00 a b"')
@example("\u0301")
def test_any_text_can_be_asked(text: str) -> None:
    """Whatever the characters, terms are words, and every phrase has two or more."""
    question = read_question(text, Stemmer())
    assert all(question.terms)
    assert all(len(p.terms) > 1 and all(p.terms) for p in question.phrases)


_pieces = st.sampled_from(
    ['"', "“", "”", "«", "»", "-", "_", ".", "a", "kiln", "the", "窑炉", "🦊", "\0", "\n", " ", "NEAR(", "*", "in April"]
)


@settings(deadline=None)
@given(st.lists(_pieces, max_size=20).map("".join))
def test_any_mixture_of_marks_can_be_asked(text: str) -> None:
    """Quotes that do not close, marks in a row, and FTS5's own syntax are only text."""
    question = read_question(text, Stemmer())
    assert all(question.terms)
    assert len(set(question.phrases)) == len(question.phrases)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    ["a" * 20_000, "窑" * 20_000, "“" * 20_000, "«" * 20_000, "1" * 20_000, "_" * 20_000, "a." * 10_000, "a" + "\u0301" * 19_999,
     "🦊" * 20_000, '"' + "kiln " * 3_990 + '"', "in april " * 2_200, "1 of " * 4_000, "ﷺ" * 20_000],
    ids=["word", "unspaced", "open-quotes", "open-guillemets", "digits", "underscores", "dots", "marks", "emoji", "quoted", "dates",
         "halves", "long-ligatures"],
)  # fmt: skip
def test_the_longest_question_is_read_at_once(text: str) -> None:
    """Twenty thousand characters of one kind are read in time that grows with their number, not its square."""
    question = read_question(text[:10_000], Stemmer())
    assert len(question.phrases) <= MOST_PHRASES
    assert read_question(text, Stemmer()) is not None
