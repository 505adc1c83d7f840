"""How much of a text a model can read: a question in a script that it never learned has an embedding all the same.

Such an embedding is near to whatever else is in that script, or near to nothing, with great confidence. Unknown tokens
are the plain sign; the other is a script that the vocabulary has only single letters of, which spell any word and mean
none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache

_LEARNED = 100
"""So many tokens of two letters or more make a script one that the model learned."""
_BYTES = "Ġ"
"""How vocabularies of bytes, which tell no scripts apart, write a blank."""


class Legibility:
    """Judges texts by a tokenizer's vocabulary."""

    def __init__(self, vocabulary: Callable[[], Iterable[str]]) -> None:
        self._vocabulary = vocabulary
        self.is_learned = cache(self._is_learned)

    def share(self, text: str, tokens: Sequence[tuple[int, int]]) -> float:
        """The share of the letters, digits and symbols of *text* that can be read; *tokens* are the known ones' (start, end)."""
        counted = [i for i, c in enumerate(text) if unicodedata.category(c)[0] in "LNS"]
        covered = {i for start, end in tokens for i in range(start, end)}
        return sum(i in covered and self._reads(text[i]) for i in counted) / len(counted) if counted else 0.0

    def _reads(self, character: str) -> bool:
        script = _script(character)
        return not character.isalpha() or script == "LATIN" or self.is_learned(script)

    def _is_learned(self, script: str) -> bool:
        vocabulary = list(self._vocabulary())
        words = (token.removeprefix("##").removeprefix("▁") for token in vocabulary)
        found = sum(len(word) > 1 and all(_script(c) == script for c in word) for word in words)
        return found >= _LEARNED or any(token.startswith(_BYTES) for token in vocabulary)


def _script(character: str) -> str:
    return unicodedata.name(character, "?").partition(" ")[0]
