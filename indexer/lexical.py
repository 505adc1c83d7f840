"""The lexical arm: BM25 over whole entries, with FTS5 as the inverted index.

Okapi BM25 (Robertson and Zaragoza 2009), k1 = 1.2, b = 0.6, and idf = ln(1 + (N - df + 0.5) / (df + 0.5)), where N and
df count the entries that pass the filters. FTS5's own bm25() has a fixed b and knows no filters. A word counts 1 in the
connection or core pattern, 2 in the title, and 0.5 elsewhere.

Beside its terms a question may ask for phrases, which are there or are not, and for dates: an entry counts by how near
its own date comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from indexer.dates import nearness
from indexer.postings import Postings, Scope
from indexer.question import Question

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from indexer.catalog import RowIds

K1 = 1.2
B = 0.6
PHRASE = 0.5
"""What a phrase weighs beside a term that is as rare."""


@dataclass(frozen=True, slots=True)
class Part:
    """One term, phrase or date of the question: the entries that have it and what it gives them; `most` is the most it could."""

    name: str
    rows: RowIds
    points: NDArray[np.float64]
    most: float


@dataclass(frozen=True, slots=True)
class LexicalScores:
    """BM25 by entry: rows ascending, only those that match; `ceiling` is what no entry can pass."""

    rows: RowIds
    scores: NDArray[np.float64]
    ceiling: float
    parts: tuple[Part, ...] = ()

    def best(self, limit: int) -> list[int]:
        """The rows with the highest scores, best first, *limit* of them at most."""
        if len(self.rows) > limit:
            least = np.partition(self.scores, -limit)[-limit]
            chosen = np.flatnonzero(self.scores >= least)
        else:
            chosen = np.arange(len(self.rows))
        order = np.lexsort((self.rows[chosen], -self.scores[chosen]))[:limit]
        return [int(row) for row in self.rows[chosen[order]]]

    def shares(self, rows: Sequence[int]) -> NDArray[np.float64]:
        """How much of the query's information was literally in these entries, from 0 to 1."""
        if not self.ceiling or not len(self.rows):
            return np.zeros(len(rows))
        wanted = np.asarray(rows, np.int64)
        at = np.minimum(np.searchsorted(self.rows, wanted), len(self.rows) - 1)
        return np.where(self.rows[at] == wanted, self.scores[at], 0.0) / self.ceiling

    def explain(self, row: int) -> list[tuple[str, float, float]]:
        """Each part's name, the share of the score that it gave *row*, and the share that it could give."""
        return [(p.name, float(p.points[p.rows == row].sum()) / self.ceiling, p.most / self.ceiling) for p in self.parts]


NOTHING = LexicalScores(np.zeros(0, np.int64), np.zeros(0), 0.0)


def bm25(postings: Postings, question: Question, scope: Scope) -> LexicalScores:
    """Scores the entries of *scope* that hold anything of *question*."""
    everyone = scope.everyone
    if not len(scope.rows) or not question:
        return NOTHING
    scores = np.zeros(len(everyone.rows))
    parts = tuple(_parts(postings, question, scope))
    for part in parts:
        scores[np.searchsorted(everyone.rows, part.rows)] += part.points
    hit = np.flatnonzero(scores)
    return LexicalScores(everyone.rows[hit], scores[hit], sum(p.most for p in parts), parts)


def _parts(postings: Postings, question: Question, scope: Scope) -> Iterator[Part]:
    everyone, inside = scope.everyone, scope.rows
    norms = K1 * (1 - B + B * everyone.lengths / (float(everyone.lengths.mean()) or 1.0))
    for term, word in zip_longest(question.terms, question.written):
        rows, often = _among(inside, *postings.term(term))
        most = _idf(len(inside), len(rows)) * (K1 + 1)
        yield Part(word or term, rows, most * often / (often + norms[np.searchsorted(everyone.rows, rows)]), most)
    for phrase in question.phrases:
        holding = postings.phrase(phrase.text)
        rows, there = _among(inside, holding, np.ones(len(holding)))
        most = PHRASE * _idf(len(inside), len(rows)) * (K1 + 1)
        yield Part(f'"{phrase.text}"', rows, most * there, most)
    for date in question.dates:
        near = nearness(date, everyone.days)
        rows, nears = _among(inside, everyone.rows[near > 0], near[near > 0])
        most = _idf(len(inside), float(nears.sum())) * (K1 + 1)
        yield Part(f"dated {date.bound or ''} {date.text}".replace("  ", " "), rows, most * nears, most)


def _among(inside: RowIds, rows: RowIds, values: NDArray[np.float64]) -> tuple[RowIds, NDArray[np.float64]]:
    """The *rows* that are *inside*, and their values; entries that came since the question was asked are not."""
    kept = np.isin(rows, inside, assume_unique=True)
    return (rows, values) if kept.all() else (rows[kept], values[kept])


def _idf(size: int, df: float) -> float:
    return math.log(1 + (size - df + 0.5) / (df + 0.5))
