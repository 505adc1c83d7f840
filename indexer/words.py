"""Words as the lexical arm sees them: normalised, stemmed by SQLite's FTS5, without stop words in queries."""

from __future__ import annotations

import re
import sqlite3
import unicodedata

TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co So Mn Mc'"

# Scripts written without spaces are searched character by character, emoji one by one.
_SINGLE = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2190-\u2bff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U0001f000-\U0001faff\U00020000-\U0003134f])"
)

_STOP_WORDS = (
    "a about after again all also am an and any are as at be because been before being between both but by can could did do does"
    " doing down during each few for from further had has have having he her here hers him his how i if in into is it its itself"
    " just let me more most my no nor not now of off on once one only or other our out over own same shall she should so some such"
    " than that the their them then there these they this those through to too under until up us very was we were what when where"
    " which while who whom whose why will with would you your"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())


def normalised(text: str) -> str:
    """*text* composed (NFKC), in one case, with single characters of unspaced scripts and emoji set apart."""
    return _SINGLE.sub(r" \1 ", unicodedata.normalize("NFKC", text).casefold())


def folded(text: str) -> str:
    """*text* composed (NFC) and in one case, as filter values are compared."""
    return unicodedata.normalize("NFC", text).casefold()


def count(text: str) -> int:
    """How many words *text* has, for BM25's length normalisation."""
    return len(re.findall(r"\w+", text))


class Stemmer:
    """Gives the terms under which FTS5 files a query's words; for one thread."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.execute(f'CREATE VIRTUAL TABLE query USING fts5(text, tokenize="{TOKENIZER}")')
        self._db.execute("CREATE VIRTUAL TABLE terms USING fts5vocab(query, 'instance')")

    def terms(self, text: str) -> list[str]:
        """The query's distinct terms in order, stop words left out unless there is nothing else."""
        plain = normalised(text)
        words = re.findall(r"[^\W_]+(?:['’][^\W_]+)*|\S", plain)  # noqa: RUF001 - the apostrophe people type
        content = [w for w in words if w.casefold() not in STOP_WORDS]
        return self._stems(" ".join(content)) or self._stems(plain)

    def _stems(self, text: str) -> list[str]:
        self._db.execute("DELETE FROM query")
        self._db.execute("INSERT INTO query VALUES (?)", (text,))
        rows = self._db.execute("SELECT term, min(offset) FROM terms GROUP BY term ORDER BY 2")
        return [term for term, _ in rows]
