"""Passages: no word out of reach, no passage over the model's window, slices that are the entry's own bytes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.embedder import Embedder
from indexer.passages import Passage, cut
from models.entry import Entry
from models.log import parse
from tests import strategies
from tests.fakes import FakeEmbedder
from tests.samples import KILN, ledger

FAKE = FakeEmbedder(max_tokens=12)


def only(data: bytes) -> Entry:
    """The one entry of these bytes."""
    (entry,) = parse(data).entries
    return entry


def embedded(data: bytes, embedder: Embedder = FAKE) -> str:
    """All that is embedded of an entry, passages joined."""
    return " ".join(p.text for p in cut(only(data), embedder))


def check_bounds(entry: Entry, passages: list[Passage], embedder: Embedder) -> None:
    """Asserts what holds for the passages of any entry."""
    assert passages
    assert [p.ordinal for p in passages] == list(range(len(passages)))
    assert all(0 <= p.start <= p.end <= len(entry.text) for p in passages)
    for tokens in embedder.token_offsets([p.text for p in passages]):
        assert len(tokens) <= embedder.max_tokens


@st.composite
def entries(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]]]:
    """An entry's bytes, and the byte ranges of its content's words."""
    word = st.one_of(st.text("abcdefgé", min_size=1, max_size=8), st.sampled_from(["火", "🦊"]))
    gaps = st.sampled_from([" ", "  ", ". ", "? ", " -> ", "\n", "\r\n", "\n\n", ", ", "\t"])
    value = st.lists(st.tuples(word, gaps), min_size=1, max_size=25)
    labels = st.lists(st.sampled_from(["Sources", "Chain", "Connection", "Pass", "Whisper", "Mood"]), unique=True, max_size=5)
    title = [(draw(word), True), (" ", False), (draw(word), True)]
    parts: list[tuple[str, bool]] = [("### [dream] ", False), *title, (" (2026-05-04)\n", False)]
    for label in [None, *draw(labels)]:
        if label:
            parts.append((f"**{label}:** ", False))
        for text, gap in draw(value):
            parts += [(text, label != "Pass"), (gap, False)]
        parts.append(("end\n", label != "Pass"))
    data, spans = b"", []
    for text, is_content in parts:
        if is_content:
            spans.append((len(data), len(data) + len(text.strip().encode())))
        data += text.encode()
    return data, spans


@settings(max_examples=60, deadline=None)
@given(entries(), st.integers(3, 40))
def test_every_word_of_the_content_lies_in_some_passage(drawn: tuple[bytes, list[tuple[int, int]]], most: int) -> None:
    """Whatever the fields and the window, each content word is inside a passage's slice and inside its embedded text."""
    data, spans = drawn
    entry, embedder = only(data), FakeEmbedder(most)
    passages = cut(entry, embedder)
    check_bounds(entry, passages, embedder)
    for start, end in spans:
        word = entry.text[start:end].decode()
        assert any(p.start <= start and end <= p.end and word in p.text for p in passages), word


@settings(deadline=None)
@given(strategies.any_bytes)
def test_any_bytes_give_passages_within_bounds(data: bytes) -> None:
    """Whatever the file, every entry of it has passages that slice it and fit the window."""
    for entry in parse(data).entries:
        passages = cut(entry, FAKE)
        check_bounds(entry, passages, FAKE)
        for passage in passages:
            passage.text.encode()


def test_slices_are_in_order_and_begin_at_the_label() -> None:
    """A passage's slice holds the heading or label in front of its words, verbatim, and slices never overlap."""
    entry = only(KILN)
    passages = cut(entry, FAKE)
    assert len(passages) > 1
    assert all(a.end <= b.start for a, b in pairwise(passages))
    assert entry.text[passages[0].start : passages[0].end].startswith(b"### [dream] [ext-signal] Kiln cooling")
    last = next(p for p in passages if "Cooling a kiln" in p.text)
    assert b"**Connection:** Cooling a kiln" in entry.text[last.start : last.end]


@pytest.mark.parametrize("data", [KILN, KILN.replace(b"\n", b"\r\n"), ledger("release -- stale")], ids=["dream", "crlf", "delve"])
def test_labels_and_marks_are_not_embedded(data: bytes) -> None:
    """The heading's tags and date, field labels, and the fields Pass, Signal, Type are left out of the embedded text."""
    text = embedded(data)
    for mark in ("**", "Pass", "Signal", "Sources", "Chain:", "Connection:", "[dream]", "2026-05", "resonant", "article", "release", "\r"):
        assert mark not in text


def test_a_verdicts_reason_is_embedded_without_the_word() -> None:
    """Of a verdict only the reason is content."""
    text = embedded(ledger("Park — waits for a second clock"))
    assert "waits for a second clock" in text
    assert "Park" not in text


