"""Memory files are read whole, and every later change shows in their state."""

from __future__ import annotations

import os
from pathlib import Path, PosixPath
from typing import Any, Self

import pytest

from models.errors import MissingFileError, UnreadableFileError
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
