"""Looking whether an embedded vector store is whole, in a process of its own: damage can kill whoever reads it.

Run as `python -m indexer.probe FOLDER LIFELINE`; prints what it found as JSON. It ends when the pipe LIFELINE closes, so that
it never outlives whoever holds the index lock.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np

from indexer.chroma import ChromaStore, first_line, is_no_room, open_embedded
from models.errors import StoreError, StoreFullError
from models.pool import TIERS, Tier

_PAGE = 1_000
_LEAST_SECONDS = 60.0
_BYTES_PER_SECOND = 2_000_000
_ASKED = 12
"""Records of a tier that must find themselves."""
_NAME = re.compile(r".+/.+#\d+", re.DOTALL)
_OUTPUT_LIMIT = 20_000


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe says: `damage` is None for a store that is whole; with `no_room` the disk is full and nothing is known."""

    damage: str | None = None
    no_room: bool = False


def probe(folder: Path, seconds: float | None = None, interpreter: str = sys.executable) -> Finding:
    """Opens and reads the store in a child process; nobody may have it open. Waits longer the larger it is."""
    limit = seconds or _LEAST_SECONDS + _size(folder) / _BYTES_PER_SECOND
    lifeline, held = os.pipe()
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            [interpreter, "-m", "indexer.probe", str(folder.resolve()), str(lifeline)],
            cwd=Path(__file__).resolve().parents[1], stdin=subprocess.DEVNULL, capture_output=True,
            pass_fds=(lifeline,), timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Finding(f"it could not be read within {limit:.0f} seconds")
    except OSError as error:
        return Finding(no_room=True) if is_no_room(str(error)) else Finding(f"no process to check it could be started: {error}")
    finally:
        os.close(lifeline)
        os.close(held)
    return _finding(done.returncode, done.stdout[:_OUTPUT_LIMIT])


def _finding(code: int, output: bytes) -> Finding:
    if code < 0:
        return Finding(f"the process that read it was killed by signal {-code}")
    try:
        told = json.loads(output)
        damage, no_room = told["damage"], told["no_room"]
    except (ValueError, TypeError, KeyError):
        return Finding(f"the process that read it ended with code {code} and without a report")
    if not isinstance(no_room, bool) or not isinstance(damage, str | None):
        return Finding("the process that read it gave a report that makes no sense")
    return Finding(damage, no_room)


def _size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


def examine(folder: Path) -> Finding:
    """Reads the store in this process."""
    try:
        _check_database(folder / "chroma.sqlite3")
        store = open_embedded(folder)
        problems = [problem for tier in TIERS for problem in _problems(store, tier)]
        store.close()
    except StoreFullError:
        return Finding(no_room=True)
    except (StoreError, sqlite3.Error, ValueError) as error:
        return Finding(no_room=True) if is_no_room(str(error)) else Finding(getattr(error, "reason", first_line(error)))
    return Finding(problems[0] if problems else None)


def _check_database(path: Path) -> None:
    if not path.is_file():
        return
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=30)) as db:
        (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _problems(store: ChromaStore, tier: Tier) -> Iterator[str]:
    count = store.count(tier)
    names = sorted(store.ids(tier))
    if len(names) != count:
        yield f"it counts {count} records and names {len(names)}"
    if odd := [name for name in names if not _NAME.fullmatch(name)]:
        yield f"the record {odd[0]!r} has no name of ours"
    asked = set(names[:: max(1, len(names) // _ASKED)])
    lost = 0
    for i in range(0, len(names), _PAGE):
        part = names[i : i + _PAGE]
        vectors = store.vectors(tier, part)
        if len(vectors) != len(part):
            yield f"{len(part) - len(vectors)} records have no vector"
        lengths = np.linalg.norm(np.stack(list(vectors.values())), axis=1)
        if not np.all(np.abs(lengths - 1) < 0.01):
            yield "it holds vectors that are not of unit length"
        for name in asked.intersection(vectors):
            nearest = store.query(tier, vectors[name], min(10, count))
            lost += len(nearest) < min(10, count) or nearest[0][1] < 0.99
    if lost > len(asked) // 3:
        yield f"{lost} of {len(asked)} records do not find themselves"


def _end_with(lifeline: int) -> None:
    os.read(lifeline, 1)
    os._exit(1)


def main(folder: str, lifeline: int) -> None:
    """Prints what is found in *folder*."""
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    finding = examine(Path(folder))
    sys.stdout.write(json.dumps({"damage": finding.damage, "no_room": finding.no_room}))
    sys.stdout.flush()
    os._exit(0)  # whatever the native part would do on its way out is of no interest


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
