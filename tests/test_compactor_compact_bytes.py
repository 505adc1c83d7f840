"""Whatever the bytes of the active file, texts are conserved, and all that stays keeps its bytes and place."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from compactor.compact import compact
from compactor.durable import Disk
from models.errors import RefusedError
from models.pool import Pool
from tests.compactor_disks import entries_of, everywhere, litter, request
from tests.samples import HEADER, KILN, TIDE, delve, ledger, log
from tests.strategies import markdown

OLD, KEPT = "2026-05-01", "absorb -- fits"
GONE = delve("Gone", OLD)
NEW = TIDE.replace(b"05-05", b"06-14")
STAY = delve("Stays", OLD, KEPT)
ODD = (
    b"### [delve] Odd (2026-05-01)\n**Signal:** faint\n**Verdict:** absorb -- x\n**Mood:** wry\n"
    b"**Connection:** uses snake_case_name, *stars*,  two trailing spaces  \n\ttab-indented\n"
)
FENCED = STAY + b"````\n```\n### [delve] Not an entry (2026-01-01)\n```\n````\n"
COMMENT = b"<!-- how to write one:\n### [dream] [ext-signal] <title> (2026-01-01 02:00)\n**Signal:** noise\n-->\n"


@pytest.mark.parametrize(
    ("data", "after"),
    [
        (HEADER + log(GONE, STAY), HEADER + STAY),
        (HEADER + log(STAY, GONE), HEADER + STAY + b"\n"),
        (log(STAY, GONE, STAY.rstrip(b"\n")), log(STAY, STAY.rstrip(b"\n"))),
        (log(GONE.rstrip(b"\n"), STAY + b"\n\n\n"), STAY + b"\n\n\n"),
        (log(STAY.rstrip(b"\n") + b"\n\n\n\n", GONE.rstrip(b"\n")), STAY + b"\n\n\n\n"),
        (log(ODD, GONE), ODD + b"\n"),
        (log(GONE, b"## Night\nprose\n", STAY, b"# End\n\nprose, no newline"),
         log(b"## Night\nprose\n", STAY, b"# End\n\nprose, no newline")),
        (b"\xef\xbb\xbf" + log(GONE, STAY), b"\xef\xbb\xbf" + STAY),
        (GONE.replace(b"\n", b"\r\n") + b"\r\n" + STAY, STAY),
        (log(STAY.replace(b"\n", b"\r\n"), NEW, GONE), STAY.replace(b"\n", b"\r\n") + b"\n" + NEW + b"\n"),
        (log(GONE, FENCED), FENCED),
        (COMMENT + b"\n" + KILN, COMMENT + b"\n"),
        (log(STAY + b"```\nnever closed\n", GONE, STAY), log(STAY + b"```\nnever closed\n", STAY)),
        (log(GONE + b"~~~\nnever closed\n", STAY), STAY),
        (log(STAY, GONE + b"\x00\xff\xfe\xed\xa0\x80 \xe2\x80\xa8\x0b\x0c\x85\n", STAY), log(STAY, STAY)),
        (log(GONE, STAY, GONE, STAY), log(STAY, STAY)),
        (GONE * 3, b""),
        (log(GONE, b"###\xc2\xa0[delve] Ledger forks (2026-05-07)\n**Verdict:** release\xe2\x80\x8b -- stale\n"),
         b"###\xc2\xa0[delve] Ledger forks (2026-05-07)\n**Verdict:** release\xe2\x80\x8b -- stale\n"),
        (log(GONE, ledger("absorb–fits"), ledger("Absorb — fits")), log(ledger("absorb–fits"), ledger("Absorb — fits"))),  # noqa: RUF001
        (log(KILN, TIDE.replace(b"2026-05-05 02:10", b"2026-02-30 25:61"), ledger("x").replace(b" (2026-05-07)", b"")),
         log(TIDE.replace(b"2026-05-05 02:10", b"2026-02-30 25:61"), ledger("x").replace(b" (2026-05-07)", b""))),
        (log(STAY, GONE.rstrip(b"\n") + b"\r"), STAY + b"\n"),
        (log(GONE.rstrip(b"\n").replace(b"\n", b"\r\n")), b""),
        (log(STAY, GONE.replace(b"\n", b"\r\n") + b"\rold mac line\rand another\n"), STAY + b"\n"),
        (STAY + b"### Not tagged\n\n" + GONE, STAY + b"### Not tagged\n\n"),
    ],
    ids=[
        "first", "last", "middle-and-no-final-newline", "blank-lines-at-the-end", "moved-without-final-newline", "odd-fields",
        "prose-between", "bom", "crlf-moved", "crlf-kept-lf-kept", "nested-fences", "comment", "open-fence-kept", "open-fence-moved",
        "nul-and-bad-utf8", "twins", "only-twins", "odd-space-and-verdict", "dashes", "no-usable-date", "lone-cr-at-the-end",
        "crlf-without-final-newline", "lone-crs", "untagged-heading",
    ],
)  # fmt: skip
def test_what_stays_keeps_its_bytes_and_what_moves_its_text(pool: Pool, data: bytes, after: bytes) -> None:
    """The active file afterwards is the file before, less the moved spans; every text stands once over both tiers."""
    pool.active.write_bytes(data)
    before = everywhere(pool)
    assert compact(request(pool), Disk()).status == "compacted"
    assert pool.active.read_bytes() == after
    assert everywhere(pool) == before
    assert litter(pool) == set()


def test_an_entry_that_quotes_a_batch_heading_stays(pool: Pool) -> None:
    """An entry that an archive would read back in pieces is kept, with its reason, and the others move."""
    heading = "## Archived 2026-01-02 — 1 entries (date range: 2026-01-01 to 2026-01-01)\n".encode()
    quoting = GONE + b"```\n" + heading + b"\n### [delve] Quoted (2026-01-01)\n```\n"
    pool.active.write_bytes(log(quoting, delve("Also gone", OLD)))
    result = compact(request(pool), Disk())
    assert [(d.action, d.rule) for d in result.decisions] == [
        ("keep", "11 unexamined: its text holds a batch heading"), ("archive", "6 released"),
    ]  # fmt: skip
    assert entries_of(pool.active) == [quoting.rstrip(b"\n")]


@pytest.mark.parametrize("tail", [b"```\nopen", b"<!-- open", b"~~~\n", b"---\nopen frontmatter?\n", b"\xff\x00"])
def test_an_archives_loose_ends_hide_no_later_batch(pool: Pool, tail: bytes) -> None:
    """An old archive that ends in an open fence or comment reads as before, and so does the batch behind it."""
    pool.archive.write_bytes(b"# Dream Sparks Archive\n\n" + KILN + tail)
    pool.active.write_bytes(log(GONE + b"```\nclosed\n```\n<!-- closed -->\n", delve("Second", OLD)))
    before = everywhere(pool)
    compact(request(pool), Disk())
    assert everywhere(pool) == before


def test_a_large_file_is_compacted(pool: Pool) -> None:
    """Two thousand entries move at once, in their order."""
    moving = [delve(f"Entry {n}", OLD) for n in range(2000)]
    pool.active.write_bytes(HEADER + log(*moving, STAY))
    assert compact(request(pool, force=False), Disk()).archived == 2000
    assert entries_of(pool.archive) == [text.rstrip(b"\n") for text in moving]
    assert pool.active.read_bytes() == HEADER + STAY


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(active=markdown, archive=st.one_of(st.none(), markdown))
@example(active=GONE, archive=KILN.rstrip(b"\n") + b"\r")
def test_any_bytes_are_conserved(pool: Pool, active: bytes, archive: bytes | None) -> None:
    """Whatever stands in both files, a run moves entries whole or refuses to, and never touches the old archive bytes."""
    pool.archive.unlink(missing_ok=True)
    pool.active.write_bytes(active)
    if archive is not None:
        pool.archive.write_bytes(archive)
    before = everywhere(pool)
    kept: Counter[bytes] = Counter(entries_of(pool.active))
    try:
        result = compact(request(pool, release_grace_days=0), Disk())
    except RefusedError:
        assert (pool.active.read_bytes(), everywhere(pool)) == (active, before)
        return
    assert everywhere(pool) == before
    assert (pool.archive.read_bytes() if pool.archive.exists() else b"").startswith(archive or b"")
    assert result.archived == (kept - Counter(entries_of(pool.active))).total()
    if not result.archived:
        assert pool.active.read_bytes() == active
