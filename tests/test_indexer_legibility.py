"""How much of a question a model can read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.embedder import Embedder
from indexer.legibility import Legibility

_LATIN = ["kiln", "##ing", "a", "b", "1", "[UNK]"]
_CYRILLIC = ["п" + chr(0x430 + n % 32) + chr(0x430 + n // 32) for n in range(100)]


def share(vocabulary: list[str], text: str, unknown: str = "") -> float:
    """The share of *text* that is read, where each word is one known token unless it stands in *unknown*."""
    tokens = [m.span() for m in re.finditer(r"\S+", text) if m[0] not in unknown.split()]
    return Legibility(lambda: vocabulary).share(text, tokens)


@pytest.mark.parametrize(
    ("text", "unknown", "expected"),
    [
        ("kiln cooling", "", 1.0),
        ("kiln abcd", "abcd", 0.5),
        ("kiln, (abcd)", "(abcd)", 0.5),  # marks do not count either way
        ("kiln 1234", "", 1.0),
        ("🦊", "", 1.0),  # a symbol that has a token is read
        ("🦊", "🦊", 0.0),
        ("🦊 fox", "🦊", 0.75),
        ("", "", 0.0),
        (" -!? ", "", 0.0),  # nothing that could be read
        ("печь", "", 0.0),  # tokens there are, of single letters
        ("café", "", 1.0),
        ("kiln печь", "", 0.5),
        ("窑炉", "", 0.0),
    ],
)
def test_the_share_of_what_is_read(text: str, unknown: str, expected: float) -> None:
    """Letters, digits and symbols under known tokens count, unless their script was never learned."""
    assert share(_LATIN, text, unknown) == expected


@pytest.mark.parametrize(
    ("vocabulary", "learned"),
    [
        (_CYRILLIC, True),
        (_CYRILLIC[:99], False),
        (["##" + token for token in _CYRILLIC], True),
        (["▁" + token for token in _CYRILLIC], True),
        (["##" + token[:1] for token in _CYRILLIC], False),  # single letters spell anything
        ([token + "a" for token in _CYRILLIC], False),  # of two scripts
        (["Ġkiln"], True),  # bytes: nothing can be told
        ([], False),
    ],
    ids=["words", "too-few", "word-pieces", "sentence-pieces", "letters", "mixed", "bytes", "empty"],
)
def test_a_script_is_learned_by_its_words(vocabulary: list[str], *, learned: bool) -> None:
    """A hundred tokens of two letters or more make the difference, however the vocabulary marks them."""
    legibility = Legibility(lambda: vocabulary)
    assert legibility.is_learned("CYRILLIC") is learned
    assert legibility.share("печь", [(0, 4)]) == float(learned)


def test_the_vocabulary_is_read_once_a_script() -> None:
    """It is long, so what was found of a script is kept."""
    asked: list[int] = []

    def vocabulary() -> list[str]:
        asked.append(1)
        return _LATIN

    legibility = Legibility(vocabulary)
    for _ in range(3):
        legibility.share("печь печь窑", [(0, 10)])
    assert len(asked) == 2


@given(st.text(), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20))))
def test_any_text_has_a_share(text: str, tokens: list[tuple[int, int]]) -> None:
    """Whatever the characters and tokens, the share lies in 0 to 1."""
    assert 0 <= Legibility(lambda: _LATIN).share(text, tokens) <= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("how does a kiln cool", 1.0), ("Café brûlé, Größe, naïve", 1.0), ("v1.2.3 OPS-412 C++ foo/bar.py", 1.0), ("İstanbul", 1.0),
        ("🦊", 0.0), ("👍🏽 ❤️ 🇪🇸 👨‍👩‍👧", 0.0), ("窑炉慢慢冷却", 0.0), ("ミツバチは踊りで", 0.0), ("가마는 천천히", 0.0),
        ("เตาเผาเย็นลง", 0.0), ("Печь остывает", 0.0), ("ψυχή", 0.0),
        ("مرحبا", 0.0), ("שלום", 0.0), ("किताब", 0.0), ("->", 1.0), ("!?", 0.0),
        ("🦊 fox", 0.75),
    ],
)  # fmt: skip
def test_the_bundled_model_reads_english_alone(model: Embedder, text: str, expected: float) -> None:
    """Latin letters, digits and common symbols are read; emoji and other scripts are not, though some have tokens."""
    assert model.legible(text) == pytest.approx(expected)


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60))
def test_any_text_can_be_judged_by_the_bundled_model(model: Embedder, text: str) -> None:
    """Whatever the characters, the share lies in 0 to 1."""
    assert 0 <= model.legible(text) <= 1
