"""One index run as a process that a test may kill: `python -m tests.index_runs MEMORY STATE` prints the result as JSON.

It embeds without a model, and says so on stderr, one line a batch.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from models.settings import Settings
from service.local import LocalBackend
from service.owner import owned
from tests.fakes import FakeEmbedder

if TYPE_CHECKING:
    from indexer.embedder import Vectors


class QuickEmbedder(FakeEmbedder):
    """Embeds a text as one random direction of its own."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Embeds, and says how many."""
        self.embedded += texts
        sys.stderr.write(f"{len(self.embedded)}\n")
        sys.stderr.flush()
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """A direction of the whole text's own."""
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        vector = np.random.default_rng(seed).normal(size=32)
        unit: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
        return unit


def backend(memory: Path, state: Path) -> LocalBackend:
    """The index in these folders, without a model."""
    return LocalBackend(Settings.model_validate({"memory_dir": memory, "state_dir": state}), QuickEmbedder())


def start(memory: Path, state: Path) -> subprocess.Popen[str]:
    """Starts a run."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.index_runs", str(memory), str(state)],
        cwd=Path(__file__).parents[1], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def main(memory: Path, state: Path) -> None:
    """Waits for the lock, syncs, prints."""
    with owned(state, 60):
        local = backend(memory, state)
        result = local.sync()
        local.close()
    sys.stdout.write(result.model_dump_json())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
