"""Which headings count: fences, comments and frontmatter after CommonMark, and spaces that are none."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from models.log import parse
from models.markdown import Block, blocks, fenced_ranges
from tests.samples import KILN, TIDE, log

A = b"### [dream] A (2026-01-02)\n"
B = b"### [delve] B (2026-01-03)\n"
INVISIBLE = [c for c in map(chr, range(0x80, sys.maxunicode + 1)) if unicodedata.category(c) in {"Zs", "Cf"}]


def titles(data: bytes, *, archive: bool = False) -> list[str]:
    """The titles of the entries in *data*."""
    return [e.title for e in parse(data, archive=archive).entries]


@pytest.mark.parametrize(
    ("block", "hides"),
    [
        (b"```\n%s```\n", True),
        (b"~~~\n%s~~~\n", True),
        (b"```python title=x\n%s```\n", True),
        (b"~~~ `tilde fences may have backticks`\n%s~~~\n", True),
        (b"````\n```\n%s```\n````\n", True),
        (b"```\n%s`````\n", True),  # a closing fence may be longer
        (b"   ```\n%s  ```  \n", True),  # up to three spaces before, any behind
        (b"```\r\n%s```\r\n", True),
        (b"~~~\n```\n%s~~~\n", True),
        (b"```\n~~~\n%s```\n", True),
        (b"```\n%s", False),  # never closed: swallows nothing
        (b"~~~\n%s```\n", False),  # the other mark closes nothing
        (b"````\n%s```\n", False),  # neither does a shorter fence
        (b"```\n%s``` text\n", False),  # nor one with text behind
        (b"```\n%s    ```\n", False),  # nor one indented by four
        (b"    ```\n%s    ```\n", False),  # that deep it opens none either
        (b"```a`b\n%s```\n", False),  # an info string of backticks has no backtick
        (b"``\n%s``\n", False),
        (b"text ```\n%stext ```\n", False),
        (b"<!-- how to write one:\n%s-->\n", True),
        (b"<!--\n%s text --> text\n", True),
        (b"  <!--\n%s-->\n", True),
        (b"<!-- one line -->\n%s-->\n", False),
        (b"<!-- never closed\n%s", False),
        (b"text <!-- not at the start of a line\n%s-->\n", False),
        (b"```\n<!--\n```\n%s-->\n", False),  # a comment cannot begin inside a fence
        (b"<!--\n```\n-->\n%s```\n", False),  # nor a fence inside a comment
    ],
)
def test_headings_inside_a_closed_fence_or_comment_are_no_entries(block: bytes, *, hides: bool) -> None:
    """A heading is hidden by what CommonMark says hides it, and the entry before keeps the whole block."""
    data = A + block % B + b"\n### [dream] C (2026-01-04)\n"
    assert titles(data) == (["A", "C"] if hides else ["A", "B", "C"])
    assert parse(data).render() == data


def test_a_comment_that_is_empty_ends_on_its_own_line() -> None:
    """`<!-->` is closed where it begins (CommonMark: the first line with `-->`), so it hides nothing."""
    assert titles(b"<!-->\n" + A + b"-->\n" + B) == ["A", "B"]


def test_a_longer_fence_may_hold_a_shorter_one() -> None:
    """The format example in a four-backtick fence stays within its entry."""
    block = b"````\n```\n### [delve] Not an entry (2026-01-01)\n```\n````\n"
    data = log(KILN + block, TIDE)
    first, second = parse(data).entries
    assert first.text == (KILN + block).rstrip(b"\n")
    assert second.text == TIDE.rstrip(b"\n")
    assert parse(data).render() == data


def test_a_heading_hidden_in_an_entry_is_warned_about_with_both_lines() -> None:
    """What a fence swallows is named by its own line and the fence's."""
    found = parse(A + b"```\n" + B + b"```\n").warnings
    assert [(w.line, w.message) for w in found] == [(3, "this heading lies in the code fence of line 2, so it is no entry of its own")]


