"""What a question asks for literally: terms, phrases that only count as a whole, and dates. Pure but for the stemmer."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from itertools import pairwise

from indexer.dates import NamedDate, named_dates
from indexer.words import STOP_WORDS, UNSPACED, Stemmer

MOST_TERMS = 500
MOST_PHRASES = 32
"""What stands behind so many in a question is left out: it only costs time."""
_QUOTED = re.compile(r'"([^"\n]{1,300})"|“([^“”\n]{1,300})”|«([^«»\n]{1,300})»|「([^「」\n]{1,300})」')
_IDENTIFIER = re.compile(r"(?<![^\W_])[^\W_]++(?:[-_./:@#\\+~=&?%]{1,3}[^\W_]++)+")
_EMOJI = re.compile("[\U0001f1e6-\U0001f1ff]{2}|[^\\s\\w](?:[\ufe0f\U0001f3fb-\U0001f3ff]*\u200d[^\\s\\w])+")
"""Flags, and emoji that are joined into one."""
_UNSPACED = re.compile(f"(?:{UNSPACED.pattern}){{2,}}")


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand side by side: a quotation, an identifier, an address, two characters of an unspaced script."""

    text: str
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """The literal side of a question; empty when only its meaning is asked for. `written` are the words of the terms."""

    terms: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    phrases: tuple[Phrase, ...] = ()
    dates: tuple[NamedDate, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.terms or self.dates)


def read_question(text: str, stemmer: Stemmer) -> Question:
    """Terms, phrases and dates of *text*; the words of a day count as a date alone."""
    dates = named_dates(text)
    for date in dates:
        if date.day is not None:
            text = text.replace(date.text, " ")
    words = list(stemmer.written(text).items())[:MOST_TERMS]
    return Question(tuple(w[0] for w in words), tuple(w[1] for w in words), tuple(_phrases(text, stemmer)), tuple(dates))


def _phrases(text: str, stemmer: Stemmer) -> list[Phrase]:
    whole = [*_QUOTED.finditer(text), *_IDENTIFIER.finditer(text), *_EMOJI.finditer(text)]
    parts = ["".join(m.groups("")) or m[0] for m in whole]
    parts += [a + b for m in _UNSPACED.finditer(unicodedata.normalize("NFKC", text)) for a, b in pairwise(m[0])]
    found: dict[tuple[str, ...], str] = {}
    for part in parts[:MOST_PHRASES]:
        terms = tuple(stemmer.sequence(part))
        if len(terms) > 1 and any(term not in STOP_WORDS for term in terms):
            found.setdefault(terms, part)
    return [Phrase(part, terms) for terms, part in found.items()]
