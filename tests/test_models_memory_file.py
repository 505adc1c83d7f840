"""Memory files are read whole, and every later change shows in their state."""

from __future__ import annotations

import os
from pathlib import Path, PosixPath
from typing import Any, Self

import pytest

from models.errors import EvictedFileError, MissingFileError, UnreadableFileError
from models.memory_file import read_bytes, state_of
from tests.samples import KILN, TIDE


@pytest.mark.parametrize("data", [b"", KILN, b"\xef\xbb\xbfa\r\nb\rc\x00\x1a\xff", b"x" * 3_000_000], ids=["empty", "kiln", "odd", "large"])
def test_every_byte_is_read(tmp_path: Path, data: bytes) -> None:
    """Nothing is decoded, translated or cut."""
    (tmp_path / "f").write_bytes(data)
    found, state = read_bytes(tmp_path / "f", "active file")
    assert found == data
    assert state == state_of(tmp_path / "f")
    assert state.size == len(data)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """The error says which file of which part is missing, and has no state."""
    path = tmp_path / "gone.md"
    with pytest.raises(MissingFileError) as caught:
        read_bytes(path, "active file")
    assert str(caught.value) == f"The active file {path} does not exist: check the path, or name another folder with --memory-dir."
    assert state_of(path) is None


def test_a_folder_in_a_files_place_is_named(tmp_path: Path) -> None:
    """The system's reason is passed on."""
    with pytest.raises(UnreadableFileError) as caught:
        read_bytes(tmp_path, "archive file")
    assert str(caught.value) == f"The archive file {tmp_path} cannot be read (Is a directory): make it readable and run again."


def test_a_file_in_a_folders_place_is_no_traceback(tmp_path: Path) -> None:
    """A path through a file cannot be read, and says so."""
    (tmp_path / "memory").write_bytes(b"")
    with pytest.raises(UnreadableFileError, match=r"cannot be read \(Not a directory\)"):
        read_bytes(tmp_path / "memory" / "dream-sparks.md", "active file")


def test_a_change_shows_in_the_state(tmp_path: Path) -> None:
    """An append, a replacement, and an edit of the same length with another time each differ."""
    path = tmp_path / "f"
    path.write_bytes(KILN)
    _, before = read_bytes(path, "active file")
    with path.open("ab") as file:
        file.write(TIDE)
    appended = state_of(path)
    (tmp_path / "new").write_bytes(KILN + TIDE)
    os.replace(tmp_path / "new", path)
    replaced = state_of(path)
    os.utime(path, ns=(1, 1))
    assert len({before, appended, replaced, state_of(path)}) == 4


def test_a_link_has_the_state_of_its_target(tmp_path: Path) -> None:
    """Links are followed; one that leads nowhere has no state."""
    (tmp_path / "target").write_bytes(KILN)
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "broken").symlink_to("nowhere")
    assert state_of(tmp_path / "link") == state_of(tmp_path / "target")
    assert state_of(tmp_path / "broken") is None


class Growing(PosixPath):
    """A file to which another program appends right after its bytes were read."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        """Opens the file, and appends once it has been read."""
        file = super().open(*args, **kwargs)
        read = file.read

        class Reader:
            def __enter__(self) -> Self:
                return self

            def __exit__(self, *_: object) -> None:
                file.close()

            def fileno(self) -> int:
                return int(file.fileno())

            def read(self, *sizes: int) -> bytes:
                data: bytes = read(*sizes)
                with Path(file.name).open("ab") as other:
                    other.write(TIDE)
                return data

        return Reader()


def test_an_append_between_reading_and_looking_is_not_taken_as_read(tmp_path: Path) -> None:
    """The state that comes with the bytes is never that of a longer file."""
    (tmp_path / "f").write_bytes(KILN)
    data, state = read_bytes(Growing(tmp_path / "f"), "active file")
    assert data == (tmp_path / "f").read_bytes() or state != state_of(tmp_path / "f")


def _evicted(path: Path) -> str:
    with pytest.raises(EvictedFileError) as caught:
        read_bytes(path, "active file")
    assert caught.value.exit_code == 3
    assert caught.value.path == path
    return str(caught.value)


def test_a_stub_without_its_file_is_an_evicted_file(tmp_path: Path) -> None:
    """The sentence says what to do, which is not what one does about a missing file."""
    (tmp_path / ".f.md.icloud").write_bytes(b"bplist00")
    assert _evicted(tmp_path / "f.md") == (
        f"The active file {tmp_path / 'f.md'} is not on this machine, a cloud service keeps only a stub of it here: download it"
        " and tell the service to keep the folder on this machine, then run again."
    )


def test_a_size_without_content_is_an_evicted_file(tmp_path: Path) -> None:
    """A file without a block on the disk has no text, whatever its size says."""
    path = tmp_path / "f.md"
    path.touch()
    os.truncate(path, 5000)
    if path.stat().st_blocks:
        pytest.skip("this file system has no sparse files")
    assert "is not on this machine" in _evicted(path)


@pytest.mark.parametrize("data", [b"\0" * 5000, b"\0", b""], ids=["many", "one", "empty"])
def test_nul_bytes_that_are_there_are_read(tmp_path: Path, data: bytes) -> None:
    """Bytes with blocks are content; an empty file is empty."""
    (tmp_path / "f.md").write_bytes(data)
    with (tmp_path / "f.md").open("rb") as file:
        os.fsync(file.fileno())
    assert read_bytes(tmp_path / "f.md", "active file")[0] == data


def test_a_hole_within_a_text_is_read(tmp_path: Path) -> None:
    """A file that has some blocks is not evicted."""
    path = tmp_path / "f.md"
    path.write_bytes(KILN)
    os.truncate(path, 1_000_000)
    data, state = read_bytes(path, "active file")
    assert data == KILN + b"\0" * (1_000_000 - len(KILN))
    assert state.size == 1_000_000


def test_a_dangling_link_names_its_target(tmp_path: Path) -> None:
    """What is missing is the target, not the link."""
    (tmp_path / "link").symlink_to("gone/away.md")
    with pytest.raises(MissingFileError) as caught:
        read_bytes(tmp_path / "link", "archive file")
    assert str(caught.value) == (
        f"The archive file {tmp_path / 'link'} is a symbolic link, and its target gone/away.md does not exist:"
        " check the path, or name another folder with --memory-dir."
    )


@pytest.mark.timeout(6)
def test_a_pipe_is_unreadable_and_holds_nobody_up(tmp_path: Path) -> None:
    """A pipe that nobody writes to would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableFileError):
        read_bytes(tmp_path / "pipe", "active file")


def test_a_device_is_unreadable(tmp_path: Path) -> None:
    """What a device answers is no memory, be it nothing or without end."""
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(UnreadableFileError):
        read_bytes(tmp_path / "link", "active file")
