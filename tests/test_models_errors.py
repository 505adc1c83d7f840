"""Every failure has one sentence, an exit code and an HTTP status of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from models import errors
from models.errors import ColdsparkError

PATH = Path("/m/f.md")
CASES: list[tuple[ColdsparkError, int, int, str]] = [
    (errors.InvalidRequestError("limit", "it is too small"), 2, 422, "limit: it is too small."),
    (
        errors.InvalidSettingError("port", "--port", "it is taken"), 3, 500,
        "The setting port (--port) cannot be used: it is taken. Correct it there and run again.",
    ),
    (
        errors.NoMemoryFolderError(), 3, 503,
        "No memory folder is configured: run `coldspark init`, or name one with --memory-dir or COLDSPARK_MEMORY_DIR.",
    ),
    (errors.UnknownPoolError("x", ["a", "b"]), 3, 422, "There is no pool named 'x': the settings list a, b."),
    (errors.UnknownPoolError("x", []), 3, 422, "There is no pool named 'x': the settings list none."),
    (
        errors.MissingFileError(PATH, "active file"), 3, 503,
        "The active file /m/f.md does not exist: check the path, or name another folder with --memory-dir.",
    ),
    (
        errors.UnreadableFileError(PATH, "archive file", "Permission denied"), 3, 503,
        "The archive file /m/f.md cannot be read (Permission denied): make it readable and run again.",
    ),
    (
        errors.BusyError("index", PATH, "process 7"), 4, 503,
        "The index is in use by process 7 (lock /m/f.md): wait for it to finish and run again.",
    ),
    (errors.RefusedError(PATH, "it changed", "Run again."), 5, 409, "Refused to touch /m/f.md: it changed. Run again."),
    (
        errors.WriteFailedError(PATH, "No space left on device"), 5, 507,
        "Writing /m/f.md failed (No space left on device); no entry was lost: free the disk or fix the folder and run again.",
    ),
    (
        errors.UnknownEntryError("abc"), 3, 404,
        "No entry has the id 'abc': ids are listed by `coldspark entries` and by every recall.",
    ),
    (errors.IndexMissingError(PATH), 3, 503, "There is no index at /m/f.md: run `coldspark index`."),
]  # fmt: skip


@pytest.mark.parametrize(("error", "code", "status", "text"), CASES, ids=lambda v: type(v).__name__ if isinstance(v, Exception) else "")
def test_an_error_says_what_happened_and_what_comes_next(error: ColdsparkError, code: int, status: int, text: str) -> None:
    """Sentence, exit code and status belong to the class."""
    assert (str(error), error.exit_code, error.status) == (text, code, status)


def test_every_error_has_a_title_and_a_status_that_fits_its_exit_code() -> None:
    """Exit codes are the documented ones, and what a person got wrong is no server failure."""
    classes = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, ColdsparkError) and c is not ColdsparkError]
    assert len({c.title for c in classes}) == len(classes)
    for found in classes:
        assert found.exit_code in {1, 2, 3, 4, 5, 6}
        assert 400 <= found.status < 600
        if found.exit_code == 2:
            assert found.status == 422


def test_few_matches_of_an_id_are_listed_whole() -> None:
    """An ellipsis stands only where matches were left out."""
    assert "…" not in str(errors.AmbiguousEntryError("a", ["a1", "a2"]))
    assert "a1, a2, a3, a4…" in str(errors.AmbiguousEntryError("a", ["a1", "a2", "a3", "a4", "a5"]))
