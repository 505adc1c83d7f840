"""Programs that know no lock append to, replace or rewrite the active file in the midst of a compaction."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.publish import snapshots, tidy
from models.errors import ColdsparkError, RefusedError
from models.pool import Pool
from tests.compactor_disks import (
    MIXED,
    MIXED_AFTER,
    OLD_ARCHIVE,
    HookedDisk,
    MeddledDisk,
    PowerCutError,
    batch_lines,
    everywhere,
    lay,
    litter,
    request,
)
from tests.samples import HEADER, delve

NEW = delve("Written meanwhile", "2026-06-15", "park -- new").rstrip(b"\n")


class LateWriter(HookedDisk):
    """Another program that opens the active file just before each replacement, and appends one entry to it just after."""

    def __init__(self, texts: list[bytes]) -> None:
        super().__init__()
        self.texts = texts

    def swap(self, new: Path, path: Path) -> bool:
        """Keeps the old file open over its replacement."""
        if not self.texts:
            return super().swap(new, path)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        try:
            swapped = super().swap(new, path)
            os.write(descriptor, self.texts.pop(0))
        finally:
            os.close(descriptor)
        return swapped


class RestlessDisk(HookedDisk):
    """Another program that replaces the active file whenever it is about to be replaced, *times* times."""

    def __init__(self, times: int, *, crash_at: int = 0) -> None:
        super().__init__()
        self.times = times
        self.crash_at = crash_at

    def before(self, step: str, path: Path) -> None:
        """The other program's turn, or the crash."""
        if len(self.steps) == self.crash_at:
            raise PowerCutError(step)
        if step in ("swap", "link") and path.name == "dream-sparks.md" and self.times:
            self.times -= 1
            _rename_over(path, b"\n" + path.read_bytes())


def _write(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)


def _rename_over(path: Path, data: bytes) -> None:
    other = path.with_name("editor.swp")
    other.write_bytes(data)
    os.replace(other, path)


def _meddle_everywhere(pool: Pool, meddle: Callable[[], None], skip: tuple[str, str] | None = None) -> list[int]:
    """Lets *meddle* act before the first step, then (from a fresh copy) the second, and so on; checks each outcome."""
    acted: list[int] = []
    for at in range(1, 200):
        before = lay(pool, archive=OLD_ARCHIVE)
        disk = MeddledDisk(at, meddle)
        with suppress(ColdsparkError):
            compact(request(pool), disk)
        if not disk.meddled:
            return acted
        step, path = disk.steps[at - 1]
        if (step, path.name) == skip:
            continue
        compact(request(pool), Disk())
        assert everywhere(pool) == before + Counter([NEW]), (at, step, path.name)
        assert pool.archive.read_bytes().startswith(OLD_ARCHIVE), at
        assert litter(pool) == set(), at
        acted.append(at)
    raise AssertionError


def test_an_append_by_name_before_any_step_survives(pool: Pool) -> None:
    """An entry appended by open, write and close between any two steps stands exactly once."""

    def append() -> None:
        with pool.active.open("ab") as file:
            file.write(b"\n\n" + NEW + b"\n")

    assert len(_meddle_everywhere(pool, append)) > 20


def test_an_append_through_an_early_descriptor_survives(pool: Pool) -> None:
    """An entry appended to the file as it was before the run, at any step, is carried over exactly once."""
    for at in range(1, 200):
        before = lay(pool, archive=OLD_ARCHIVE)
        descriptor = os.open(pool.active, os.O_WRONLY | os.O_APPEND)
        try:
            disk = MeddledDisk(at, partial(_write, descriptor, b"\n\n" + NEW + b"\n"))
            compact(request(pool), disk)
        finally:
            os.close(descriptor)
        if not disk.meddled:
            return
        compact(request(pool), Disk())
        assert everywhere(pool) == before + Counter([NEW]), disk.steps[at - 1]
        assert litter(pool) == set(), at


def test_a_late_append_is_reported(pool: Pool) -> None:
    """The run says how many late bytes it carried over."""
    lay(pool, archive=OLD_ARCHIVE)
    text = b"\n\n" + NEW + b"\n"
    result = compact(request(pool), LateWriter([text]))
    assert [w.message for w in result.warnings if "carried" in w.message] == [
        f"{len(text)} bytes that were appended to a replaced file were carried over into dream-sparks.md"
    ]
    assert pool.active.read_bytes() == MIXED_AFTER + text


