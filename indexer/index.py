"""The index in its folder: which generation is in use, and whether it fits the model and these rules.

    <state>/vectors.sqlite3               the vector cache; outlives every rebuild
    <state>/index/current                 names the generation in use
    <state>/index/<generation>/           catalog.sqlite3 and chroma/

A rebuild makes a new generation beside the one in use and then changes `current`; the old one goes when nobody uses it.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import sqlite3
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from indexer.catalog import Catalog
from indexer.embedder import Embedder
from indexer.generations import current_generation, use_generation
from indexer.homes import ServerHome
from indexer.identity import differences, identity
from indexer.opened import Index
from indexer.sync import Progress, WindowChangedError
from indexer.vectors import VectorCache
from models.errors import ForeignStoreError, IndexMissingError, ModelMissingError, StoreError, UnreadableFileError
from models.results import IndexResult
from models.snapshot import PoolSnapshot

log = logging.getLogger("coldspark")


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
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            _set_aside(path)
            log.warning("the vector cache %s is damaged (%s) and was set aside; its embeddings come back as far as possible", path, error)
            return VectorCache(path)

    def close_vectors(self) -> None:
        """Lets go of the vector cache; the next use opens, and checks, it anew."""
        if "vectors" in self.__dict__:
            self.vectors.close()
            del self.__dict__["vectors"]

    def open(self, *, create: bool) -> Index:
        """Opens the generation in use, or begins the first one. Raises IndexMissingError when there is none and *create* is false.

        One that another model, other passage rules or another format made is opened as outdated: `sync` builds a new one
        beside it. A damaged one counts as none: it comes back from the Markdown. What rebuilds that died left behind
        is removed.
        """
        self._private(self.state_dir)
        folder = current_generation(self.state_dir)
        self._sweep(folder)
        if folder is not None and (index := self._open(folder)) is not None:
            return index
        if not create:  # a damaged one too: whoever may write begins anew
            raise IndexMissingError(self.folder)
        index = self.begin()
        self.switch(index)
        self._sweep(index.folder)
        return index

    def _open(self, folder: Path) -> Index | None:
        index = None
        try:
            unclean = (folder / "catalog.sqlite3-wal").exists()  # the last owner died
            index = self._index(folder)
            index.catalog.check()
            if unclean or index.is_suspect:
                index.suspect()  # until this has passed
                index.catalog.check_texts()
                index.trust()
            index.outdated = self._mismatch(index.catalog)
        except sqlite3.DatabaseError as error:
            if index is not None:
                index.close()
            if not is_damage(error):
                raise
            log.warning("the catalog in %s is damaged (%s); it comes back from the Markdown", folder, error)
            return None
        return index

    def _mismatch(self, catalog: Catalog) -> str | None:
        """Why the generation does not fit, if it does not; the model's own absence is no mismatch."""
        try:
            wanted = identity(self.embedder, self.chroma_url)
        except ModelMissingError:
            return None
        differing = differences(wanted, {name: catalog.meta(name) for name in wanted})
        return f"{differing}; run `coldspark index`" if differing else None

    def begin(self) -> Index:
        """A new, empty generation that is not in use yet. Raises ModelMissingError."""
        made_with = identity(self.embedder, self.chroma_url)
        self._private(self.folder)
        folder = self.folder / f"g{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
        return self._index(folder, made_with)

    def _index(self, folder: Path, made_with: dict[str, str] | None = None) -> Index:
        index = Index(folder, self.vectors, self.embedder)
        for name, value in (made_with or {}).items():
            index.catalog.set_meta(name, value)
        if self.chroma_url:
            of = f"{index.catalog.meta('model')}, passage rules {index.catalog.meta('passage_rules')}"
            index.home = ServerHome(self.chroma_url, of, index.doubt)
        return index

    def sync(
        self, index: Index, snapshots: Sequence[PoolSnapshot], progress: Progress = lambda _done, _all: None, *, rebuild: bool = False
    ) -> tuple[Index, IndexResult]:
        """Brings the index in line with the Markdown; answers the one in use from now on.

        An outdated one stays in use, and answers, until its successor is built beside it. The caller closes it then. While
        a file cannot be read there is no successor, since it would lack that file's entries; nor when the vector store fails.
        """
        unread = any(isinstance(problem, UnreadableFileError) for s in snapshots for problem in s.problems)
        why = index.outdated or ("it was asked for" if rebuild else _unfit(index))
        if why is None or (unread and index.outdated is None):
            try:
                result = index.sync(snapshots, progress)
                return index, result.model_copy(update={"rebuild": why})  # which an unreadable file put off, if there is a reason
            except WindowChangedError as error:
                why = index.outdated = f"{error}; run `coldspark index`"
        if unread:
            return index, _kept(index, snapshots, why, index.degraded)
        successor = self.begin()
        try:
            result = self._build(successor, index, snapshots, progress, rebuild=rebuild)
        except BaseException:
            _discard(successor)
            raise
        if result.degraded is not None and not isinstance(successor.home.trouble, ForeignStoreError):
            _discard(successor)
            return index, _kept(index, snapshots, why, result.degraded)
        self.switch(successor)
        index.retire()
        return successor, result.model_copy(update={"rebuild": _reason(why)})

    @staticmethod
    def _build(new: Index, old: Index, snapshots: Sequence[PoolSnapshot], progress: Progress, *, rebuild: bool) -> IndexResult:
        """Fills the new generation; on a server, in collections of its own that then take the place of those in use.

        Those of somebody else's model stay, unless the rebuild was asked for; those of the new model are shared.
        """
        home = new.home
        if not isinstance(home, ServerHome):
            return new.sync(snapshots, progress)
        before = old.home.identity if isinstance(old.home, ServerHome) else None
        try:
            beside = rebuild or home.must_exchange(before)
            if beside:
                home.go_beside(new.folder.name)
            result = new.sync(snapshots, progress)
            if beside and result.degraded is None:
                home.publish(new.folder.name)
        except StoreError as error:
            return _kept(new, snapshots, "", str(error))
        return result

    def switch(self, index: Index) -> None:
        """Puts *index* in use."""
        use_generation(index.folder)

    def _sweep(self, kept: Path | None) -> None:
        """Removes the generations that are not in use; the caller holds the index lock and has none of them open."""
        if kept is None or not self.folder.is_dir():
            return
        for old in self.folder.iterdir():
            if old.is_dir() and old != kept:
                shutil.rmtree(old, ignore_errors=True)

    @staticmethod
    def _private(folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UnreadableFileError(folder, "state folder", error.strerror or str(error)) from error


def _unfit(index: Index) -> str | None:
    return index.home.unfit() if isinstance(index.home, ServerHome) else None


def _kept(index: Index, snapshots: Sequence[PoolSnapshot], why: str, degraded: str | None) -> IndexResult:
    """The result of a sync that had to leave the index as it is."""
    why = _reason(why)
    values = {"rebuild": why, "degraded": degraded, "status": "degraded", "stale": f"a new index must be built, and cannot be yet: {why}"}
    return index.unchanged(snapshots).model_copy(update=values)


def _reason(why: str) -> str:
    """Without the advice, which this very sync has followed."""
    return why.removesuffix("; run `coldspark index`")


def _discard(index: Index) -> None:
    index.retire()
    index.close()


def is_damage(error: sqlite3.Error) -> bool:
    """Whether a database failed because of what is in it, rather than for want of room, rights or time."""
    code = getattr(error, "sqlite_errorcode", None)
    harmless = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
    return not isinstance(error, sqlite3.ProgrammingError) and (code is None or code & 0xFF not in harmless)


def _checked(vectors: VectorCache) -> VectorCache:
    vectors.check()
    return vectors


def _set_aside(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        if file.exists():
            os.replace(file, file.with_name(f"{name}.damaged"))
