"""Words as the lexical arm sees them: normalised, irregular forms made regular, stemmed by SQLite's FTS5."""

from __future__ import annotations

import re
import sqlite3
import unicodedata
from collections.abc import Sequence
from typing import Literal

from indexer.irregular import regular

_CHARACTERS = "unicode61 remove_diacritics 2 categories 'L* N* Co So Mn Mc'"
TOKENIZER = f"porter {_CHARACTERS}"

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f"
UNSPACED = re.compile(f"[{_UNSPACED}]")
"""A character of a script that is written without spaces, and so is searched character by character."""

_STOP_WORDS = (
    "a about after again all also am an and any are as at be because been before being between both but by can could did do does"
    " doing down during each few for from further had has have having he her here hers him his how i if in into is it its itself"
    " just let me more most my no nor not now of off on once one only or other our out over own same shall she should since so some such"
    " than that the their them then there these they this those through to too under until up us very was we were what when where"
    " which while who whom whose why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())

_CONTRACTED = re.compile(r"(?<=\w)['’](?:s|d|ll|re|ve|m)\b")  # noqa: RUF001 - the apostrophe people type
_NEGATED = re.compile(r"\b\w+n['’]t\b")  # noqa: RUF001


class _Apart(dict[int, str]):
    """For `str.translate`: symbols, emoji and characters of unspaced scripts with blanks around them."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        alone = unicodedata.category(c) in ("So", "Co") or UNSPACED.match(c)
        self[code] = found = f" {c} " if alone else c
        return found


_APART = _Apart({0xFE0E: "", 0xFE0F: "", 0xFFFD: " "})
"""How an emoji is drawn says nothing; U+FFFD stands for what could not be read."""


def plain(text: str) -> str:
    """*text* composed (NFKC) and in one case."""
    return unicodedata.normalize("NFKC", text).casefold()


def normalised(text: str) -> str:
    """*text* `plain`, irregular forms made regular, symbols and characters of unspaced scripts set apart."""
    found = regular(plain(text))
    return found if found.isascii() else found.translate(_APART)


def folded(text: str) -> str:
    """*text* composed (NFC) and in one case, as filter values are compared."""
    return unicodedata.normalize("NFC", text).casefold()


def count(text: str) -> int:
    """How many words *text* has, for BM25's length normalisation."""
    return len(re.findall(r"\w+", text))


class Stemmer:
    """Gives the terms under which FTS5 files a text's words; for one thread."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        for table, tokenizer in (("plain", _CHARACTERS), ("stemmed", TOKENIZER)):
            self._db.execute(f'CREATE VIRTUAL TABLE {table} USING fts5(text, tokenize="{tokenizer}")')
            self._db.execute(f"CREATE VIRTUAL TABLE {table}_terms USING fts5vocab({table}, 'instance')")

    def sequence(self, text: str) -> list[str]:
        """The terms of *text* in order, each as often as it stands there."""
        return [term for _, term in self._filed("stemmed", [normalised(text)])]

    def terms(self, text: str) -> list[str]:
        """The distinct terms of *text* in order, stop words left out unless there is nothing else."""
        return list(self.written(text))

    def written(self, text: str) -> dict[str, str]:
        """The terms of *text*, as `terms` gives them, and the word that each is written as, in lower case."""
        whole = _CONTRACTED.sub(" ", _NEGATED.sub(" not ", normalised(text)))
        words = list(dict.fromkeys(word for _, word in self._filed("plain", [whole])))
        content = [word for word in words if word not in STOP_WORDS] or words
        found: dict[str, str] = {}
        for number, term in self._filed("stemmed", content):
            found.setdefault(term, content[number])
        return found

    def _filed(self, table: Literal["plain", "stemmed"], texts: Sequence[str]) -> list[tuple[int, str]]:
        """(number of the text, token) of every token, in order."""
        self._db.execute(f"DELETE FROM {table}")
        self._db.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", enumerate(texts))
        return self._db.execute(f"SELECT doc, term FROM {table}_terms WHERE term != '' ORDER BY doc, offset").fetchall()