@pytest.mark.parametrize(("mark", "what"), [(b"```", "code fence"), (b"~~~~", "code fence"), (b"<!--", "comment")])
def test_an_open_block_is_warned_about_and_swallows_no_later_entry(mark: bytes, what: str) -> None:
    """Entries behind a fence or comment that is never closed are read as usual."""
    read = parse(A + mark + b"\ncode\n\n" + B)
    assert [e.title for e in read.entries] == ["A", "B"]
    assert [(w.line, w.message) for w in read.warnings if "closed" in w.message] == [
        (2, f"this {what} is never closed; entries after it are read as usual")
    ]


BATCH = b"## Archived 2026-02-01 \xe2\x80\x94 1 entries (date range: 2026-01-03 to 2026-01-03)\n\n"


@pytest.mark.parametrize("mark", [b"```", b"<!--"])
def test_in_an_archive_an_open_block_ends_at_the_next_batch(mark: bytes) -> None:
    """A later batch with a closing mark of its own cannot be drawn into an older entry."""
    closing = b"-->" if mark == b"<!--" else mark
    data = BATCH + A + mark + b"\n\n" + BATCH + B + closing + b"\n"
    assert titles(data, archive=True) == ["A", "B"]
    assert titles(data) == ["A"]  # elsewhere CommonMark alone decides


def test_an_entry_that_quotes_a_batch_heading_in_a_closed_fence_reads_the_same_in_an_archive() -> None:
    """Moving such an entry neither cuts it nor changes its id."""
    entry = A + b"```\n" + BATCH + b"```\nthe end\n"
    there, here = parse(entry, archive=True).entries, parse(entry).entries
    assert [e.text for e in there] == [e.text for e in here] == [entry.rstrip(b"\n")]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("opening", [b"```\ncode\n```\n", b"<!-- open\n", b"~~~\ncode\n~~~\n"], ids=["fences", "open comments", "tildes"])
def test_one_huge_batch_is_read_in_linear_time(opening: bytes) -> None:
    """Ten megabytes in a single batch take a second or two, where a search per block would take minutes."""
    data = BATCH + (A + opening + b"some words of the text here\n" * 40) * 8_000
    assert len(parse(data, archive=True).entries) == 8_000


@pytest.mark.timeout(20)
def test_many_open_fences_are_read_in_linear_time() -> None:
    """Each fence without an end is not searched for one again."""
    data = b"".join(b"%s\n%s" % (b"`" * (3 + n % 40), A) for n in range(20_000, 0, -1)).replace(b"`\n", b"` x\n")
    assert len(parse(data).entries) == 20_000


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"---\nname: x\n---\n" + A, ["A"]),
        (b"\xef\xbb\xbf---\r\nname: x\r\n---\r\n" + A, ["A"]),
        (b"---\n---\n" + A, ["A"]),
        (b"---\n# a comment of YAML\n```\n---\n" + A + b"```\n", ["A"]),  # nothing in the frontmatter opens a fence
        (b"---\nnever closed\n" + A, ["A"]),
        (b"---\n" + A + b"---\n" + B, ["A", "B"]),  # two rules with an entry between are no frontmatter
        (b"---\n\n ###  [dream] A (2026-01-02)\nx\n\n---\n" + B, ["A", "B"]),
        (b"---\n\n###\t[dream] A (2026-01-02)\nx\n\n---\n" + B, ["A", "B"]),
        (b"---\n\n###\xc2\xa0[dream] A (2026-01-02)\nx\n\n---\n" + B, ["A", "B"]),
        (b"\n---\n" + A + b"---\n" + B, ["A", "B"]),  # frontmatter stands on the first line or nowhere
    ],
)
def test_frontmatter_hides_its_own_lines_and_no_entry(data: bytes, found: list[str]) -> None:
    """Text between two rules at the head of the file is frontmatter unless an entry lies in it."""
    assert titles(data) == found
    assert parse(data).render() == data


