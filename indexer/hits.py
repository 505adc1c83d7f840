"""From ranked rows to the hits of an answer: verbatim text, the passage that matched, and on request why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from indexer.catalog import Catalog, StoredEntry, StoredPassage
from indexer.lexical import LexicalScores
from indexer.words import Stemmer
from models.query import TextForm
from models.results import Explanation, Hit, MatchedPart, PassageView

PREVIEW_CHARACTERS = 280


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry's place in an answer: its score, and what either arm said; `ordinal` is of its nearest passage."""

    row: int
    score: float
    cosine: float | None = None
    ordinal: int | None = None
    share: float = 0.0


def hits(catalog: Catalog, ranked: Sequence[Ranked], form: TextForm, terms: Sequence[str], stemmer: Stemmer) -> list[tuple[Ranked, Hit]]:
    """The hits for *ranked*, in its order, without entries that have gone meanwhile.

    Where no passage is known, the one with the most of *terms* is shown.
    """
    rows = [r.row for r in ranked]
    entries = catalog.entries(rows)
    passages: dict[int, list[StoredPassage]] = {}
    for p in catalog.passages_of(rows):
        passages.setdefault(p.row, []).append(p)
    found = []
    for r in (r for r in ranked if r.row in entries):
        entry, own = entries[r.row], passages.get(r.row, [])
        best = r.ordinal if r.ordinal is not None else _most_terms(entry, own, terms, stemmer)
        found.append((r, _hit(entry, r.score, next((p for p in own if p.ordinal == best), None), form)))
    return found


def explained(hit: Hit, ranked: Ranked, words: LexicalScores, legible: float) -> Hit:
    """The hit with its score's parts: nearness in meaning, and every term, phrase and date of the question."""
    parts = sorted(words.explain(ranked.row), key=lambda part: -part[1])
    explanation = Explanation(
        meaning=None if ranked.cosine is None else round(ranked.cosine, 4), legible=round(legible, 4), words=round(ranked.share, 4),
        matched=[MatchedPart(name=name, share=round(got, 4), most=round(most, 4)) for name, got, most in parts if got],
        missing=[name for name, got, _ in parts if not got],
    )  # fmt: skip
    return hit.model_copy(update={"explanation": explanation})


def _most_terms(entry: StoredEntry, passages: Sequence[StoredPassage], terms: Sequence[str], stemmer: Stemmer) -> int | None:
    """The passage with the most of the query's terms; None when no passage has any."""
    if not terms or not passages:
        return None
    wanted = set(terms)
    counts = [(len(wanted.intersection(stemmer.sequence(_slice(entry, p)))), -p.ordinal) for p in passages]
    most, ordinal = max(counts)
    return -ordinal if most else None


def _hit(entry: StoredEntry, score: float, passage: StoredPassage | None, form: TextForm) -> Hit:
    v = entry.view
    whole = entry.text.decode("utf-8", "replace")
    text = {"full": whole, "preview": preview(whole), "none": None}[form]
    part = PassageView(text=_slice(entry, passage), start=passage.start, end=passage.end) if passage else None
    return Hit(
        id=v.id, score=round(min(1.0, score), 4), tier=v.tier, pool=v.pool, file=v.file, line_start=v.line_start, line_end=v.line_end,
        batch_date=v.batch_date, kind=v.kind, tags=v.tags, title=v.title, date=v.date, verdict=v.verdict, signal=v.signal,
        text=text, passage=part,
    )  # fmt: skip


def _slice(entry: StoredEntry, passage: StoredPassage) -> str:
    return entry.text[passage.start : passage.end].decode("utf-8", "replace")


def preview(text: str) -> str:
    """The text's beginning, cut at a word, with an ellipsis where something follows."""
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    return text[:PREVIEW_CHARACTERS].rsplit(None, 1)[0] + " …"
