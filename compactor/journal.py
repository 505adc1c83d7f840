"""The journal: what a run was about to do, so that the next one can finish or undo it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, FieldSerializationInfo, PlainSerializer, ValidationInfo

from compactor.durable import Disk
from models.errors import RefusedError
from models.memory_file import read_bytes
from models.pending import JOURNAL
from models.pool import Pool, real


def _from_home(path: Any, info: ValidationInfo) -> Any:
    return info.context / path if info.context and isinstance(path, str) else path


def _to_home(path: Path, info: FieldSerializationInfo) -> Path:
    return path.relative_to(info.context) if info.context and path.is_relative_to(info.context) else path


HomePath = Annotated[Path, BeforeValidator(_from_home), PlainSerializer(_to_home)]
"""A path that is written relative to the memory folder while it lies in it."""


class BatchRecord(BaseModel):
    """A batch as appended to the archive: where, how long, its checksum, and the versions of its entries in order.

    `heading` is where in it the heading stands, `checksum` the sha256 from there on.
    """

    model_config = ConfigDict(frozen=True)

    file: HomePath
    existed: bool
    offset: int
    size: int
    sha256: str
    heading: int
    checksum: str
    date: str
    versions: tuple[str, ...]


class Publication(BaseModel):
    """A new active file, fully on disk under `temp`, about to take the active file's place.

    It has happened exactly when that file, known by `dev` and `ino` or, in a copied folder, by its `sha256`, is no longer
    found under `temp`. `credits` are snapshots whose
    late appends the new file contains, with the names that say so.
    """

    model_config = ConfigDict(frozen=True)

    temp: HomePath
    dev: int
    ino: int
    size: int
    sha256: str
    snapshot: HomePath
    credits: tuple[tuple[HomePath, HomePath], ...]


class Journal(BaseModel):
    """One run in progress: a batch of entries goes from `source` to another file, or late text comes back to `source`.

    A `batch` without a `publication` is still being written. Entries that go from the archive to a shard are of one
    `quarter`, and stand in the byte `ranges` of it; without a quarter, the source is the active file.
    """

    model_config = ConfigDict(frozen=True)

    format: int = 2
    run: str
    source: HomePath
    batch: BatchRecord | None = None
    publication: Publication | None = None
    quarter: str | None = None
    ranges: tuple[tuple[int, int], ...] = ()

    @property
    def temp(self) -> Path:
        """Where this run writes the source's new self: beside the old one."""
        return self.source.with_name(f".{self.source.name}.{self.run}.tmp")


@dataclass(frozen=True)
class Desk:
    """The private folder of a pool, and the one of its files that is to be replaced.

    `folder` holds lock, journal and batch checksums; `snapshots`, what `source` was before.
    """

    folder: Path
    source: Path
    snapshots: Path

    @classmethod
    def of(cls, pool: Pool) -> Desk:
        """For replacing the active file."""
        return cls._beside(pool, pool.active, "replaced")

    @classmethod
    def of_archive(cls, pool: Pool) -> Desk:
        """For replacing the archive, whose batches go to shards."""
        return cls._beside(pool, pool.archive, "replaced-archive")

    @classmethod
    def _beside(cls, pool: Pool, path: Path, name: str) -> Desk:
        """Snapshots lie beside the real file, since neither a link nor a swap can leave its file system."""
        source = real(path)
        return cls(pool.private_dir, source, source.parent / pool.private_dir.name / name)

    @property
    def lock(self) -> Path:
        """The pool's writer lock."""
        return self.folder / "lock"

    @property
    def journal(self) -> Path:
        """The run in progress."""
        return self.folder / JOURNAL

    @property
    def batches(self) -> Path:
        """One line per batch ever written."""
        return self.folder / "batches.jsonl"

    def prepare(self, disk: Disk) -> None:
        """Creates the folders."""
        disk.make_folder(self.folder)
        disk.make_folder(self.snapshots)
        for folder in dict.fromkeys((self.folder, self.snapshots)):  # a run that was killed may not have come to it
            disk.sync_folder(folder.parent)

    def read(self) -> Journal | None:
        """The journal of an unfinished run. Raises RefusedError when it cannot be understood."""
        if not self.journal.exists():
            return None
        data, _ = read_bytes(self.journal, "journal")
        try:
            found = json.loads(data)
            known = Journal.model_fields["format"].default
            if isinstance(found["format"], int) and found["format"] != known:
                raise RefusedError(self.journal, "another version of Coldspark left an unfinished run", "Finish it with that version.")
            return Journal.model_validate(found, context=self._home)
        except (ValueError, TypeError, KeyError) as error:  # pydantic's errors are ValueErrors too
            advice = "Compare both tiers with a backup, then remove that file and run again."
            raise RefusedError(self.journal, "the journal of an unfinished run is damaged", advice) from error

    def write(self, disk: Disk, journal: Journal) -> None:
        """Makes *journal* the state on record, atomically and durably."""
        temp = self.folder / "journal.tmp"
        disk.remove(temp)
        # The plain encoder escapes the lone surrogates by which a path that is not UTF-8 is spelt.
        disk.write_new(temp, json.dumps(journal.model_dump(context=self._home), default=str).encode())
        disk.replace(temp, self.journal)
        disk.sync_folder(self.folder)

    @property
    def _home(self) -> Path:
        """The memory folder, which may be moved, or copied elsewhere, before an unfinished run is settled."""
        return real(self.folder.parent)

    def close(self, disk: Disk) -> None:
        """Ends the run."""
        disk.remove(self.folder / "journal.tmp")
        disk.remove(self.journal)
        disk.sync_folder(self.folder)
