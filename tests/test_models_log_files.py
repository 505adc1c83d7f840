"""Whole files as editors leave them: CRLF, a BOM, fences, open fences, bytes that are not UTF-8."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from models.log import parse

DATA = Path(__file__).parent / "data" / "models"
FILES = sorted(DATA.glob("*.md"))


def read(name: str) -> bytes:
    """The bytes of one file."""
    return (DATA / name).read_bytes()


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
@pytest.mark.parametrize("archive", [False, True])
def test_a_file_renders_back_to_its_digest(path: Path, *, archive: bool) -> None:
    """Not one byte differs, in either tier."""
    data = path.read_bytes()
    assert hashlib.sha256(parse(data, archive=archive).render()).digest() == hashlib.sha256(data).digest()


def test_the_bytes_are_what_the_tests_need() -> None:
    """A checkout that rewrote line ends or encodings would prove nothing."""
    assert [p.name for p in FILES] == ["crlf-changelog.md", "fenced-headings.md", "mixed-ends-bad-bytes.md"]
    crlf = read("crlf-changelog.md")
    assert crlf.count(b"\r\n") == crlf.count(b"\n") > 0
    assert read("fenced-headings.md").startswith(b"\xef\xbb\xbf")
    assert b"\xe9" in read("mixed-ends-bad-bytes.md")


def test_a_changelog_with_crlf_holds_one_entry() -> None:
    """Release links and unbracketed headings are prose, and no value has a carriage return."""
    log = parse(read("crlf-changelog.md"))
    (entry,) = log.entries
    assert (entry.title, entry.line, entry.heading.time) == ("Release notes (and their colons): a pattern", 16, "07:05")
    assert entry.fields == {
        "Pass": "1", "Sources": "changelogs x tide tables", "Signal": "faint",
        "Connection": "Both list what changed,\n  and the day it did.",
    }  # fmt: skip
    assert [w.line for w in log.warnings] == [7, 10, 12]


def test_headings_in_fences_and_comments_are_part_of_what_holds_them() -> None:
    """Two entries remain, and each example that an entry holds is warned about by its line."""
    log = parse(read("fenced-headings.md"))
    assert [(e.title, e.line, e.line_end) for e in log.entries] == [("Headings in fences", 10, 25), ("After the fences", 27, 28)]
    assert [e.verdict and (e.verdict.word, e.verdict.reason) for e in log.entries] == [("absorb", "worth keeping"), ("park", "later")]
    assert list(log.entries[0].fields) == ["Source", "Core pattern", "Verdict"]
    assert [w.line for w in log.warnings] == [16, 18, 23]


def test_odd_bytes_cost_no_entry() -> None:
    """Latin-1, lone carriage returns, U+2028, an open fence and a missing last newline leave three entries."""
    log = parse(read("mixed-ends-bad-bytes.md"))
    assert [(e.kind, e.title, e.heading.suffix) for e in log.entries] == [
        ("daydream", "Caf\ufffd in Latin-1", ""), ("swarm-docs", "窑炉", "second pass"), ("research", "Last, without a final newline", ""),
    ]  # fmt: skip
    assert log.entries[0].fields == {"Whisper": "one", "Chain": "a -> b"}
    assert log.entries[2].fields == {"Note": "end"}
    assert log.entries[2].heading.has("expired")
    assert [(w.line, w.message) for w in log.warnings] == [
        (3, "the entry has bytes that are not UTF-8; they are kept as they are"),
        (11, "this code fence is never closed; entries after it are read as usual"),
    ]
