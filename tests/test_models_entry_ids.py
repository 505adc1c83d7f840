"""Ids survive moves and re-tagging and tell entries apart; versions see every byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.entry import Entry
from models.log import parse
from tests.samples import HEADER, KILN, TIDE, ledger, log
from tests.strategies import any_bytes
from tests.test_models_entry import MARKS, PLACES

BATCH = b"# Dream Sparks Archive\n\n## Archived 2026-06-01 \xe2\x80\x94 1 entries (date range: 2026-05-04 to 2026-05-04)\n\n"


def one(data: bytes, *, archive: bool = False) -> Entry:
    """The only entry in *data*."""
    (entry,) = parse(data, archive=archive).entries
    return entry


@pytest.mark.parametrize(
    "data",
    [
        HEADER + KILN,
        KILN.rstrip(b"\n"),
        KILN + b"\n\n\n",
        KILN + b" \t\r\n\r\n",
        b"\xef\xbb\xbf" + KILN,
        b"   " + KILN,
        KILN.replace(b"### ", b"###  "),
        KILN.replace(b"10)\n", b"10)   \n"),
        KILN.replace(b"10)\n", b"10) ###\n"),
        KILN.replace(b"10)\n", b"10)\r\n"),
        KILN + b"\n## Night\n\nprose\n",
    ],
)
def test_an_id_does_not_depend_on_the_place(data: bytes) -> None:
    """Position, blank lines, and spaces around the heading leave the id as it is."""
    assert one(data).content_id == one(KILN).content_id


def test_an_id_and_a_version_survive_the_move_to_the_archive() -> None:
    """The tier is no part of either."""
    moved = one(BATCH + KILN + b"\n", archive=True)
    assert (moved.content_id, moved.version) == (one(KILN).content_id, one(KILN).version)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mark", MARKS)
def test_an_id_survives_re_tagging(mark: str, place: str) -> None:
    """A mark added anywhere in the heading keeps the id and changes the version."""
    plain = one(b"### [delve] Forks of [x] a ledger (2026-05-07) again\n**Verdict:** park -- ok\n")
    marked = one(f"### {PLACES[place].format(mark=mark)}\n**Verdict:** park -- ok\n".encode())
    assert marked.content_id == plain.content_id
    assert marked.version != plain.version


@pytest.mark.parametrize("tags", ["[dream]", "[delve] [swarm-docs]", "[muse]", "[Dream] [ext-signal] [research]", "[DEAD: gone]"])
def test_leading_tags_are_no_part_of_the_id(tags: str) -> None:
    """Whatever tags lead the heading, title, date and body make the id."""
    assert one(KILN.replace(b"[dream] [ext-signal]", tags.encode())).content_id == one(KILN).content_id


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"Kiln", b"Oven"),
        (b"Kiln", b"kiln"),
        (b"2026-05-04", b"2026-05-05"),
        (b"02:10", b"02:11"),
        (b" 02:10)", b")"),
        (b" 02:10)", b" 02:10) again"),
        (b"cracks;", b"breaks;"),
        (b"resonant", b"resonant "),
        (b"**Pass:** 1\n", b""),
        (b"**Pass:** 1\n", b"\n**Pass:** 1\n"),
        (b"stampedes.", b"stampedes.  "),  # spaces at the end of a line are bytes of the body
        (b"stampedes.", b"stampedes.\n\n#### more"),
    ],
)
def test_another_title_date_or_body_has_another_id(old: bytes, new: bytes) -> None:
    """Any change of what was recorded is another entry."""
    changed = one(KILN.replace(old, new))
    assert changed.content_id != one(KILN).content_id
    assert changed.version != one(KILN).version


def test_unlike_entries_have_unlike_ids() -> None:
    """Ids are 16 hex digits, and no two of these are the same."""
    ids = [e.content_id for e in parse(log(KILN, TIDE, ledger("park -- a"), ledger("park -- b"))).entries]
    assert len(set(ids)) == 4
    assert all(len(i) == 16 and int(i, 16) >= 0 for i in ids)


@given(st.integers(0, len(KILN) - 2), st.integers(1, 255))
def test_a_version_sees_every_byte(at: int, flip: int) -> None:
    """One byte changed anywhere in the text is another version."""
    other = bytearray(KILN)
    other[at] ^= flip
    assert one(KILN).version not in [e.version for e in parse(bytes(other)).entries]


@given(any_bytes)
def test_ids_and_versions_depend_on_the_text_alone(data: bytes) -> None:
    """An entry whose text is read by itself has the id and version that it has in its file."""
    for entry in parse(data).entries:
        alone = parse(entry.text + b"\n").entries
        if [e.text for e in alone] == [entry.text]:  # a fence that the file closes may be open alone
            assert (alone[0].content_id, alone[0].version) == (entry.content_id, entry.version)