def test_an_append_after_the_run_is_carried_over_by_the_next(pool: Pool) -> None:
    """A descriptor that outlives the whole run loses nothing: the next run, due or not, carries its text over."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with pool.active.open("ab") as file:
        compact(request(pool), Disk())
        file.write(b"\n\n" + NEW + b"\n")
    result = compact(request(pool, force=False), Disk())
    assert everywhere(pool) == before + Counter([NEW])
    assert [w.message for w in result.warnings if "carried" in w.message] == [
        f"{len(NEW) + 3} bytes that were appended to a replaced file were carried over into dream-sparks.md"
    ]
    assert litter(pool) == set()


def test_late_appends_to_several_replaced_files_survive(pool: Pool) -> None:
    """Entries of equal length that reach each replaced file in turn all stand exactly once."""
    before = lay(pool, archive=OLD_ARCHIVE)
    new = [delve(f"Late {n}", "2026-06-15", "park -- new") for n in range(4)]
    compact(request(pool), LateWriter([b"\n\n" + text for text in new]))
    compact(request(pool), Disk())
    assert everywhere(pool) == before + Counter(text.rstrip(b"\n") for text in new)


def test_the_newest_replaced_file_outlives_the_older_ones(pool: Pool) -> None:
    """Of many replaced files the newest are kept, even when the clock stands still, so that late text still arrives."""
    lay(pool, archive=OLD_ARCHIVE)
    for n in range(12):
        with pool.active.open("ab") as file:
            file.write(b"\n\n" + delve(f"Moves {n}", "2026-05-01"))
            file.flush()
            compact(request(pool), Disk())
            file.write(b"\n" + delve(f"Late {n}", "2026-06-15"))
        compact(request(pool), Disk())
        assert f"Late {n} (".encode() in pool.active.read_bytes()


def test_only_a_few_replaced_files_are_kept(pool: Pool) -> None:
    """Compaction after compaction does not fill the private folder: a dozen of the last hour, and three in all later on."""
    lay(pool, archive=OLD_ARCHIVE)
    for n in range(14):
        with pool.active.open("ab") as file:
            file.write(b"\n\n" + delve(f"Moves {n}", "2026-05-01"))
        compact(request(pool), Disk())
    found = snapshots(Desk.of(pool))
    assert len(found) == 12
    for n, snapshot in enumerate(found):
        snapshot.path.rename(snapshot.path.with_name(f"{n + 1}.{snapshot.size}.{snapshot.checksum}.md"))
    tidy(Disk(), Desk.of(pool))
    assert [s.number for s in snapshots(Desk.of(pool))] == [10, 11, 12]


def test_a_late_append_that_began_a_line_begins_one_again(pool: Pool) -> None:
    """Late text behind a final newline is not glued to a last line without one."""
    pool.active.write_bytes(delve("Stays", "2026-05-01", "absorb -- x") + b"\n" + delve("Moves", "2026-05-01"))
    late = delve("Late", "2026-06-15")
    with pool.active.open("ab") as file:
        compact(request(pool), Disk())
        file.write(late)
    pool.active.write_bytes(pool.active.read_bytes().rstrip(b"\n"))
    compact(request(pool), Disk())
    assert pool.active.read_bytes() == delve("Stays", "2026-05-01", "absorb -- x") + late


def test_a_foreign_replacement_before_any_step_but_ours_survives(pool: Pool) -> None:
    """A file renamed over the active one between any two steps is noticed, and its text survives."""

    def rename_over() -> None:
        _rename_over(pool.active, pool.active.read_bytes() + b"\n\n" + NEW + b"\n")

    assert len(_meddle_everywhere(pool, rename_over, skip=("", ""))) > 20


def test_a_foreign_replacement_in_the_very_moment_of_ours_survives(pool: Pool) -> None:
    """Even a file renamed over the active one between the last look and the replacement is not lost."""

    def rename_over() -> None:
        _rename_over(pool.active, pool.active.read_bytes() + b"\n\n" + NEW + b"\n")

    lay(pool, archive=OLD_ARCHIVE)
    probe = HookedDisk()
    compact(request(pool), probe)
    at = next(n for n, (step, path) in enumerate(probe.steps, 1) if (step, path) == ("swap", pool.active))
    lay(pool, archive=OLD_ARCHIVE)
    for disk in (MeddledDisk(at, rename_over), Disk()):
        try:
            compact(request(pool), disk)
        except ColdsparkError:
            continue
    assert _is_kept(pool, NEW)


def test_a_foreign_rewrite_in_place_before_any_step_survives(pool: Pool) -> None:
    """A program that empties and rewrites the active file at any step is noticed; its text is kept, and stays kept."""
    for at in range(1, 200):
        before = lay(pool, archive=OLD_ARCHIVE)
        disk = MeddledDisk(at, lambda: _rewrite_in_place(pool.active))
        try:
            compact(request(pool), disk)
        except RefusedError as error:
            assert "another program rewrote the active file" in str(error)  # noqa: PT017 - other steps raise nothing
        if not disk.meddled:
            return
        for n in range(5):
            with pool.active.open("ab") as file:
                file.write(b"\n\n" + delve(f"Moves {n}", "2026-05-01"))
            compact(request(pool), Disk())
        more = Counter(delve(f"Moves {n}", "2026-05-01").rstrip(b"\n") for n in range(5))
        assert _is_kept(pool, NEW), disk.steps[at - 1]
        assert not everywhere(pool) - (before + more + Counter([NEW])), disk.steps[at - 1]
        assert not (before + more) - everywhere(pool), disk.steps[at - 1]
        assert litter(pool) == set(), at


def _rewrite_in_place(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(HEADER, HEADER + NEW + b"\n\n"))


def _is_kept(pool: Pool, text: bytes) -> bool:
    """Whether some file in the memory folder or the private one still has *text*."""
    return any(text in path.read_bytes() for path in pool.memory_dir.rglob("*") if path.is_file())


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_file_that_settles_is_compacted(pool: Pool, times: int) -> None:
    """A few foreign replacements only mean a few more attempts."""
    before = lay(pool, archive=OLD_ARCHIVE)
    assert compact(request(pool), RestlessDisk(times)).status == "compacted"
    assert everywhere(pool) == before
    assert pool.active.read_bytes().lstrip(b"\n") == MIXED_AFTER
    assert litter(pool) == set()


def test_a_file_that_never_settles_is_refused(pool: Pool) -> None:
    """When other programs keep replacing the file, nothing moves, and the archive is as it was."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with pytest.raises(RefusedError) as caught:
        compact(request(pool), RestlessDisk(1000))
    assert str(caught.value) == (f"Refused to touch {pool.active}: other programs keep rewriting it. Run again when they are done.")
    assert (pool.active.read_bytes().lstrip(b"\n"), pool.archive.read_bytes()) == (MIXED, OLD_ARCHIVE)
    assert litter(pool) == set()
    compact(request(pool), Disk())
    assert everywhere(pool) == before


