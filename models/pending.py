"""A move that was cut short, or is going on: what stands twice for the moment, so that readers count it once.

Entries are copied before they leave the file they come from. Until that file is replaced they are still there, and the
copy, which may be torn, is no part of the memory yet.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from models.entry import Entry
from models.errors import ColdsparkError
from models.memory_file import read_bytes
from models.pool import Pool, real

JOURNAL = "journal.json"


@dataclass(frozen=True, slots=True)
class Pending:
    """Copies of the entries of these `versions` are being written into `file`, from byte `offset` on, `size` bytes of it.

    They come from `source`; both paths are real ones. Once `source` is `replaced` by its new self, they are copies no more.
    """

    source: Path
    file: Path
    offset: int
    size: int
    versions: tuple[str, ...]
    replaced: bool = False

    def without_copies(self, copied: Iterable[Entry], source: Iterable[Entry]) -> Iterator[Entry]:
        """The entries of `file` less the copies of what *source* still holds; a copy that is torn cannot be told by its version."""
        if self.replaced:
            yield from copied
            return
        left = Counter(e.version for e in source)
        whole = not Counter(self.versions) - left
        for entry in copied:
            if self.offset <= entry.start < self.offset + self.size:
                if whole:
                    continue
                if left[entry.version] > 0:
                    left[entry.version] -= 1
                    continue
            yield entry


def read_pending(pool: Pool) -> Pending | None:
    """What the pool's journal says of a move that is not finished; None when there is none, or it cannot be understood."""
    try:
        journal = json.loads(read_bytes(pool.private_dir / JOURNAL, "journal")[0])
        batch, home = journal["batch"], real(pool.memory_dir)
        place = int(batch["offset"]), int(batch["size"])
        publication = journal.get("publication")
        replaced = bool(publication) and not _is_waiting(home / publication["temp"], publication["sha256"])
        return Pending(home / journal["source"], home / batch["file"], *place, tuple(batch["versions"]), replaced)
    except (ColdsparkError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _is_waiting(temp: Path, checksum: str) -> bool:
    """Whether the source's new self still lies under its temporary name."""
    try:
        return hashlib.sha256(read_bytes(temp, "temporary file")[0]).hexdigest() == checksum
    except ColdsparkError:
        return False
