"""Compactions without a pause beside programs that write the active file all the time."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from compactor.compact import compact
from compactor.durable import Disk
from models.errors import RefusedError
from models.pool import Pool
from tests.compactor_disks import everywhere, litter, request
from tests.compactor_processes import COMPACT, new_pool, run
from tests.samples import HEADER, delve
from tests.service_support import until

WRITERS, ENTRIES, EDITS = 8, 250, 150

# Appends entries in bursts; every tenth through a descriptor that was opened before the file was replaced, as a mark says.
APPENDER = """
import os, sys, time
from pathlib import Path
from tests.test_compactor_writers import ENTRIES, entry
active, mark, writer = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
for n in range(ENTRIES):
    held = n % 10 == writer
    if held:
        mark.touch()
    file = os.open(active, os.O_WRONLY | os.O_APPEND)
    deadline = time.monotonic() + 1
    while held and os.fstat(file).st_ino == active.stat().st_ino and time.monotonic() < deadline:
        time.sleep(0.001)
    os.write(file, b"\\n" + entry(writer, n))
    os.close(file)
    mark.unlink(missing_ok=True)
    if n % 10 == 9:
        time.sleep(0.15)
"""

# Saves the whole text and one entry more, again and again, by renaming a new file onto it.
EDITOR = """
import sys, time
from pathlib import Path
from tests.test_compactor_writers import EDITS, entry
active, temp = Path(sys.argv[1]), Path(sys.argv[2])
for n in range(EDITS):
    temp.write_bytes(active.read_bytes() + b"\\n" + entry(0, n))
    temp.rename(active)
    time.sleep(0.02)
"""


def entry(writer: int, n: int) -> bytes:
    """The n-th entry of a writer; every fourth moves as soon as it is seen."""
    title = f"Writer {writer}, entry {n}"
    return delve(title, "2026-05-01") if n % 4 == 0 else delve(title, "2026-06-14", f"absorb -- {'x' * (n * 7 % 300)}")


def _started(script: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", script, *map(str, arguments)], cwd=Path(__file__).parent.parent)


def _is_gone(path: Path) -> bool:
    return not path.exists()


def _compact_while(pool: Pool, programs: list[subprocess.Popen[bytes]], between: Callable[[], None]) -> int:
    """Compacts until all *programs* have ended well, every eighth time by the command; answers how many runs moved something."""
    moved = count = 0
    while any(program.poll() is None for program in programs):
        between()
        count += 1
        if count % 8 == 0:
            assert run(pool, *COMPACT).returncode in {0, 5}
        else:
            with suppress(RefusedError):  # the file would not hold still
                moved += compact(request(pool), Disk()).archived > 0
    assert [program.returncode for program in programs] == [0] * len(programs)
    for _ in range(2):
        assert run(pool, *COMPACT).returncode == 0
    return moved


def test_what_many_programs_append_meanwhile_is_all_there_once(tmp_path: Path) -> None:
    """2,000 entries of eight writers, some through descriptors that outlive the file's replacement, stand once each and whole."""
    pool = new_pool(tmp_path, HEADER, None)
    marks = {tmp_path / f"held-{n}": 0 for n in range(WRITERS)}

    def wait_for_holders() -> None:
        """Replaced files are looked after for a few runs only, so nobody may hold one longer."""
        for mark, runs in marks.items():
            marks[mark] = runs + 1 if mark.exists() else 0
            if marks[mark] > 2:
                until(partial(_is_gone, mark))

    writers = [_started(APPENDER, pool.active, mark, n) for n, mark in enumerate(marks)]
    moved = _compact_while(pool, writers, wait_for_holders)
    written = Counter(entry(w, n).rstrip(b"\n") for w in range(WRITERS) for n in range(ENTRIES))
    found = everywhere(pool)
    assert (written - found, found - written) == (Counter(), Counter())
    assert litter(pool) == set()
    assert moved > 5


def test_an_editor_that_saves_all_the_time_loses_no_entry(tmp_path: Path) -> None:
    """An editor that saves an old text over a compacted file brings moved entries back, but none is ever lost."""
    pool = new_pool(tmp_path, HEADER, None)
    moved = _compact_while(pool, [_started(EDITOR, pool.active, pool.memory_dir / ".editor")], lambda: None)
    written = Counter(entry(0, n).rstrip(b"\n") for n in range(EDITS))
    assert written - everywhere(pool) == Counter()
    assert litter(pool) == set()
    assert moved > 0
