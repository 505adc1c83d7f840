"""No loss of power, at any moment of a compaction, loses or doubles an entry: the real command's system calls are the proof."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.batch import noted
from compactor.compact import compact
from compactor.durable import Disk
from models.errors import ColdsparkError
from models.pool import Pool
from tests.compactor_disks import HookedDisk, everywhere, litter, request
from tests.power_loss import Cutting, Loss, Naming, Run, Step, Sync, Tree, Writing, losses
from tests.samples import HEADER, delve, log
from tests.traced_run import record

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace records the system calls")
COMMAND = Path(sys.executable).with_name("coldspark")
LOCK = frozenset({".coldspark/lock"})


def _long(title: str, verdict: str = "release -- examined") -> bytes:
    """An entry that reaches over a sector's border."""
    return delve(title, "2026-05-01", verdict) + b"".join(b"%s, line %d of its notes\n" % (title.encode(), n) for n in range(25))


MOVING = (_long("Move"), delve("Twin", "2026-05-02"), delve("Twin", "2026-05-02").replace(b"\n", b"\r\n"), delve("Twin", "2026-05-02"))
STAYING = (_long("Stay", "absorb -- fits"), b"### [muse] Stay, \xff\x00 (2026-05-09)\nno final newline")
ACTIVE = HEADER + log(MOVING[0], STAYING[0], *MOVING[1:], STAYING[1])
OLD = b"# Dream Sparks Archive\n\n## Archived 2026-05-01 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)\n\n" + _long("Old")
LATE = (_long("Late, moves"), _long("Late, stays", "absorb -- fits"))

ARCHIVES = pytest.mark.parametrize("archive", [OLD, OLD[:-1], None], ids=["archive", "archive-without-last-newline", "no-archive"])
SWAPS = pytest.mark.parametrize("swaps", [True, False], ids=["swapping", "replacing"])


@dataclass(frozen=True)
class Case:
    """A pool before a compaction, and how it stands behind one that nothing disturbed."""

    pool: Pool
    entries: Counter[bytes]
    old: bytes
    active: bytes
    archive: bytes
    batches: list[int]

    def flaws(self, run: Run, *disks: Disk) -> Iterator[str]:
        """All that is wrong behind any loss of power during *run*, then a next run on each of the *disks*."""
        for loss in losses(run, LOCK):
            for disk in disks:
                loss.lay(self.pool.memory_dir)
                yield from (f"{loss.story} -> {flaw}" for flaw in (*self._lost(), *self._unsettled(disk)))

    def _lost(self) -> Iterator[str]:
        there = b"\n".join(path.read_bytes() for path in self.pool.memory_dir.rglob("*.md"))
        yield from (f"an entry is in no file: {entry[:40]!r}" for entry in self.entries if entry not in there)

    def _unsettled(self, disk: Disk) -> Iterator[str]:
        pool = self.pool
        try:
            compact(request(pool), disk)
        except ColdsparkError as error:
            yield f"the next run stops: {error}"
            return
        found = everywhere(pool)
        yield from (f"an entry is lost: {entry[:40]!r}" for entry in self.entries - found)
        yield from (f"an entry is doubled: {entry[:40]!r}" for entry in found - self.entries)
        if not pool.archive.read_bytes().startswith(self.old):
            yield "the archive does not begin with its old bytes"
        if (pool.active.read_bytes(), pool.archive.read_bytes()) != (self.active, self.archive):
            yield "the tiers are not as an undisturbed run leaves them"
        if litter(pool) or pool.active.stat().st_nlink != 1:
            yield f"litter: {sorted(litter(pool))}"
        if _batches(pool) != self.batches:
            yield f"the list of batches names other ones: {_batches(pool)}"
        snapshots = (pool.memory_dir / ".coldspark" / "replaced").iterdir()
        yield from (f"a snapshot that is none: {p.name}" for p in snapshots if f".{p.stat().st_size}." not in p.name)


def _batches(pool: Pool) -> list[int]:
    """How many entries each listed batch has; -1 for a line that cannot be read."""
    path = pool.memory_dir / ".coldspark" / "batches.jsonl"
    return [line["entries"] if line else -1 for line in noted(path.read_bytes())] if path.exists() else []


def _record(pool: Pool, *, swaps: bool, since: Run | None = None) -> Run:
    """Compacts the pool under strace; without *swaps*, the system does not know the call for them."""
    command: list[str | Path] = [COMMAND, "compact", "--memory-dir", pool.memory_dir, "--state-dir", pool.memory_dir.parent / "state"]
    without = () if swaps else ("-e", "inject=renameat2:error=ENOSYS")
    return record(pool.memory_dir, [*command, "--today", "2026-06-15", "--force"], *without, since=since)


