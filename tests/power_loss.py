"""The disks that a power loss may leave of a run, made from the steps it took.

The file system is assumed to be weaker than any of today's, yet to keep its word:

- What was written to a file is safe once the file is synced. Until then it may be missing, end at a sector's border, or have NULs
  where a sector, all before it or all behind it never came. A cut to a smaller size is done or not.
- Changes to names are safe once every folder they are in is synced. Until then each may be missing, whatever its neighbours
  did, as long as those that are left make sense one after another. Every change is whole or missing: a swap, a replacement.
- To sync a file does nothing for its name. Without a safe name, a file is gone.

What is unsafe only grows between two syncs, and whatever a loss leaves at any moment, it may leave at a later one, too, since
all that came in between may be missing. So nothing is left out by looking only right before each sync, and behind the last.
"""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

SECTOR = 512
ROOT = 0

Slot = tuple[int, str]
"""A folder's node and a name in it."""


@dataclass(frozen=True)
class Naming:
    """A change to names that happens whole or not at all: what must be there before, what is there afterwards, which file is new."""

    call: str
    needs: tuple[tuple[Slot, int | None], ...]
    sets: tuple[tuple[Slot, int | None], ...]
    born: int | None = None

    @property
    def slots(self) -> set[Slot]:
        """Every name it touches."""
        return {slot for slot, _ in self.sets}

    def fits(self, names: Mapping[Slot, int]) -> bool:
        """Whether it makes sense there."""
        return all(names.get(slot) == node for slot, node in self.needs)

    def apply(self, names: dict[Slot, int]) -> None:
        """Does it."""
        for slot, node in self.sets:
            if node is None:
                names.pop(slot, None)
            else:
                names[slot] = node


@dataclass(frozen=True)
class Writing:
    """Bytes that come to stand somewhere in a file."""

    node: int
    at: int
    data: bytes

    def after(self, before: bytes) -> bytes:
        """The file with them."""
        return before[: self.at].ljust(self.at, b"\0") + self.data + before[self.at + len(self.data) :]

    def torn(self, before: bytes) -> Iterator[bytes]:
        """The file when it was only partly written."""
        whole, old = self.after(before), len(before)
        borders = [max(old, border) for border in range(old - old % SECTOR, len(whole), SECTOR)] + [len(whole)]
        for cut, end in itertools.pairwise(borders):
            yield whole[:cut]
            yield whole[:cut].ljust(len(whole), b"\0")
            yield whole[:old].ljust(end, b"\0") + whole[end:]
            yield whole[:cut].ljust(end, b"\0") + whole[end:]


@dataclass(frozen=True)
class Cutting:
    """A file's new, smaller size."""

    node: int
    size: int

    def after(self, before: bytes) -> bytes:
        """The file with it."""
        return before[: self.size]

    def torn(self, _before: bytes) -> Iterator[bytes]:
        """A size is there or not."""
        yield from ()


@dataclass(frozen=True)
class Sync:
    """All of a file's bytes, or of a folder's names, become safe."""

    node: int
    call: str


Step = Naming | Writing | Cutting | Sync


@dataclass
class Tree:
    """Names and bytes below one folder; a node that has no bytes is a folder."""

    names: dict[Slot, int] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)

    def copy(self) -> Tree:
        """Another one that changes by itself."""
        return Tree(dict(self.names), dict(self.files))

    def take(self, step: Step) -> None:
        """Becomes what a program sees behind the step; what is safe makes no difference to that."""
        match step:
            case Naming():
                assert step.fits(self.names), step
                step.apply(self.names)
                if step.born is not None:
                    self.files[step.born] = b""
            case Writing() | Cutting():
                self.files[step.node] = step.after(self.files[step.node])
            case Sync():
                pass

    def paths(self, folder: int = ROOT, above: str = "") -> Iterator[tuple[str, int]]:
        """Every path that can be reached, a folder's before those in it, and the node found there."""
        for (parent, name), node in sorted(self.names.items()):
            if parent == folder:
                yield above + name, node
                if node not in self.files:
                    yield from self.paths(node, f"{above}{name}/")

    def content(self) -> dict[str, bytes | None]:
        """The bytes at every path, None for a folder."""
        return {path: self.files.get(node) for path, node in self.paths()}

    def slot(self, path: str) -> Slot:
        """Folder and name of a path."""
        *folders, name = path.split("/")
        node = ROOT
        for folder in folders:
            node = self.names[node, folder]
        return node, name

    def at(self, path: str) -> int | None:
        """The node at a path."""
        return ROOT if path == "" else self.names.get(self.slot(path))


@dataclass
class Run:
    """What a run found, and what it did, step by step; `inodes` are the numbers by which it knew the nodes."""

    start: Tree
    steps: list[Step] = field(default_factory=list)
    inodes: dict[int, int] = field(default_factory=dict)

    def without(self, call: str) -> Run:
        """The same run, had it left out every sync of this *call*."""
        return Run(self.start, [s for s in self.steps if not (isinstance(s, Sync) and s.call == call)], self.inodes)

    def killed(self, count: int, root: Path) -> Run:
        """The run, had it been killed behind so many steps; *root* becomes what it has left there for other programs to see."""
        tree = self.start.copy()
        for step in self.steps[:count]:
            tree.take(step)
        numbers = _lay(tree, self.inodes, root)
        start = Tree(self.start.names, {node: _renumbered(data, numbers) for node, data in self.start.files.items()})
        steps = [replace(s, data=_renumbered(s.data, numbers)) if isinstance(s, Writing) else s for s in self.steps[:count]]
        return Run(start, steps, {node: numbers.get(number, number) for node, number in self.inodes.items()})


