"""The logs of a service: bounded and private in a file, and patient at a terminal."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from service.logfile import OwnLog, TerminalLog, log_file, open_log


def record(text: str) -> logging.LogRecord:
    """Something to be told."""
    return logging.LogRecord("coldspark", logging.WARNING, __file__, 1, text, None, None)


def test_log_is_its_owners_alone(tmp_path: Path) -> None:
    """A new log, and an old one that others could read, have mode 0600, whatever the umask."""
    path = log_file(tmp_path)
    path.write_bytes(b"old\n")
    path.chmod(0o644)
    handler = OwnLog(path, descriptors=())
    handler.handle(record("new"))
    handler.close()
    assert path.stat().st_mode & 0o777 == 0o600
    first, second = path.read_text().splitlines()
    assert first == "old"
    assert second.endswith("WARNING new")


def test_link_in_the_logs_place_is_not_followed(tmp_path: Path) -> None:
    """A planted link does not lead the log elsewhere."""
    (tmp_path / "aim").write_bytes(b"")
    log_file(tmp_path).symlink_to(tmp_path / "aim")
    with pytest.raises(OSError, match="symbolic links"):
        open_log(log_file(tmp_path))
    assert (tmp_path / "aim").read_bytes() == b""


def test_log_is_bounded(tmp_path: Path) -> None:
    """However much is told, two files of the largest size hold it, the latest last."""
    path = log_file(tmp_path)
    handler = OwnLog(path, largest=2_000, descriptors=())
    for n in range(500):
        handler.handle(record(f"line {n}"))
    handler.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["service.log", "service.log.1"]
    assert all(p.stat().st_size <= 2_000 and p.stat().st_mode & 0o777 == 0o600 for p in tmp_path.iterdir())
    assert path.read_text().endswith("line 499\n")


def test_standard_error_follows_the_log(tmp_path: Path) -> None:
    """What native code writes to its descriptor goes to the log in use, not to one that was put aside."""
    spare = os.open(os.devnull, os.O_WRONLY)
    handler = OwnLog(log_file(tmp_path), largest=100, descriptors=(spare,))
    try:
        os.write(spare, b"crash\n")
        assert log_file(tmp_path).read_text() == "crash\n"
        for n in range(10):
            handler.handle(record(f"line {n}"))
        os.write(spare, b"again\n")
        assert log_file(tmp_path).read_text().endswith("again\n")
    finally:
        handler.close()
        os.close(spare)


def test_reader_that_has_gone_is_not_missed() -> None:
    """A closed pipe or terminal fails nothing, not at the end either."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        handler = TerminalLog(stream)
        for _ in range(3):
            handler.handle(record("unheard"))
        handler.close()