def _compacted(pool: Pool, *late: bytes, swaps: bool) -> tuple[Case, Run]:
    """Compacts the pool, for which *late* entries wait in a snapshot, and sees that all is well."""
    old = pool.archive.read_bytes() if pool.archive.exists() else b""
    entries = everywhere(pool) + Counter(entry.strip() for entry in late)
    run = _record(pool, swaps=swaps)
    assert everywhere(pool) == entries
    assert any(step.call.startswith("swap") for step in run.steps if isinstance(step, Naming)) == swaps
    return Case(pool, entries, old, pool.active.read_bytes(), pool.archive.read_bytes(), _batches(pool)), run


def _lay(pool: Pool, archive: bytes | None) -> None:
    shutil.rmtree(pool.memory_dir)
    pool.memory_dir.mkdir()
    pool.active.write_bytes(ACTIVE)
    if archive is not None:
        pool.archive.write_bytes(archive)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Pool]:
    """A pool on a disk in memory, if there is one: only the order of syncs counts here, and they cost nothing there."""
    memory = Path("/dev/shm")  # noqa: S108 - made private by mkdtemp
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path)).resolve()
    (folder / "memory").mkdir()
    yield Pool("default", folder / "memory", None)
    shutil.rmtree(folder)


@needs_strace
@SWAPS
@ARCHIVES
def test_no_loss_of_power_loses_or_doubles_an_entry(pool: Pool, archive: bytes | None, *, swaps: bool) -> None:
    """Whatever a loss leaves, every entry is there, and the next run, able to swap or not, ends where an undisturbed one does."""
    _lay(pool, archive)
    case, run = _compacted(pool, swaps=swaps)
    assert list(case.flaws(run, Disk(), HookedDisk(swaps=False))) == []


@needs_strace
@SWAPS
def test_no_loss_of_power_loses_or_doubles_a_late_append(pool: Pool, *, swaps: bool) -> None:
    """What was appended to a replaced file is carried over once, even when the run that does it loses power."""
    case, run = _carried_over(pool, swaps=swaps)
    assert list(case.flaws(run, HookedDisk(swaps=swaps))) == []


def _carried_over(pool: Pool, *, swaps: bool) -> tuple[Case, Run]:
    _lay(pool, OLD)
    compact(request(pool), Disk())
    with pool.active.open("ab") as file:
        file.write(b"\n\n" + _long("Added"))
    with next((pool.memory_dir / ".coldspark" / "replaced").iterdir()).open("ab") as file:
        file.write(b"\n\n" + log(*LATE))
    return _compacted(pool, *LATE, swaps=swaps)


@needs_strace
@SWAPS
def test_no_second_loss_of_power_during_the_recovery_does_either(pool: Pool, *, swaps: bool) -> None:
    """The run that settles what a loss has left may lose power at any moment, too."""
    _lay(pool, OLD)
    case, run = _compacted(pool, swaps=swaps)
    kinds = _one_of_each_kind(case, run, ".coldspark/journal.json" if swaps else ".coldspark/replaced/")
    _assert_recovered(case, kinds, swaps=swaps)


@needs_strace
def test_no_second_loss_of_power_leaves_a_torn_new_archive(pool: Pool) -> None:
    """An archive whose first batch is torn is removed for good before its journal is."""
    _lay(pool, None)
    case, run = _compacted(pool, swaps=True)
    torn = (loss for loss in _one_of_each_kind(case, run, case.pool.archive_file) if not _is_whole(case, loss))
    _assert_recovered(case, torn, swaps=True)


@needs_strace
def test_no_second_loss_of_power_harms_a_late_append(pool: Pool) -> None:
    """The run that begins a carry-over again may lose power at any moment, too."""
    case, run = _carried_over(pool, swaps=True)
    unmoved = (loss for loss in _one_of_each_kind(case, run, ".dream-sparks.md.") if not _is_whole(case, loss))
    _assert_recovered(case, itertools.islice(unmoved, 3), swaps=True)


def _assert_recovered(case: Case, kinds: Iterable[Loss], *, swaps: bool) -> None:
    for loss in kinds:
        loss.lay(case.pool.memory_dir)
        recovery = _record(case.pool, swaps=swaps)
        assert [f"{loss.story}, then {flaw}" for flaw in case.flaws(recovery, HookedDisk(swaps=swaps))] == []


