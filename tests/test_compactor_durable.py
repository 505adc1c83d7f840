"""The disk: each step's own promise, and a whole compaction on a disk that is full at any of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from models.errors import ColdsparkError, RefusedError, WriteFailedError
from models.pool import Pool
from tests.compactor_disks import MIXED, MIXED_AFTER, OLD_ARCHIVE, FullDisk, everywhere, lay, litter, request


@pytest.mark.parametrize("archive", [OLD_ARCHIVE, None], ids=["old-archive", "no-archive"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
def test_a_full_disk_at_any_step_harms_nothing(pool: Pool, lasting: bool, archive: bytes | None) -> None:  # noqa: FBT001 - a table's column
    """The run reports it; the active file is as it was or complete; the next run with space settles everything."""
    for at in range(1, 200):
        before = lay(pool, archive=archive)
        disk = FullDisk(at, lasting=lasting)
        try:
            result = compact(request(pool), disk)
        except ColdsparkError as error:
            assert isinstance(error, WriteFailedError | RefusedError)  # noqa: PT017 - the last runs raise nothing
        else:
            assert not disk.failed, "a failure is reported"
            assert result.status == "compacted"
        active = pool.active.read_bytes()
        assert active in (MIXED, MIXED_AFTER), at
        assert not before - everywhere(pool), at
        assert (pool.archive.read_bytes() if pool.archive.exists() else b"").startswith(archive or b""), at
        if active == MIXED and not lasting:
            assert everywhere(pool) == before, "what could be undone is undone at once"
            assert litter(pool) <= {"journal.tmp", "journal.json"}, at  # a journal of nothing yet harms nobody
        compact(request(pool), Disk())
        assert everywhere(pool) == before, at
        assert pool.active.read_bytes() == MIXED_AFTER, at
        assert litter(pool) == set(), at
        if not disk.failed:
            return


def test_a_full_disk_at_any_step_of_an_undoing_is_settled(pool: Pool) -> None:
    """A failure while an earlier failure is being undone leaves what the next run settles."""
    for first in range(7, 20):
        for second in range(first + 1, first + 9):
            before = lay(pool, archive=OLD_ARCHIVE)
            disk = TwiceFullDisk(first, second)
            with suppress(ColdsparkError):
                compact(request(pool), disk)
            assert not before - everywhere(pool), (first, second)
            compact(request(pool), Disk())
            assert everywhere(pool) == before, (first, second, disk.steps)
            assert litter(pool) == set(), (first, second)


class TwiceFullDisk(FullDisk):
    """Fails at one step, and again at a later one."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(second, lasting=False)
        self.first = first

    def before(self, step: str, path: Path) -> None:
        """The failures."""
        if len(self.steps) == self.first:
            raise WriteFailedError(path, "No space left on device")
        super().before(step, path)


def test_an_append_creates_and_extends(tmp_path: Path) -> None:
    """A new file has the mode asked for; an old one keeps its bytes and mode."""
    path = tmp_path / "a"
    Disk().append(path, b"one", mode=0o600)
    path.chmod(0o640)
    Disk().append(path, b"two")
    assert path.read_bytes() == b"onetwo"
    assert path.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_a_new_file_takes_after_another(tmp_path: Path, mode: int) -> None:
    """Mode and owner are those of the file that it will replace, whatever the umask."""
    like = tmp_path / "like"
    like.write_bytes(b"")
    like.chmod(mode)
    old = os.umask(0o077)
    try:
        state = Disk().write_new(tmp_path / "new", b"text", like.stat())
    finally:
        os.umask(old)
    found = (tmp_path / "new").stat()
    assert found.st_mode & 0o7777 == mode
    assert (found.st_uid, found.st_gid) == (like.stat().st_uid, like.stat().st_gid)
    assert (state.ino, state.size) == (found.st_ino, 4)


def test_a_new_file_is_private_unless_told_otherwise(tmp_path: Path) -> None:
    """Without a model to take after, only the owner may read it."""
    Disk().write_new(tmp_path / "new", b"text")
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o600


def test_a_new_file_never_overwrites(tmp_path: Path) -> None:
    """A file that is already there is left as it is."""
    (tmp_path / "there").write_bytes(b"precious")
    with pytest.raises(WriteFailedError) as caught:
        Disk().write_new(tmp_path / "there", b"text")
    assert str(caught.value) == (
        f"Writing {tmp_path / 'there'} failed (File exists); no entry was lost: free the disk or fix the folder and run again."
    )
    assert (tmp_path / "there").read_bytes() == b"precious"


def test_failures_of_every_step_are_reported_alike(tmp_path: Path) -> None:
    """A folder that is not there turns every step into a WriteFailedError that names the path."""
    gone = tmp_path / "gone" / "file"
    disk = Disk()
    steps: list[Callable[[], object]] = [
        lambda: disk.append(gone, b""), lambda: disk.write_new(gone, b""), lambda: disk.replace(gone, tmp_path / "x"),
        lambda: disk.link(gone, tmp_path / "x"), lambda: disk.truncate(gone, 0), lambda: disk.sync_file(gone),
        lambda: disk.rename(gone, tmp_path / "x"), lambda: disk.sync_folder(gone),
    ]  # fmt: skip
    for step in steps:
        with pytest.raises(WriteFailedError, match="No such file or directory"):
            step()


def test_removing_what_is_not_there_is_no_failure(tmp_path: Path) -> None:
    """A second removal finds nothing to do; a folder in the file's place is a failure."""
    Disk().remove(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    with pytest.raises(WriteFailedError):
        Disk().remove(tmp_path / "folder")
