"""Any order of appends, compactions, crashes and recoveries conserves every entry."""

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
from models.pool import Pool
from tests.compactor_disks import NOON, CrashingDisk, PowerCutError, When, everywhere, litter, request
from tests.samples import HEADER

ENTRIES = st.builds(
    lambda tag, n, day, body, eol: f"### [{tag}] Title {n} (2026-{day})\n{body}".encode().replace(b"\n", eol),
    st.sampled_from(["dream", "delve", "ext-signal", "muse"]),
    st.integers(0, 3),
    st.sampled_from(["05-01", "06-14", "02-30"]),
    st.sampled_from(["**Verdict:** release -- x", "**Verdict:** absorb -- x", "text\n\nmore \u2028 text", "```\nfenced\n```"]),
    st.sampled_from([b"\n", b"\r\n"]),
)


class Memory(RuleBasedStateMachine):
    """A pool, the entries ever written to it, and one descriptor that a program keeps open."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "memory").mkdir()
        self.pool = Pool("default", self.folder / "memory")
        self.pool.active.write_bytes(HEADER)
        self.written: Counter[bytes] = Counter()
        self.pending: Counter[bytes] = Counter()
        self.held: int | None = None
        self.runs = 0

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

    @rule()
    def compact(self) -> None:
        """A whole run settles all that came before it."""
        self._begin()
        compact(request(self.pool, now=self._now()), Disk())
        self.written += self.pending
        self.pending.clear()
        assert everywhere(self.pool) == self.written
        assert litter(self.pool) == set()

    @rule(at=st.integers(1, 45), when=st.sampled_from(["before", "torn", "after"]))
    def crash(self, at: int, when: When) -> None:
        """A run dies at some step, perhaps while it settles another's death."""
        self._begin()
        with suppress(PowerCutError):
            compact(request(self.pool, now=self._now()), CrashingDisk(at, when))

    @precondition(lambda self: self.held is not None)
    @rule()
    def let_go(self) -> None:
        """The other program closes the file."""
        if self.held is not None:
            os.close(self.held)
            self.held = None

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every entry written by name stands in at least one tier."""
        assert not self.written - everywhere(self.pool)

    def _begin(self) -> None:
        """Nobody keeps a file open over more than a few runs: older ones are no longer looked after."""
        self.runs += 1
        if self.runs > 2:
            self.let_go()

    def _now(self) -> dt.datetime:
        self.clock = getattr(self, "clock", NOON) + dt.timedelta(seconds=1)
        return self.clock


TestMemory = Memory.TestCase
TestMemory.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
