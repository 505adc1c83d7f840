"""Any order of appends, rewrites, compactions, splits, crashes and recoveries conserves every entry."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from compactor.verify import verify_archive
from models.pool import Pool
from tests.compactor_archives import litter_beside_shards, over_all_files, seen
from tests.compactor_disks import NOON, CrashingDisk, HookedDisk, PowerCutError, When, entries_of, request
from tests.samples import HEADER

ENTRIES = st.builds(
    lambda tag, n, day, body, eol: f"### [{tag}] Title {n} (2026-{day})\n{body}".encode().replace(b"\n", eol),
    st.sampled_from(["dream", "delve", "ext-signal", "muse"]),
    st.integers(0, 3),
    st.sampled_from(["05-01", "06-14", "02-30"]),
    st.sampled_from(["**Verdict:** release -- x", "**Verdict:** absorb -- x", "text\n\nmore \u2028 text", "```\nfenced\n```"]),
    st.sampled_from([b"\n", b"\r\n"]),
)
IN_MEMORY = Path("/dev/shm")  # noqa: S108 - where there is one, thousands of runs need not wait for a disk
WHEN = st.sampled_from(["before", "torn", "after"])


class Memory(RuleBasedStateMachine):
    """A pool, the entries ever written to it, and one descriptor that a program keeps open.

    `written` is what stands in the files by their names; `pending` may still be in a file that was replaced.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
        (self.folder / "memory").mkdir()
        self.pool = Pool("default", self.folder / "memory")
        self.pool.active.write_bytes(HEADER)
        self.written: Counter[bytes] = Counter()
        self.pending: Counter[bytes] = Counter()
        self.held: int | None = None
        self.runs = 0
        self.clock = NOON

    def teardown(self) -> None:
        """Removes the pool."""
        self.let_go()
        shutil.rmtree(self.folder)

    @rule(text=ENTRIES)
    def append(self, text: bytes) -> None:
        """Another program appends an entry by the file's name."""
        with self.pool.active.open("ab") as file:
            file.write(b"\n\n" + text + b"\n")
        self.written[text] += 1

    @rule(text=ENTRIES)
    def rewrite_by_rename(self, text: bytes) -> None:
        """An editor saves the active file with one more entry: a new file takes the old one's place."""
        self.let_go()  # who still appends to a file that an editor has replaced is lost with any editor
        new = self.folder / "editing"
        new.write_bytes(self.pool.active.read_bytes() + b"\n\n" + text + b"\n")
        new.replace(self.pool.active)
        self.written[text] += 1

    @rule(text=ENTRIES)
    def rewrite_in_place(self, text: bytes) -> None:
        """Another program writes the whole active file anew, with one more entry in front."""
        data = self.pool.active.read_bytes().removeprefix(HEADER)
        self.pool.active.write_bytes(HEADER + text + b"\n\n" + data)
        self.written[text] += 1

    @precondition(lambda self: self.is_settled and bool(entries_of(self.pool.active)))
    @rule(number=st.integers(0, 100), mark=st.sampled_from([b"expired", b"DEAD: no use", b"consumed: 2026-06-01"]))
    def tag_anew(self, number: int, mark: bytes) -> None:
        """A skill marks an entry of the active file, in place."""
        found = entries_of(self.pool.active)
        old = found[number % len(found)]
        new = old.replace(b"### ", b"### [" + mark + b"] ", 1)
        self.pool.active.write_bytes(self.pool.active.read_bytes().replace(old, new, 1))
        for texts in (self.written, self.pending):
            if texts[old] > 0:
                texts[old] -= 1
                texts[new] += 1
                return
        raise AssertionError("nobody has written this entry")

    @precondition(lambda self: self.held is None)
    @rule()
    def open_early(self) -> None:
        """Another program opens the active file and keeps it open."""
        self.held = os.open(self.pool.active, os.O_WRONLY | os.O_APPEND)
        self.runs = 0

    @precondition(lambda self: self.held is not None)
    @rule(text=ENTRIES)
    def append_late(self, text: bytes) -> None:
        """It appends to whatever file that is by now."""
        assert self.held is not None
        os.write(self.held, b"\n\n" + text + b"\n")
        self.pending[text] += 1

    @rule(days=st.integers(0, 40), swaps=st.booleans())
    def compact(self, days: int, *, swaps: bool) -> None:
        """A whole run, of some day, settles all that came before it."""
        self._begin()
        compact(request(self.pool, now=self._now(days)), HookedDisk(swaps=swaps))
        self._assert_settled()

    @rule()
    def split(self) -> None:
        """So does a split."""
        self._begin()
        split(self.pool, request(self.pool, now=self._now()).settings, Disk())
        if self.pool.archive.exists():  # without an archive a split looks no further
            self._assert_settled()

    @rule(at=st.integers(1, 45), when=WHEN, days=st.integers(0, 40), swaps=st.booleans())
    def crash(self, at: int, when: When, days: int, *, swaps: bool) -> None:
        """A run dies at some step, perhaps while it settles another's death."""
        self._begin()
        with suppress(PowerCutError):
            compact(request(self.pool, now=self._now(days)), CrashingDisk(at, when, swaps=swaps))

    @rule(at=st.integers(1, 70), when=WHEN, swaps=st.booleans())
    def crash_in_split(self, at: int, when: When, *, swaps: bool) -> None:
        """A split dies at some step."""
        self._begin()
        with suppress(PowerCutError):
            split(self.pool, request(self.pool, now=self._now()).settings, CrashingDisk(at, when, swaps=swaps))

    @precondition(lambda self: self.held is not None)
    @rule()
    def let_go(self) -> None:
        """The other program closes the file."""
        if self.held is not None:
            os.close(self.held)
            self.held = None

    @rule()
    def verify(self) -> None:
        """The archive is never damaged, an unfinished run or not."""
        assert verify_archive(self.pool).problems == []

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every entry written by name stands in at least one file."""
        assert not self.written - over_all_files(self.pool)

    @invariant()
    def readers_see_every_entry_once(self) -> None:
        """What readers see is what was written, and perhaps what was written late; never a copy."""
        found = seen(self.pool)
        assert not self.written - found
        assert not found - self.written - self.pending

    @property
    def is_settled(self) -> bool:
        """Whether no run is unfinished."""
        return not (self.pool.private_dir / "journal.json").exists()

    def _assert_settled(self) -> None:
        self.written += self.pending
        self.pending.clear()
        assert over_all_files(self.pool) == self.written
        assert litter_beside_shards(self.pool) <= {"journal.tmp"}  # one that a crash left unborn stays until the next that writes one
        assert self.is_settled

    def _begin(self) -> None:
        """Nobody keeps a file open over more than a few runs: older ones are no longer looked after."""
        self.runs += 1
        if self.runs > 2:
            self.let_go()

    def _now(self, days: int = 0) -> dt.datetime:
        self.clock += dt.timedelta(seconds=1)
        return self.clock + dt.timedelta(days)


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
