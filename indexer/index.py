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
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from indexer import catalog as catalogs
from indexer.catalog import Catalog
from indexer.chroma import VectorStore, open_embedded, open_server
from indexer.embedder import Embedder
from indexer.passages import PASSAGE_RULES
from indexer.search import Search
from indexer.sync import Progress, Sync, digest_of
from indexer.vectors import VectorCache
from models.errors import IndexMissingError, UnreadableFileError
from models.pool import PoolSnapshot
from models.results import IndexResult


class Index:
    """One generation of the index, open; the caller holds the index lock."""

    def __init__(self, folder: Path, vectors: VectorCache, embedder: Embedder, chroma_url: str | None = None) -> None:
        self.folder = folder
        self.vectors = vectors
        self.embedder = embedder
        self.chroma_url = chroma_url
        self.catalog = Catalog(folder / "catalog.sqlite3")

    @cached_property
    def store(self) -> VectorStore:
        """The vector store, opened when first needed: chromadb takes a second to import."""
        return open_server(self.chroma_url) if self.chroma_url else open_embedded(self.folder / "chroma")

    @cached_property
    def search(self) -> Search:
        """Recall over this index."""
        return Search(self.catalog, self.vectors, lambda: self.store, self.embedder)

    def sync(self, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None) -> IndexResult:
        """Brings the index in line with the Markdown."""
        return Sync(self.catalog, self.vectors, lambda: self.store, self.embedder).run(snapshots, progress)

    def matches(self, snapshots: Sequence[PoolSnapshot]) -> bool:
        """Whether the index holds just what these files say."""
        return self.catalog.meta("digest") == digest_of(snapshots)

    def close(self) -> None:
        """Lets go of all files but the vector cache."""
        if "store" in self.__dict__:
            self.store.close()
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
        """The vector cache."""
        return VectorCache(self.state_dir / "vectors.sqlite3")

    def current(self) -> Path | None:
        """The generation in use, if any."""
        return current_generation(self.state_dir)

    def open(self, *, create: bool) -> Index:
        """Opens the generation in use, or begins one.

        One that another model, other passage rules or another format made is rebuilt by beginning anew; the vector
        cache keeps what still fits. Raises IndexMissingError when there is none and *create* is false.
        """
        self._private(self.state_dir)
        folder = self.current()
        if folder is not None and (index := self._open(folder)) is not None:
            return index
        if folder is None and not create:
            raise IndexMissingError(self.folder)
        index = self.begin()
        self.switch(index)
        return index

    def open_as_is(self) -> Index:
        """Opens the generation in use whatever made it: for answers by words when the model cannot be had."""
        folder = self.current()
        if folder is None:
            raise IndexMissingError(self.folder)
        return Index(folder, self.vectors, self.embedder, self.chroma_url)

    def begin(self) -> Index:
        """A new, empty generation that is not in use yet."""
        self._private(self.folder)
        folder = self.folder / f"g{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        index = Index(folder, self.vectors, self.embedder, self.chroma_url)
        for name, value in self._identity().items():
            index.catalog.set_meta(name, value)
        return index

    def switch(self, index: Index) -> None:
        """Puts *index* in use and drops the generations before it."""
        temp = self.folder / "current.tmp"
        temp.write_text(index.folder.name, encoding="ascii")
        os.replace(temp, self.folder / "current")
        for old in self.folder.iterdir():
            if old.is_dir() and old != index.folder:
                shutil.rmtree(old, ignore_errors=True)

    def _open(self, folder: Path) -> Index | None:
        index = Index(folder, self.vectors, self.embedder, self.chroma_url)
        if all(index.catalog.meta(name) == value for name, value in self._identity().items()):
            return index
        index.close()
        return None

    def _identity(self) -> dict[str, str]:
        return {"format": catalogs.FORMAT, "passage_rules": str(PASSAGE_RULES), "model": self.embedder.fingerprint,
                "chroma_url": self.chroma_url or ""}  # fmt: skip

    @staticmethod
    def _private(folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UnreadableFileError(folder, "state folder", error.strerror or str(error)) from error


def current_generation(state_dir: Path) -> Path | None:
    """The folder of the index in use, if any; reads only."""
    try:
        name = (state_dir / "index" / "current").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    folder = state_dir / "index" / name
    return folder if name.isalnum() and folder.is_dir() else None