def _is_whole(case: Case, loss: Loss) -> bool:
    return loss.tree.content().get(case.pool.archive_file) == case.archive


def _one_of_each_kind(case: Case, run: Run, begin: str) -> Iterator[Loss]:
    """Of the losses that leave a path that begins so, one for each set of names, with the archive's batch missing, torn or whole."""
    kinds = set()
    for loss in losses(run, LOCK):
        found = loss.tree.content()
        size = len(found.get(case.pool.archive_file) or b"")
        kind = (tuple(loss.tree.paths()), size == len(case.old), _is_whole(case, loss))
        if any(path.startswith(begin) for path in found) and kind not in kinds:
            kinds.add(kind)
            yield loss


@needs_strace
@SWAPS
def test_no_loss_of_power_behind_a_kill_does_either(pool: Pool, *, swaps: bool) -> None:
    """A killed run leaves changes that the next run sees, but that are not safe; a loss during that one may take them back."""
    _lay(pool, OLD)
    case, run = _compacted(pool, swaps=swaps)
    for count in _kills(run, "mkdir" if swaps else "link"):
        recovery = _record(pool, swaps=swaps, since=run.killed(count, pool.memory_dir))
        found = case.flaws(recovery, HookedDisk(swaps=swaps))
        assert [f"killed behind {run.steps[count - 1]}, {flaw}" for flaw in found] == []


def _kills(run: Run, first: str) -> Iterator[int]:
    """How many steps to do before a kill that leaves something unsafe, from the first change to names that is such a one."""
    begun = False
    for count, step in enumerate(run.steps, 1):
        begun = begun or (isinstance(step, Naming) and step.call.startswith(first))
        if begun and (isinstance(step, Writing) or (isinstance(step, Naming) and step.born is None)):
            yield count


@needs_strace
def test_a_run_without_its_syncs_would_be_caught(pool: Pool) -> None:
    """Left out any sync of a file, or all those of one folder, a run would lose or double an entry, or not be settled."""
    _lay(pool, None)
    case, run = _compacted(pool, swaps=True)
    for call in {step.call for step in run.steps if isinstance(step, Sync)}:
        assert any(case.flaws(run.without(call), Disk())), call


def test_a_file_that_is_renamed_before_it_is_synced_may_end_up_torn() -> None:
    """The simulated file system knows the oldest mistake: a safe name with unsafe bytes."""
    write: list[Step] = [
        _create("new", 2),
        Writing(2, 0, b"n" * 600),
        Naming("rename", (((0, "new"), 2),), (((0, "new"), None), ((0, "old"), 2))),
    ]
    careless = _contents(*write, Sync(0, "fsync ."))
    assert careless >= {b"old", b"", b"n" * 512, bytes(600), b"n" * 512 + bytes(88), bytes(512) + b"n" * 88, b"n" * 600}
    careful = _contents(*write[:2], Sync(2, "fsync new"), write[2], Sync(0, "fsync ."))
    assert careful == {b"old", b"n" * 600}


def test_a_cut_and_an_append_come_in_order() -> None:
    """What is appended to a file that was cut is never there without the cut."""
    assert _contents(Cutting(1, 1), Writing(1, 1, b"ak")) == {b"old", b"o", b"o\0\0", b"oak"}


def test_names_may_come_in_any_order_that_makes_sense() -> None:
    """A later name may outlast an earlier one, unless it builds upon it; a synced folder has them all."""
    made = [_create("a", 2), _create("b", 3), Naming("rename", (((0, "a"), 2),), (((0, "a"), None), ((0, "c"), 2)))]
    assert _names(*made) == {"", "a", "b", "a b", "c", "b c"}
    assert _names(*made[:2], Sync(0, "fsync ."), made[2]) == {"", "a", "b", "a b", "b c"}


def _create(name: str, node: int) -> Naming:
    return Naming(f"create {name}", (((0, name), None),), (((0, name), node),), born=node)


def _trees(*steps: Step) -> Iterator[Tree]:
    return (loss.tree for loss in losses(Run(Tree({(0, "old"): 1}, {1: b"old"}), list(steps))))


def _contents(*steps: Step) -> set[bytes | None]:
    """What `old` may hold."""
    return {tree.content()["old"] for tree in _trees(*steps)}


def _names(*steps: Step) -> set[str]:
    """Which names may be there beside `old`."""
    return {" ".join(sorted(tree.content().keys() - {"old"})) for tree in _trees(*steps)}
