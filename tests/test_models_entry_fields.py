"""Fields, verdicts and signals, in every spelling people and editors leave behind."""

from __future__ import annotations

import pytest

from models.entry import Entry, Verdict
from models.log import parse
from tests.samples import KILN, ledger


def entry(body: str, tag: str = "delve") -> Entry:
    """One entry with this body."""
    (found,) = parse(f"### [{tag}] Title (2026-01-02)\n{body}".encode()).entries
    return found


def test_fields_are_read_in_their_order() -> None:
    """Names are as written and values without the spaces around them."""
    (kiln,) = parse(KILN).entries
    assert list(kiln.fields) == ["Pass", "Sources", "Chain", "Signal", "Connection"]
    assert kiln.fields["Chain"] == "slow cooling -> fewer cracks -> staged eviction"
    assert kiln.signal == "resonant"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", {}),
        ("just words\n", {}),
        ("**Pass:** 1\n", {"Pass": "1"}),
        ("**Pass:**1", {"Pass": "1"}),
        ("**Pass**: 1", {"Pass": "1"}),
        ("**Pass** : 1", {"Pass": "1"}),
        ("**Pass :** 1", {"Pass": "1"}),
        ("- **Pass:** 1\n* **Mood:** wry\n", {"Pass": "1", "Mood": "wry"}),
        ("**Core pattern:** a\n**Connects to:** b\n", {"Core pattern": "a", "Connects to": "b"}),
        ("**Signal:** faint\n**Pass:** 2\n**Mood:** wry\n", {"Signal": "faint", "Pass": "2", "Mood": "wry"}),
        ("**Connection:** a_snake_case, *stars*,  two  \n\ttabbed\n", {"Connection": "a_snake_case, *stars*,  two  \n\ttabbed"}),
        ("**Connection:** one\ntwo\n\nthree\n**Pass:** 1\n", {"Connection": "one\ntwo\n\nthree", "Pass": "1"}),
        ("**Connection:**\nbelow\n", {"Connection": "below"}),
        ("**Pass:** 1\n**PASS:** 2\n**pass:**\n", {"Pass": "1\n2\n"}),  # repeated: none is lost, the first spelling stays
        ("**Pass:**\n", {"Pass": ""}),
        ("**Pass:** 1\r\n**Chain:** a\r\n b\r\n", {"Pass": "1", "Chain": "a\n b"}),
        ("**Pass:** 1\r2\u20283\n", {"Pass": "1\r2\u20283"}),  # a lone carriage return and U+2028 are text
        ("a **Pass:** 1\n", {}),  # not at the start of a line
        ("**Bold** words\n**: odd**\n****: 1\n", {}),
        ("**Code:** a\n```\n**Pass:** 1\n```\n**Mood:** wry\n", {"Code": "a\n```\n**Pass:** 1\n```", "Mood": "wry"}),
        ("<!-- **x**\n**Pass:** 1\n-->\n**Mood:** wry\n", {"Mood": "wry"}),
        ("```\n**Pass:** 1\n", {"Pass": "1"}),  # a fence left open hides nothing
        ("**Café brûlé:** 窑炉\n", {"Café brûlé": "窑炉"}),
        ("**" + "x" * 61 + ":** 1\n", {}),  # longer than any label
    ],
)
def test_fields_are_found_whatever_their_spelling(body: str, fields: dict[str, str]) -> None:
    """Unknown, repeated, multi-line and oddly spelt fields are read; those in fences are text."""
    assert entry(body).fields == fields


def test_values_are_asked_for_in_any_case() -> None:
    """Each value of a repeated field is there, in order."""
    assert entry("**Source:** a\n**SOURCE:** b\r\n**Sources:** c\n").values("source") == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("absorb -- fits", Verdict("absorb", "fits")),
        ("absorb — fits", Verdict("absorb", "fits")),
        ("Absorb \u2013 fits", Verdict("absorb", "fits")),
        ("absorb--fits", Verdict("absorb", "fits")),
        ("absorb --- fits", Verdict("absorb", "fits")),
        ("RELEASE -- because -- twice", Verdict("release", "because -- twice")),
        ("park", Verdict("park", "")),
        ("park --", Verdict("park", "")),
        ("park -- line one\nline two", Verdict("park", "line one\nline two")),
        ("\tpark -- tab", Verdict("park", "tab")),
        ("\npark -- on the next line", Verdict("park", "on the next line")),
    ],
)
def test_a_verdict_is_read_with_its_reason(text: str, verdict: Verdict) -> None:
    """Two hyphens and the dashes that editors make of them mean the same, in any case of letters."""
    read = parse(ledger(text)).entries[0]
    assert read.verdict == verdict
    assert read.warnings == ()
    assert read.text == ledger(text).rstrip(b"\n")