@pytest.mark.parametrize("verdict", ["parking brakes fail", "released on trust", "absorbent clay is better"])
def test_a_verdict_that_only_begins_like_a_word_stays_whole(verdict: str) -> None:
    """Text in the verdict field that merely begins with a verdict's letters is embedded uncut."""
    assert verdict in embedded(ledger(verdict))


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Kiln  cooling", ["Kiln", "cooling"]),
        ("Kiln\tcooling", ["Kiln", "cooling"]),
        ("Kiln\u00a0cooling", ["Kiln", "cooling"]),
        ("Kiln\u2028cooling", ["Kiln", "cooling"]),
        ("Kiln [consumed: 2026-04-09] cooling", ["Kiln", "cooling"]),  # the annotation is taken out of the title
        ("dream", ["dream"]),  # a title that is also a tag
    ],
)
def test_the_title_is_embedded_however_it_is_spaced(heading: str, words: list[str]) -> None:
    """Odd spaces or an annotation inside the heading leave no title word out of reach."""
    data = f"### [dream] {heading} (2026-05-04)\n**Connection:** slow\n".encode()
    entry = only(data)
    passages = cut(entry, FAKE)
    for word in words:
        at = data.rindex(word.encode())
        assert any(word in p.text.split() and p.start <= at and at + len(word) <= p.end for p in passages), word


def test_words_behind_the_headings_date_are_embedded() -> None:
    """Text that follows the date in the heading is content."""
    assert "after the great storm" in embedded(b"### [dream] Kiln (2026-05-04) after the great storm\n**Connection:** slow\n")


@pytest.mark.parametrize("field", ["Signal", "Pass", "Type", "Date"])
def test_a_paragraph_behind_a_mark_is_embedded(field: str) -> None:
    """Only the mark itself is left out: a paragraph below it, which belongs to no other field, is content."""
    data = f"### [dream] Kiln (2026-05-04)\n**Connection:** slow\n**{field}:** faint\n\nA glazier told me so.\n".encode()
    assert "A glazier told me so." in embedded(data)


@pytest.mark.parametrize(
    "data",
    [
        b"### [dream]", b"### [dream]\n", b"### [dream] (2026-05-04)\n", b"### [dream] (2026-05-04)\n**Pass:** 1\n**Signal:** faint\n",
        b"### [dream] A (2026-05-04)\n\x00\n", b"### [DEAD: no]\n",
    ],
)  # fmt: skip
def test_an_entry_without_content_has_one_passage(data: bytes) -> None:
    """Even an empty entry has a passage, so that it can be recalled."""
    (passage,) = cut(only(data), FakeEmbedder())
    assert (passage.ordinal, passage.start) == (0, 0)


def test_an_entry_without_fields_is_embedded() -> None:
    """An entry of bare lines, with no field at all, is cut like any other."""
    assert "only one line of text" in embedded(b"### [muse] Unknown kind (2026-05-09)\nonly one line of text\n")


def test_undecodable_bytes_are_shown_and_sliced() -> None:
    """Bytes that are no UTF-8 are embedded as U+FFFD; offsets still count the entry's bytes."""
    data = b"### [dream] A\xff (2026-05-04)\n**Connection:** before \xfe\xed\xa0\x80 after. " + b"word " * 30 + b"\xf0\x9f\xa6 tail"
    entry = only(data)
    passages = cut(entry, FAKE)
    text = " ".join(p.text for p in passages)
    assert "A\ufffd" in text
    assert "before \ufffd\ufffd\ufffd\ufffd after." in text
    assert entry.text[passages[-1].start : passages[-1].end].endswith(b"\xf0\x9f\xa6 tail")
    text.encode()


def test_a_sentence_of_five_thousand_words_is_cut_evenly(model: Embedder) -> None:
    """One sentence far over the window gives passages of much the same size, each within the real model's window."""
    words = [f"word{n}" for n in range(5_000)]
    entry = only(b"### [dream] A (2026-05-04)\n**Connection:** " + " ".join(words).encode() + b"\n")
    passages = cut(entry, model)
    sizes = [len(tokens) for tokens in model.token_offsets([p.text for p in passages])]
    assert max(sizes) <= model.max_tokens == 254
    assert min(sizes) > max(sizes) / 2
    joined = re.sub(r"\s", "", "".join(p.text for p in passages))
    assert joined == "A" + "".join(words)


@pytest.mark.parametrize(
    "value",
    [
        "supercalifragilistic" * 4 + " ", "火" * 900, "a.b/c_d-" * 400, "x" * 5_000, "🦊" * 600, "ไฟไหม้เตาเผา" * 120, "e\u0301" * 900,
        "\u200b" * 700 + "end", "antidisestablishmentarianism" * 3 + "\u2028" * 500, "\t".join(["unbelievableness"] * 300), "ſﬁ²½" * 300,
    ],
)  # fmt: skip
def test_no_passage_passes_the_real_models_window(value: str, model: Embedder) -> None:
    """Text of any script, with or without spaces, gives passages that the real tokenizer reads whole."""
    entry = only(f"### [dream] A (2026-05-04)\n**Connection:** {value * 3}\n".encode())
    check_bounds(entry, cut(entry, model), model)
