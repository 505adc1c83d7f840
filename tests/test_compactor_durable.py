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
    """The run tells of it; the active file is as it was or complete; the next run with space settles everything."""
    for at in range(1, 200):
        before = lay(pool, archive=archive)
        disk = FullDisk(at, lasting=lasting)
        try:
            result = compact(request(pool), disk)
        except ColdsparkError as error:
            assert isinstance(error, WriteFailedError | RefusedError)  # noqa: PT017 - the last runs raise nothing
        else:
            assert result.status == "compacted"
            assert disk.failed == any("the next run does the rest" in w.message for w in result.warnings), "a failure is told"
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
        state = Disk().write_new(tmp_path / "new", b"text", like)
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


def test_a_folder_is_made_private_with_those_above_it(tmp_path: Path) -> None:
    """Whatever the umask, nobody else may enter; what is there already is left as it is."""
    (tmp_path / "there").mkdir(mode=0o755)
    old = os.umask(0)
    try:
        Disk().make_folder(tmp_path / "there" / "one" / "two")
        Disk().make_folder(tmp_path / "there" / "one" / "two")
    finally:
        os.umask(old)
    modes = [path.stat().st_mode & 0o7777 for path in (tmp_path / "there", tmp_path / "there/one", tmp_path / "there/one/two")]
    assert modes == [0o755, 0o700, 0o700]


def test_each_new_folder_is_synced_into_the_one_above(tmp_path: Path) -> None:
    """A power loss cannot take a folder whose content is said to be durable."""
    disk = FullDisk(10_000, lasting=False)
    disk.make_folder(tmp_path / "one" / "two")
    synced = [path for step, path in disk.steps if step == "sync_folder"]
    assert synced == [tmp_path, tmp_path / "one"]
    disk.make_folder(tmp_path / "one" / "two")
    assert [path for step, path in disk.steps if step == "sync_folder"] == synced, "nothing to do is nothing done"


@pytest.mark.parametrize("make", [Path.touch, lambda path: path.symlink_to("gone"), os.mkfifo], ids=["file", "dangling", "pipe"])
def test_a_folder_is_not_made_in_place_of_something_else(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """The failure names the place, and nothing is removed for it."""
    make(tmp_path / "place")
    for path in (tmp_path / "place", tmp_path / "place" / "below"):
        with pytest.raises(WriteFailedError, match=f"Writing {tmp_path / 'place'}"):
            Disk().make_folder(path)
    assert [p.name for p in tmp_path.iterdir()] == ["place"]


def test_user_attributes_are_taken_over(tmp_path: Path) -> None:
    """Tags and the like that programs keep beside a file's bytes are those of the file it will replace."""
    like, new = tmp_path / "like", tmp_path / "new"
    like.write_bytes(b"")
    wanted = {"user.tag": b"\x00\xff", "user.empty": b"", "user.large": b"x" * 1000}
    try:
        for name, value in wanted.items():
            os.setxattr(like, name, value)
    except OSError:
        pytest.skip("no attributes on this file system")
    like.chmod(0o440)
    Disk().write_new(new, b"text", like)
    assert {name: os.getxattr(new, name) for name in os.listxattr(new)} == wanted
    assert new.stat().st_mode & 0o7777 == 0o440


def test_a_new_file_takes_after_the_target_of_a_link(tmp_path: Path) -> None:
    """A link has no mode of its own."""
    (tmp_path / "real").write_bytes(b"")
    (tmp_path / "real").chmod(0o640)
    (tmp_path / "link").symlink_to("real")
    Disk().write_new(tmp_path / "new", b"text", tmp_path / "link")
    assert (tmp_path / "new").stat().st_mode & 0o7777 == 0o640
