"""Normalising, irregular forms and terms: a word's own text is always found by it."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexer import words
from indexer.irregular import BASE, regular
from indexer.words import STOP_WORDS, Stemmer


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the mice wrote and the geese kept", "the mouse write and the goose keep"),
        ("children, women; data!", "child, woman; datum!"),
        ("kiln", "kiln"),
        ("", ""),
        ("thoughts whether weddings dataset", "thoughts whether weddings dataset"),  # only whole words
        ("bit ground lay wound", "bit ground lay wound"),  # commoner as words of their own
        ("he_wrote_it wrote2", "he_write_it wrote2"),
    ],
)
def test_irregular_forms_become_their_words(text: str, expected: str) -> None:
    """Whole words are replaced wherever they stand; parts of words are not."""
    assert regular(text) == expected


@pytest.mark.parametrize("text", ["vétéran", "téhéran", "blåsat", "ärmen", "ünled"])
def test_a_part_of_an_accented_word_is_no_irregular_form(text: str) -> None:
    """What stands between a letter with an accent and the word's end is no word of its own."""
    assert regular(text) == text


def test_the_table_of_irregular_forms_is_sound() -> None:
    """No form is its own word or another's word, so that applying the table twice changes nothing; none is a stop word."""
    assert all(form != base for form, base in BASE.items())
    assert BASE.keys().isdisjoint(BASE.values())
    assert BASE.keys().isdisjoint(STOP_WORDS)
    assert all(form.isascii() and form.islower() and len(form) > 2 for form in BASE)


@pytest.mark.parametrize("form", sorted(BASE))
def test_each_irregular_form_has_the_term_of_its_word(form: str) -> None:
    """Asked for either, both are found."""
    stemmer = Stemmer()
    assert stemmer.terms(form) == stemmer.terms(BASE[form])


@given(st.text())
def test_making_regular_twice_changes_nothing(text: str) -> None:
    """What is regular stays."""
    assert regular(regular(text)) == regular(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Cafe\u0301", "café"), ("ﬁre", "fire"), ("\uff12\uff10", "20"), ("\uff2bi\uff4c\uff4e", "kiln"),
        ("STRASSE Straße", "strasse strasse"),
        ("窑炉", " 窑  炉 "), ("a🦊b", "a 🦊 b"), ("ﾄﾞ", " ド "),
        ("ΣΊΣΥΦΟΣ Σίσυφος", "σίσυφοσ σίσυφοσ"),
    ],
)  # fmt: skip
def test_normalised(text: str, expected: str) -> None:
    """Composition, width, case and ligatures go; unspaced scripts and emoji stand apart."""
    assert words.normalised(text) == expected


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("didn't won’t", ["not"]),  # noqa: RUF001 - nothing but stop words, so they are kept
        ("kiln's potters’ they'll", ["kiln", "potter"]),  # noqa: RUF001
        ("don't crack", ["crack"]),
        ("ran running runs", ["run"]),
        ("O'Reilly", ["o", "reilli"]),
        ("C++", ["c"]),
        ("x²", ["x2"]),
        ("Straße", ["strass"]),
    ],
)
def test_terms(text: str, terms: list[str]) -> None:
    """Contractions lose their endings, inflected forms meet in one stem."""
    assert Stemmer().terms(text) == terms


@pytest.mark.parametrize(
    "text",
    [
        "किताब", "தமிழ்", "বাংলা", "שָׁלוֹם", "اَلسَّلامُ",  # marks that do not compose are part of the word
        "İstanbul", "q\u0303uz",  # so are marks that casefolding sets free, or that no letter composes with
        "25°C", "©2026", "naïve", "Größe", "窑炉", "가마", "เตาเผา", "ミツバチ", "Печь", "ψυχή", "🦊", "👍🏽", "🇪🇸",
        "👨\u200d👩\u200d👧", "❤\ufe0f", "snake_case", "v1.2.3", "OPS-412", "rock'n'roll", "l’eau",  # noqa: RUF001
    ],
)  # fmt: skip
def test_a_word_has_the_terms_that_its_text_is_filed_under(text: str) -> None:
    """What a question looks up is what an entry with the same words is filed under."""
    stemmer = Stemmer()
    filed = set(stemmer.sequence(text))
    assert set(stemmer.terms(text)) <= filed
    assert set(stemmer.terms(text)) & filed


_letters = st.characters(categories=["L", "M", "N", "So", "Sk", "Co"])


@settings(deadline=None, max_examples=300)
@given(st.text(_letters, min_size=1, max_size=8).filter(lambda t: words.normalised(t) == regular(words.normalised(t))))
@example("q\u0303")
@example("\u0301")
def test_any_word_has_the_terms_that_its_text_is_filed_under(text: str) -> None:
    """No letter, mark, digit or symbol tears a question's word apart where the index keeps it whole; no term is empty."""
    stemmer = Stemmer()
    terms = stemmer.terms(text)
    assert all(terms)
    assert {t for t in terms if t not in STOP_WORDS} <= set(stemmer.sequence(text))


@pytest.mark.parametrize("text", ["Café brûlé", "Größe", "ångström", "가마", "ИЙ", "ạ̈"])
def test_composed_and_decomposed_are_one(text: str) -> None:
    """NFC, NFD and accents left out give the same terms."""
    stemmer = Stemmer()
    assert stemmer.terms(unicodedata.normalize("NFD", text)) == stemmer.terms(unicodedata.normalize("NFC", text))


def test_written_words_stand_beside_their_terms() -> None:
    """Each term comes with the first word that gave it, in lower case."""
    assert Stemmer().written("The Kilns' cooling kiln cooled") == {"kiln": "kilns", "cool": "cooling"}


@pytest.mark.parametrize(("text", "count"), [("", 0), ("a b-c", 3), ("snake_case", 1), ("->", 0), ("窑炉", 1)])
def test_count(text: str, count: int) -> None:
    """Runs of letters, digits and underscores are counted."""
    assert words.count(text) == count


@pytest.mark.parametrize(
    ("text", "expected"),
    [("CAFE\u0301", "café"), ("ẞ", "ss"), ("ﬁ", "fi"), ("\uff12", "\uff12")],
    ids=["composed", "sharp-s", "ligature", "width"],
)
def test_folded(text: str, expected: str) -> None:
    """Filter values are composed and in one case; width stays."""
    assert words.folded(text) == expected