@dataclass(frozen=True)
class Loss:
    """A disk that a power loss may leave, and how it came about."""

    story: str
    tree: Tree
    inodes: Mapping[int, int]

    def lay(self, root: Path) -> None:
        """Empties *root* and makes it that disk."""
        _lay(self.tree, self.inodes, root)


def _lay(tree: Tree, inodes: Mapping[int, int], root: Path) -> dict[int, int]:
    """Empties *root* and makes it the tree. Files get new inode numbers, in place of those in *inodes*: answers which."""
    shutil.rmtree(root)
    root.mkdir()
    first: dict[int, Path] = {}
    for name, node in tree.paths():
        path = root / name
        if node not in tree.files:
            path.mkdir(mode=0o700)
        elif node in first:
            path.hardlink_to(first[node])
        else:
            first[node] = path
            path.touch()
    numbers = {inodes[node]: path.stat().st_ino for node, path in first.items() if node in inodes}
    for node, path in first.items():
        path.write_bytes(_renumbered(tree.files[node], numbers))
    return numbers


def _renumbered(data: bytes, numbers: Mapping[int, int]) -> bytes:
    """What a run wrote down of files, had they had other inode numbers."""
    return re.sub(rb'(?<="ino": )\d+', lambda found: b"%d" % numbers.get(int(found[0]), int(found[0])), data)


def losses(run: Run, meaningless: frozenset[str] = frozenset()) -> Iterator[Loss]:
    """Every disk that a loss of power during *run*, or right behind it, may leave; each one once.

    Files at the *meaningless* paths, whose bytes nobody reads, always have the last ones written.
    """
    seen: set[frozenset[tuple[str, int, bytes | None]]] = set()
    disk = _Disk(run.start.copy())
    for step in (*run.steps, None):
        if step is None or isinstance(step, Sync):
            moment = f"before {step.call}" if step else "behind the run"
            for story, tree in disk.left(meaningless):
                key = frozenset((path, node, tree.files.get(node)) for path, node in tree.paths())
                if key not in seen:
                    seen.add(key)
                    yield Loss(f"{moment}: {story}", tree, run.inodes)
        if step is not None:
            disk.take(step)


@dataclass
class _Disk:
    """What is safe, and what is not yet: changes to names, each with the folders that are still to be synced, and to bytes."""

    safe: Tree
    names: list[tuple[Naming, set[int]]] = field(default_factory=list)
    data: dict[int, list[Writing | Cutting]] = field(default_factory=dict)

    def take(self, step: Step) -> None:
        match step:
            case Naming():
                self.names.append((step, {folder for folder, _ in step.slots}))
                if step.born is not None:
                    self.safe.files[step.born] = b""
            case Writing() | Cutting():
                self.data.setdefault(step.node, []).append(step)
            case Sync():
                self._sync(step.node)

    def _sync(self, node: int) -> None:
        for change in self.data.pop(node, []):
            self.safe.files[node] = change.after(self.safe.files[node])
        settled: list[Naming] = []
        for naming, folders in reversed(self.names):
            folders.discard(node)
            if not folders or any(naming.slots & later.slots for later in settled):  # a safe change builds upon safe ones
                settled.insert(0, naming)
        for naming in settled:
            naming.apply(self.safe.names)
        self.names = [(naming, folders) for naming, folders in self.names if naming not in settled]

    def left(self, meaningless: frozenset[str]) -> Iterator[tuple[str, Tree]]:
        """Every mixture of what is unsafe and got through, with what is missing of it in words."""
        for kept in itertools.product((True, False), repeat=len(self.names)):
            tree, missing = self.safe.copy(), []
            fits = True
            for (naming, _), keep in zip(self.names, kept, strict=True):
                if keep:
                    fits = fits and naming.fits(tree.names)
                    naming.apply(tree.names)
                else:
                    missing.append(naming.call)
            if fits:
                yield from self._mixed(tree, missing, meaningless)

    def _mixed(self, tree: Tree, missing: Sequence[str], meaningless: frozenset[str]) -> Iterator[tuple[str, Tree]]:
        unsafe = {node: path for path, node in tree.paths() if self.data.get(node)}
        versions = [_versions(self.safe.files[node], self.data[node])[-1 if path in meaningless else 0 :] for node, path in unsafe.items()]
        for choice in itertools.product(*versions):
            mixed = Tree(tree.names, tree.files | dict(zip(unsafe, (found for _, found in choice), strict=True)))
            torn = [f"{path} {how}" for path, (how, _) in zip(unsafe.values(), choice, strict=True)]
            yield f"without [{'; '.join(missing)}], with [{'; '.join(torn)}]", mixed


def _versions(before: bytes, changes: Iterable[Writing | Cutting]) -> list[tuple[str, bytes]]:
    found = {before: "as before"}
    for change in changes:
        for torn in change.torn(before):
            found.setdefault(torn, f"torn ({len(torn)} bytes, {torn.count(0)} NULs)")
        before = change.after(before)
        found.setdefault(before, f"written ({len(before)} bytes)")
    return [(how, data) for data, how in found.items()]