@pytest.mark.parametrize(
    "text",
    [
        "release\u200b -- stale",
        "release\u00a0-- stale",
        "\u00a0release -- stale",  # only stripping would make it a verdict
        "release - one hyphen",
        "release: colon",
        "released -- tense",
        "release or park",
        "release \u2011\u2011 odd hyphens",
        "release\n\nmore words",
        "**release** -- bold",
        "",
    ],
)
def test_a_verdict_in_another_form_is_warned_about(text: str) -> None:
    """Nothing is guessed: there is no verdict, and the warning has the field's line and its words."""
    read = parse(b"\n" + ledger(text)).entries[0]
    assert read.verdict is None
    assert [(w.line, w.message) for w in read.warnings] == [(8, f"the verdict {text.strip(' ')!r} is not absorb, park or release")]


@pytest.mark.parametrize(
    "line",
    [
        "**Verdict: release -- whole line bold**",
        "Verdict: release -- no bold",
        "*Verdict:* release -- italics",
        "__Verdict:__ release -- underscores",
        "  **Verdict:** release -- indented",
        "> **Verdict:** release -- quoted",
        "**Type:** article **Verdict:** release -- same line",
        "**\u00a0Verdict:** release -- odd space",
    ],
)
def test_no_verdict_goes_unread_in_silence(line: str) -> None:
    """A delve with a line that is meant for a verdict has one, or a warning with the line's number."""
    read = entry(line + "\n")
    assert read.verdict is not None or [w.line for w in read.warnings] == [2]


def test_the_last_verdict_counts() -> None:
    """A log only grows: what was written later stands, and differing ones are warned about at the last one's line."""
    read = entry("**Verdict:** park -- wait\n**Verdict:** absorb -- fits\n")
    assert read.verdict == Verdict("absorb", "fits")
    assert [(w.line, w.message) for w in read.warnings] == [(3, "the entry has several verdicts; the last one counts")]
    assert entry("**Verdict:** park -- a\n**Verdict:** Park -- b\n").warnings == ()


def test_an_unreadable_last_verdict_is_not_replaced_by_an_older_one() -> None:
    """When the last verdict cannot be understood there is none."""
    read = entry("**Verdict:** release -- no\n**Verdict:** perhaps\n")
    assert read.verdict is None
    assert [(w.line, w.message) for w in read.warnings] == [(3, "the verdict 'perhaps' is not absorb, park or release")]


def test_only_a_delve_has_a_verdict() -> None:
    """The same field in a dream is a field like any other, and a verdict in a fence is text."""
    assert entry("**Verdict:** release -- no\n", tag="dream").verdict is None
    assert entry("**Verdict:** release -- no\n", tag="DELVE").verdict == Verdict("release", "no")
    assert entry("```\n**Verdict:** release -- no\n```\n").verdict is None


@pytest.mark.parametrize(
    ("body", "signal"),
    [
        ("", None),
        ("**Signal:**\n", None),
        ("**Signal:** resonant\n", "resonant"),
        ("**Signal:** Faint (second pass)\n", "faint"),
        ("**Signal:** NOISE\r\n", "noise"),
        ("**Signal:** resonant|faint|noise\n", "resonant"),
        ("**Signal:** Strong and clear\n", "strong and clear"),
        ("**Signal:** faint\n**Signal:** resonant\n", "resonant"),
        ("**Signal:** noisette\n", "noisette"),  # a longer word is another word
        ("**Signal:** 3\n", "3"),
    ],
)
def test_a_signal_is_known_or_the_fields_own_words(body: str, signal: str | None) -> None:
    """The last signal counts, in lower case; a missing one is none."""
    assert entry(body, tag="dream").signal == signal


def test_a_verdict_of_odd_spaces_is_no_verdict_and_breaks_nothing() -> None:
    """A value of no-break spaces has no word to compare with the last verdict's."""
    (entry,) = parse("### [delve] A (2026-01-01)\n**Verdict:** \u00a0\n**Verdict:** release -- x\n".encode()).entries
    assert entry.verdict == Verdict("release", "x")
    assert entry.warnings == ()
