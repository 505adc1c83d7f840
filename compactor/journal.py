"""The journal: what a run was about to do, so that the next one can finish or undo it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from compactor.durable import Disk
from models.errors import RefusedError
from models.memory_file import read_bytes
from models.pool import Pool


class BatchRecord(BaseModel):
    """A batch as appended to the archive: where, how long, its checksum, and the versions of its entries in order."""

    model_config = ConfigDict(frozen=True)

    file: Path
    existed: bool
    offset: int
    size: int
    sha256: str
    date: str
    versions: tuple[str, ...]


class Publication(BaseModel):
    """A new active file, fully on disk under `temp`, about to take the active file's place.

    It has happened exactly when the file (`dev`, `ino`) is no longer found under `temp`. `credits` are snapshots whose
    late appends the new file contains, with the names that say so.
    """

    model_config = ConfigDict(frozen=True)

    temp: Path
    dev: int
    ino: int
    size: int
    snapshot: Path
    credits: tuple[tuple[Path, Path], ...]


class Journal(BaseModel):
    """One run in progress. A `batch` without a `publication` is still being archived."""

    model_config = ConfigDict(frozen=True)

    format: int = 1
    run: str
    active: Path
    batch: BatchRecord | None = None
    publication: Publication | None = None

    @property
    def temp(self) -> Path:
        """Where this run writes the new active file: beside the old one."""
        return self.active.with_name(f".{self.active.name}.{self.run}.tmp")


@dataclass(frozen=True)
class Desk:
    """The private folder of a pool: lock, journal, batch checksums, snapshots of replaced files."""

    folder: Path
    snapshots: Path

    @classmethod
    def of(cls, pool: Pool) -> Desk:
        """Snapshots lie beside the real active file, since a hard link cannot leave its file system."""
        return cls(pool.memory_dir / ".coldspark", pool.active.resolve().parent / ".coldspark" / "replaced")

    @property
    def lock(self) -> Path:
        """The pool's writer lock."""
        return self.folder / "lock"

    @property
    def journal(self) -> Path:
        """The run in progress."""
        return self.folder / "journal.json"

    @property
    def batches(self) -> Path:
        """One line per batch ever written."""
        return self.folder / "batches.jsonl"

    def prepare(self, disk: Disk) -> None:
        """Creates the folders."""
        disk.make_folder(self.folder)
        disk.make_folder(self.snapshots)

    def read(self) -> Journal | None:
        """The journal of an unfinished run. Raises RefusedError when it cannot be understood."""
        if not self.journal.exists():
            return None
        data, _ = read_bytes(self.journal, "journal")
        try:
            journal = Journal.model_validate(json.loads(data))
        except ValueError as error:  # pydantic's errors are ValueErrors too
            advice = "Compare both tiers with a backup, then remove that file and run again."
            raise RefusedError(self.journal, "the journal of an unfinished run is damaged", advice) from error
        if journal.format != Journal.model_fields["format"].default:
            raise RefusedError(self.journal, "a newer Coldspark left an unfinished run", "Finish it with that version.")
        return journal

    def write(self, disk: Disk, journal: Journal) -> None:
        """Makes *journal* the state on record, atomically and durably."""
        temp = self.folder / "journal.tmp"
        disk.remove(temp)
        # The plain encoder escapes the lone surrogates by which a path that is not UTF-8 is spelt.
        disk.write_new(temp, json.dumps(journal.model_dump(), default=str).encode())
        disk.replace(temp, self.journal)
        disk.sync_folder(self.folder)

    def close(self, disk: Disk) -> None:
        """Ends the run."""
        disk.remove(self.folder / "journal.tmp")
        disk.remove(self.journal)
        disk.sync_folder(self.folder)