@pytest.mark.parametrize("times", [1, 3])
def test_a_crash_amid_foreign_replacements_is_settled(pool: Pool, times: int) -> None:
    """A run that dies at any step of a further attempt leaves what the next run settles."""
    for at in range(1, 300):
        before = lay(pool, archive=OLD_ARCHIVE)
        disk = RestlessDisk(times, crash_at=at)
        try:
            compact(request(pool), disk)
        except PowerCutError:
            assert not before - everywhere(pool), at
        except RefusedError:
            pass
        compact(request(pool), Disk())
        assert everywhere(pool) == before, disk.steps[min(at, len(disk.steps)) - 1]
        assert litter(pool) == set(), at
        if len(disk.steps) < at:
            return


def test_a_crash_while_late_text_is_carried_over_is_settled(pool: Pool) -> None:
    """Late entries survive a crash at any step of their own carrying over, exactly once."""
    new = delve("Late", "2026-06-15").rstrip(b"\n")
    for at in range(1, 200):
        before = lay(pool, archive=OLD_ARCHIVE)
        disk = CrashingLateWriter([b"\n\n" + new + b"\n"], at)
        with suppress(PowerCutError):
            compact(request(pool), disk)
        appended = not disk.texts
        compact(request(pool), Disk())
        assert everywhere(pool) == before + Counter([new] if appended else []), at
        assert litter(pool) == set(), at
        if len(disk.steps) < at:
            assert len(batch_lines(pool)) == 1
            return


class CrashingLateWriter(LateWriter):
    """A late writer beside a process that dies right after step *at*."""

    def __init__(self, texts: list[bytes], at: int) -> None:
        super().__init__(texts)
        self.at = at

    def after(self, step: str, path: Path) -> None:
        """The crash."""
        if len(self.steps) >= self.at:
            raise PowerCutError(step)


class HastyReader(HookedDisk):
    """Another program replaces the active file right before the swap, and a third one appends right behind it."""

    def __init__(self, replaced: bytes, appended: bytes) -> None:
        super().__init__()
        self.replaced = replaced
        self.appended = appended

    def swap(self, new: Path, path: Path) -> bool:
        """Both act around the first swap."""
        replaced, self.replaced = self.replaced, b""
        if replaced:
            _rename_over(path, replaced)
        swapped = super().swap(new, path)
        if replaced:
            with path.open("ab") as file:
                file.write(self.appended)
        return swapped


def test_an_append_to_a_file_that_is_swapped_back_survives(pool: Pool) -> None:
    """What was appended to the new file, before it had to give way to a foreign one, is not dropped with it."""
    before = lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), HastyReader(b"\n" + MIXED + b"\n", NEW + b"\n"))
    assert everywhere(pool) == before + Counter([NEW])
