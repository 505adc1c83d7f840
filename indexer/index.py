"""An index in its folder: catalog, vector store and vector cache, and whether they fit the model and these rules.

    <state>/vectors.sqlite3               the vector cache; outlives every rebuild
    <state>/index/current                 names the generation in use
    <state>/index/<generation>/           catalog.sqlite3 and chroma/

A rebuild makes a new generation beside the one in use and then changes `current`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from indexer import catalog as catalogs
from indexer.catalog import Catalog
from indexer.chroma import ChromaStore, open_embedded, open_server
from indexer.embedder import Embedder
from indexer.generations import current_generation, use_generation
from indexer.passages import PASSAGE_RULES
from indexer.search import Search
from indexer.sync import Progress, Sync, digest_of
from indexer.vectors import VectorCache
from models.errors import IndexMissingError, ModelMissingError, UnreadableFileError
from models.memory_file import state_of
from models.results import IndexResult
from models.snapshot import PoolSnapshot


class Index:
    """One generation of the index, open; the caller holds the index lock.

    `outdated` says why its vectors do not fit the present model or rules; then it answers by words alone.
    """

    def __init__(self, folder: Path, vectors: VectorCache, embedder: Embedder, chroma_url: str | None = None) -> None:
        self.folder = folder
        self.vectors = vectors
        self.embedder = embedder
        self.chroma_url = chroma_url
        self.outdated: str | None = None
        self._store: ChromaStore | None = None
        self._opening = threading.Lock()
        self.catalog = Catalog(folder / "catalog.sqlite3")

    @property
    def store(self) -> ChromaStore:
        """The vector store, opened once, when first needed: chromadb takes a second to import."""
        with self._opening:
            if self._store is None:
                self._store = open_server(self.chroma_url) if self.chroma_url else open_embedded(self.folder / "chroma")
            return self._store

    @property
    def store_is_open(self) -> bool:
        """Whether the vector store was needed yet."""
        return self._store is not None

    @cached_property
    def search(self) -> Search:
        """Recall over this index."""
        return Search(self.catalog, self.vectors, lambda: self.store, self.embedder)

    def sync(self, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None) -> IndexResult:
        """Brings the index in line with the Markdown."""
        return Sync(self.catalog, self.vectors, lambda: self.store, self.embedder, self._is_sealed).run(snapshots, progress)

    def _seal(self) -> str:
        """What the file system says of the embedded store's database; empty when there is none."""
        state = state_of(self.folder / "chroma" / "chroma.sqlite3")
        return f"{state.ino} {state.size} {state.mtime_ns}" if state and not self.chroma_url else ""

    def _is_sealed(self) -> bool:
        """Whether nobody touched the embedded store since it was closed here."""
        return not self.store_is_open and bool(self._seal()) and self._seal() == self.catalog.meta("seal")

    def matches(self, snapshots: Sequence[PoolSnapshot]) -> bool:
        """Whether the index holds just what these files say."""
        return self.catalog.meta("digest") == digest_of(snapshots)

    def close(self) -> None:
        """Lets go of all files but the vector cache."""
        if self._store is not None:
            self._store.close()
            if seal := self._seal():  # none once a successor has taken this generation's place
                self.catalog.set_meta("seal", seal)
        self.catalog.close()


class IndexFolder:
    """Where the generations lie."""

    def __init__(self, state_dir: Path, embedder: Embedder, chroma_url: str | None = None) -> None:
        self.folder = state_dir / "index"
        self.state_dir = state_dir
        self.embedder = embedder
        self.chroma_url = chroma_url

    @cached_property
    def vectors(self) -> VectorCache:
        """The vector cache; a damaged one is set aside and begun anew."""
        path = self.state_dir / "vectors.sqlite3"
        try:
            return _checked(VectorCache(path))
        except sqlite3.DatabaseError:
            _set_aside(path)
            return VectorCache(path)

    def open(self, *, create: bool) -> Index:
        """Opens the generation in use, or begins the first one. Raises IndexMissingError when there is none and *create* is false.

        One that another model, other passage rules or another format made is opened as outdated: `begin` a new one
        beside it, and `switch` once that is synced. A damaged one counts as none: it comes back from the Markdown.
        """
        self._private(self.state_dir)
        folder = current_generation(self.state_dir)
        if folder is not None and (index := self._open(folder)) is not None:
            return index
        if not create:  # a damaged one too: whoever may write begins anew
            raise IndexMissingError(self.folder)
        index = self.begin()
        self.switch(index)
        return index

    def _open(self, folder: Path) -> Index | None:
        try:
            index = Index(folder, self.vectors, self.embedder, self.chroma_url)
            index.catalog.check()
            index.outdated = self._mismatch(index.catalog)
        except sqlite3.DatabaseError:
            return None
        return index

    def _mismatch(self, catalog: Catalog) -> str | None:
        """Why the generation does not fit, if it does not; the model's own absence is no mismatch."""
        try:
            wanted = self._identity()
        except ModelMissingError:
            return None
        differing = [name for name, value in wanted.items() if catalog.meta(name) != value]
        return f"the index was made with another {' and '.join(differing)}; run `coldspark index`" if differing else None

    def begin(self) -> Index:
        """A new, empty generation that is not in use yet. Raises ModelMissingError."""
        identity = self._identity()
        self._private(self.folder)
        folder = self.folder / f"g{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        index = Index(folder, self.vectors, self.embedder, self.chroma_url)
        for name, value in identity.items():
            index.catalog.set_meta(name, value)
        if self.chroma_url:
            index.store.reset()
        return index

    def sync(
        self, index: Index, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None, *, rebuild: bool = False
    ) -> tuple[Index, IndexResult]:
        """Brings the index in line with the Markdown; answers the one in use from now on.

        An outdated one stays in use, and answers, until its successor is built beside it. The caller closes it. While a
        file cannot be read there is no successor, since it would lack that file's entries; raises that problem when only
        a successor would do.
        """
        unread = next((problem for s in snapshots for problem in s.problems if isinstance(problem, UnreadableFileError)), None)
        if index.outdated is None and (not rebuild or unread):
            return index, index.sync(snapshots, progress)
        if unread:
            raise unread
        successor = self.begin()
        result = successor.sync(snapshots, progress)
        self.switch(successor)
        return successor, result

    def switch(self, index: Index) -> None:
        """Puts *index* in use and drops the generations before it."""
        use_generation(index.folder)
        for old in self.folder.iterdir():
            if old.is_dir() and old != index.folder:
                shutil.rmtree(old, ignore_errors=True)

    def _identity(self) -> dict[str, str]:
        return {"format": catalogs.FORMAT, "passage_rules": str(PASSAGE_RULES), "model": self.embedder.fingerprint,
                "chroma_url": self.chroma_url or ""}  # fmt: skip

    @staticmethod
    def _private(folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UnreadableFileError(folder, "state folder", error.strerror or str(error)) from error


def _checked(vectors: VectorCache) -> VectorCache:
    vectors.check()
    return vectors


def _set_aside(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        if file.exists():
            os.replace(file, file.with_name(f"{name}.damaged"))
