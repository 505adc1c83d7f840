"""What the tests of odd places share: how an action ends, every way to write to a pool, and what `doctor` says of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from compactor.checkup import check_pool
from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from models.errors import ColdsparkError
from models.pool import Pool
from models.settings import Settings
from tests.compactor_disks import NOON, request, tree

NOW = Settings(now=NOON)


class Failure(NamedTuple):
    """The exit code and the sentence with which an action ended; code 0 when it ended well."""

    code: int
    says: str


def ending(action: Callable[[], object]) -> Failure:
    """Runs *action*."""
    try:
        action()
    except ColdsparkError as error:
        return Failure(error.exit_code, str(error))
    return Failure(0, "")


def compacted(pool: Pool) -> Failure:
    """How a forced compaction ends."""
    return ending(lambda: compact(request(pool), Disk()))


def parted(pool: Pool) -> Failure:
    """How a split of the archive ends."""
    return ending(lambda: split(pool, NOW, Disk()))


def doctor_says(pool: Pool, status: str = "problem") -> list[str]:
    """What `doctor` says about the pool, of one status."""
    return [f"{check.name}: {check.message} {check.advice or ''}".rstrip() for check in check_pool(pool, NOW) if check.status == status]


def refused_untouched(pool: Pool, act: Callable[[Pool], Failure], path: Path) -> Failure:
    """Checks that *act* refuses before any write, naming *path* in a sentence, and that `doctor` names it too."""
    before = tree(pool.memory_dir.parent)
    found = act(pool)
    assert found.code in (3, 4, 5), found
    assert str(path) in found.says
    assert found.says.endswith((".", "run again", "lists them)."))
    assert tree(pool.memory_dir.parent) == before, "nothing is made, written or removed"
    told = doctor_says(pool)
    assert any(str(path) in sentence for sentence in told), told
    assert tree(pool.memory_dir.parent) == before, "doctor writes nothing"
    return found


@contextmanager
def other_file_system(here: Path) -> Iterator[Path]:
    """A folder on another file system than *here*; skips where there is none."""
    candidates = (Path("/dev/shm"), Path(tempfile.gettempdir()), Path.cwd(), Path(__file__).parent)  # noqa: S108 - a folder of its own
    others = [c for c in candidates if c.is_dir() and c.stat().st_dev != here.stat().st_dev and os.access(c, os.W_OK)]
    if not others:
        pytest.skip("there is no second file system to write to")
    with tempfile.TemporaryDirectory(dir=others[0]) as name:
        yield Path(name)


def stub(path: Path) -> None:
    """As iCloud does it: the file goes, a small hidden one comes."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.icloud").write_bytes(b"bplist00\xd4")


def hollow(path: Path) -> None:
    """As other services do it: the size stays, the content goes."""
    path.write_bytes(b"")
    os.truncate(path, 6000)
    if path.stat().st_blocks:
        pytest.skip("this file system has no sparse files")


EVICT = pytest.mark.parametrize("evict", [stub, hollow])
