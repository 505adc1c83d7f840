"""`make bench`: how long things take beside the bare work that they contain, and how well recall finds.

    python -m benchmarks.run [--collections FOLDER] [--passages N ...]

Every row of times is a ratio of two medians of the same run, e.g. a compaction beside a plain copy with fsync of the same
bytes. The quality table needs the public collections that `benchmarks.collections` describes.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import quality, scale
from compactor.compact import compact
from compactor.durable import Disk
from compactor.survey import Request
from examples.make_pool import TODAY, build
from indexer.embedder import Embedder, find_embedder
from indexer.index import IndexFolder
from indexer.passages import cut
from models.pool import Pool
from models.query import RecallRequest
from models.settings import BUNDLED_MODEL, Settings
from models.snapshot import read_pool

COMMAND = str(Path(sys.executable).with_name("coldspark"))
QUESTIONS = [f"why do caches behave like kilns, take {i}" for i in range(30)]


def median(work: Callable[[], object], times: int) -> float:
    """Median seconds of *times* runs."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def row(what: str, seconds: float, beside: str, bare: float) -> None:
    """One line of the table."""
    print(f"{what:<38} {seconds * 1000:>10.1f} ms   {seconds / bare:>6.2f} x   {beside} ({bare * 1000:.1f} ms)", flush=True)


def start_up() -> None:
    """Commands beside a bare interpreter that imports pydantic."""
    bare = median(lambda: subprocess.run([sys.executable, "-c", "import pydantic, json, pathlib, argparse"], check=True), 7)
    helped = median(lambda: subprocess.run([COMMAND, "--help"], check=True, stdout=subprocess.DEVNULL), 7)
    row("coldspark --help", helped, "bare interpreter with pydantic", bare)


def compaction(copies: int) -> float:
    """A compaction beside a plain copy with fsync of the same file; answers the median seconds for an entry."""
    times, copied, entries = [], [], 0
    for _ in range(3):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            build(folder, copies)
            pool = Pool("bench", folder / "memory", folder / "knowledge")
            copied.append(median(functools.partial(plain_copy, pool.active, folder / "copy"), 3))
            began = time.perf_counter()
            result = compact(Request(pool, Settings(), TODAY), Disk())
            times.append(time.perf_counter() - began)
            entries = result.archived + result.kept
    row(f"compact {entries:,} entries", statistics.median(times), "plain copy with fsync", statistics.median(copied))
    return statistics.median(times) / entries


def plain_copy(path: Path, to: Path) -> None:
    """The least that a durable copy costs."""
    with to.open("wb") as file:
        file.write(path.read_bytes())
        os.fsync(file.fileno())


def index_and_recall(embedder: Embedder) -> None:
    """A first sync beside bare encoding of the same passages; a recall beside embedding its query."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        snapshot = read_pool(Pool("bench", folder / "memory", folder / "knowledge"))
        texts = [p.text for placed in snapshot.entries for p in cut(placed.entry, embedder)]
        index = IndexFolder(folder / "state", embedder).open(create=True)
        index.home.store_to_sync()  # importing chromadb, once a process, is no part of the throughput
        synced = median(lambda: index.sync([snapshot]), 1)
        bare = median(lambda: embedder.embed_passages(sorted(texts, key=len)), 1)
        row(f"first sync, {len(texts)} passages", synced, "bare encode", bare)
        row("unchanged sync", median(lambda: index.sync([snapshot]), 5), "bare encode", bare)
        asked = iter(QUESTIONS * 2)
        recall = median(lambda: index.search.recall(RecallRequest(query=next(asked), text="none")), len(QUESTIONS))
        query = median(lambda: embedder.embed_query(next(asked)), len(QUESTIONS))
        row("recall", recall, "embedding its query", query)
        index.close()


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=Path, help="Folder of the collections that recall quality is measured on.")
    parser.add_argument("--passages", type=int, nargs="*", default=[10_000], help="Sizes of the index for recall with filters.")
    given = parser.parse_args()
    start_up()
    compaction(1)
    small, large, largest = compaction(6), compaction(60), compaction(300)
    print(f"{'growth':<38} 10 times the entries take {10 * large / small:.1f} times the time, 50 times take {50 * largest / small:.1f}")
    embedder = find_embedder(BUNDLED_MODEL)
    embedder.load()
    index_and_recall(embedder)
    for count in given.passages:
        scale.table(count)
    if given.collections:
        quality.table(given.collections, embedder)


if __name__ == "__main__":
    main()