@pytest.mark.parametrize("at_start", [True, False])
def test_a_byte_order_mark_before_a_heading_hides_nothing(*, at_start: bool) -> None:
    """A BOM at the head of the file, or where two files were joined, leaves the heading a heading."""
    data = b"\xef\xbb\xbf" + A if at_start else A + b"text\n\n\xef\xbb\xbf" + A
    assert titles(data) == ["A"] * (1 if at_start else 2)
    assert parse(data).render() == data


def test_no_invisible_character_turns_a_heading_into_text_unseen() -> None:
    """Whatever is typed for the space after ###, the line is an entry or is warned about."""
    silent = [f"U+{ord(c):04X}" for c in INVISIBLE if not _noticed(f"###{c}[delve] B (2026-01-03)")]
    assert silent == []


def test_no_invisible_character_before_the_hashes_turns_a_heading_into_text_unseen() -> None:
    """Whatever stands before ###, the line is an entry or is warned about."""
    silent = [f"U+{ord(c):04X}" for c in ["\t", *INVISIBLE] if not _noticed(f"{c}### [delve] B (2026-01-03)")]
    assert silent == []


def _noticed(heading: str) -> bool:
    read = parse(A + b"text\n\n" + heading.encode() + b"\nbody\n")
    return len(read.entries) == 2 or any(w.line == 4 for w in read.warnings)


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u202f", "\u3000", "\u200b", "\ufeff"])
def test_an_odd_space_after_the_hashes_is_read_and_warned_about(space: str) -> None:
    """The entry is recognised, and the warning has its line."""
    read = parse(A + f"\n###{space}[delve] B (2026-01-03)\n".encode())
    assert [e.title for e in read.entries] == ["A", "B"]
    assert [(w.line, w.message) for w in read.warnings] == [
        (3, "the space after ### is not a plain one; the line is read as a heading all the same")
    ]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"### [delve] B", True),
        (b"###\t[delve] B", True),
        (b"   ###   [delve] B", True),
        (b"### [delve] B ###", True),
        (b"    ### [delve] B", False),  # indented code
        (b"#### [delve] B", False),
        (b"## [delve] B", False),
        (b"\\### [delve] B", False),
        (b"> ### [delve] B", False),
        (b"text ### [delve] B", False),
        (b"###[delve] B", False),
    ],
)
def test_only_a_heading_of_level_three_begins_an_entry(line: bytes, *, found: bool) -> None:
    """Level, indent and the space decide, as in CommonMark."""
    assert titles(A + b"\n" + line + b"\n") == ["A", "B"][: 1 + found]


def test_a_missing_space_after_the_hashes_is_warned_about() -> None:
    """`###[tag]` is no heading, and the warning has its line."""
    found = parse(A + b"###[delve] B (2026-01-03)\n").warnings
    assert [(w.line, w.message) for w in found] == [
        (2, "this line looks like an entry's heading but is none: it takes `###` at the line's start and a plain space")
    ]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r", "\x00"])
def test_only_a_line_feed_ends_a_line(separator: str) -> None:
    """Other separators are text, so a heading behind one is no heading."""
    assert titles(A + f"text{separator}### [delve] B (2026-01-03)\n".encode()) == ["A"]


def test_blocks_tell_offsets_levels_and_hidden_ranges() -> None:
    """Each block has its first and last byte; hidden ranges have level 0."""
    assert list(blocks(b"# T\n\n```\n## no\n```\n###[x]\n~~~\n")) == [
        Block(0, 4, 1), Block(5, 19, 0), Block(19, 26, 3, closed=False), Block(26, 30, 0, closed=False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("plain", []),
        ("é\n```\nx\n```\ny", ["```\nx\n```\n"]),
        ("<!-- é -->\ny\n~~~\nz\n~~~", ["<!-- é -->\n", "~~~\nz\n~~~"]),
        ("```\nopen", []),
        ("\udcff\n```\n\udcfe\n```\n", ["```\n\udcfe\n```\n"]),  # undecodable bytes count as one character
    ],
)
def test_fenced_ranges_are_in_characters(text: str, hidden: list[str]) -> None:
    """The ranges cut out exactly the closed blocks of the decoded text."""
    assert [text[a:b] for a, b in fenced_ranges(text)] == hidden
