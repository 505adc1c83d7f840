"""One writer at a time, by a kernel lock that dies with its holder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.journal import Desk
from compactor.lock import held
from models.errors import BusyError, WriteFailedError
from models.pool import Pool
from tests.compactor_disks import MIXED, OLD_ARCHIVE, lay, request

HOLDER = """
import sys
from pathlib import Path
from compactor.lock import held
with held(Path(sys.argv[1]), "memory default"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_holder_is_busy_and_names_the_first(tmp_path: Path) -> None:
    """The error names the lock and the process that holds it."""
    lock = tmp_path / "lock"
    with held(lock, "memory default"), pytest.raises(BusyError) as caught, held(lock, "memory default", 0):
        pass
    assert str(caught.value) == (
        f"The memory default is in use by process {os.getpid()} (lock {lock}): wait for it to finish and run again."
    )
    assert caught.value.exit_code == 4


def test_the_lock_is_free_after_use(tmp_path: Path) -> None:
    """It can be taken again, and its file stays."""
    for _ in range(2):
        with held(tmp_path / "lock", "memory default", 0):
            pass
    assert (tmp_path / "lock").exists()


@pytest.mark.parametrize("content", [b"", b"99999999\n", b"\xff\x00 garbage"], ids=["empty", "stale", "garbled"])
def test_what_stands_in_the_lock_file_means_nothing(tmp_path: Path, content: bytes) -> None:
    """A file left by a dead or broken process does not block."""
    (tmp_path / "lock").write_bytes(content)
    with held(tmp_path / "lock", "memory default", 0):
        assert (tmp_path / "lock").read_bytes() == f"{os.getpid()}\n".encode()


def test_a_holder_without_a_process_id_is_busy_all_the_same(tmp_path: Path) -> None:
    """A holder that has not yet written its id is called another process."""
    lock = tmp_path / "lock"
    with held(lock, "index"):
        lock.write_bytes(b"")
        with pytest.raises(BusyError, match="The index is in use by another process"), held(lock, "index", 0):
            pass


def test_a_lock_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    """A folder in the lock's place is a failure to write, not a crash."""
    (tmp_path / "lock").mkdir()
    with pytest.raises(WriteFailedError), held(tmp_path / "lock", "memory default", 0):
        pass


def test_a_compaction_waits_for_no_other_process_for_ever(pool: Pool) -> None:
    """While another process holds the pool, a run ends busy with its id and changes nothing; a killed holder frees it."""
    lay(pool, archive=OLD_ARCHIVE)
    desk = Desk.of(pool)
    desk.prepare(Disk())
    root = Path(__file__).parent.parent
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(desk.lock)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"The memory default is in use by process {holder.pid} "):
            compact(request(pool), Disk(), wait_seconds=0)
        assert (pool.active.read_bytes(), pool.archive.read_bytes()) == (MIXED, OLD_ARCHIVE)
        holder.kill()
        holder.wait()
    assert compact(request(pool), Disk(), wait_seconds=0).archived == 5
