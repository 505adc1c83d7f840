"""Running a command under strace, and understanding its system calls as steps on a tree of files."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.power_loss import ROOT, Cutting, Naming, Run, Slot, Step, Sync, Tree, Writing

_CALLS = "openat,write,pwrite64,fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,mkdir,mkdirat"
_NEVER_USED = "open,creat,writev,pwritev,truncate,rmdir,symlink,symlinkat,copy_file_range,sendfile,fallocate,sync_file_range"
_LOOKS = "newfstatat,fstat"


def record(root: Path, command: Sequence[str | Path], *options: str, since: Run | None = None) -> Run:
    """Runs *command* under strace (with more *options*), and answers what it did below *root*, an absolute real path.

    *since* is what ran before and has left the tree as it is, with no loss of power since: the answer begins with it.
    Fails when the steps that were understood do not lead to what the run has left.
    """
    found, inodes = look(root)
    reader = _Reader(root, since or Run(found, [], inodes))
    log = root.parent / "strace.log"
    wanted = "trace=" + ",".join(f"?{name}" for name in f"{_CALLS},{_NEVER_USED},{_LOOKS}".split(","))  # some are not in every kernel
    given: list[str | Path] = [
        "strace",
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-v",
        "-y",
        "-xx",
        "-s",
        "10000000",
        "-e",
        wanted,
        "-o",
        log,
        *options,
        *command,
    ]
    done = subprocess.run(given, check=False, capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, done.stderr
    for line in log.read_text().splitlines():
        reader.read(line)
    assert reader.tree.content() == look(root)[0].content(), "the trace was not understood"
    return reader.run


def look(root: Path) -> tuple[Tree, dict[int, int]]:
    """What lies below *root*, and the inode number of every node."""
    tree, inodes, nodes = Tree(), {}, {root.stat().st_ino: ROOT}
    for path in sorted(root.rglob("*")):
        number = path.stat().st_ino
        node = nodes.setdefault(number, len(nodes))
        tree.names[nodes[path.parent.stat().st_ino], path.name] = node
        if path.is_file():
            tree.files[node], inodes[node] = path.read_bytes(), number
    return tree, inodes


class _Reader:
    """Understands strace's lines, one after another; `tree` is what a program would see by then."""

    def __init__(self, root: Path, run: Run) -> None:
        self.root = str(root)
        self.run = Run(run.start, list(run.steps), dict(run.inodes))
        self.tree = run.start.copy()
        self.appends: dict[str, bool] = {}
        self.places: dict[str, int] = {}
        for step in run.steps:
            self.tree.take(step)
        self.nodes = itertools.count(1 + max(self.tree.files | dict.fromkeys([ROOT, *self.tree.names.values()])))

    def read(self, line: str) -> None:
        """One call; those that failed or have nothing to do with the root count for nothing."""
        found = re.match(r"\d+ +(\w+)\((.*)\) = (\d+)", line)
        if found is None:
            assert re.search(r" = -1 E|\+\+\+|---", line), f"not understood: {line[:200]}"
            return
        name, rest, result = found.groups()
        texts = [bytes.fromhex(t.replace("\\x", "")) for t in re.findall(r'"((?:\\x[0-9a-f]{2})*)"', rest)]
        fd = re.match(r"(\d+)<([^>]*)>", rest)
        opened = bytes.fromhex(fd[2].replace("\\x", "")).decode("utf-8", "replace") if fd else ""
        names = [opened] if fd else [t.decode("utf-8", "replace") for t in texts]
        inside = [path[len(self.root) + 1 :] for path in names if f"{path}/".startswith(f"{self.root}/")]
        if inside:
            getattr(self, f"_{name}")(inside, rest, result, fd[1] if fd else "", texts)

    def _do(self, step: Step) -> None:
        self.run.steps.append(step)
        self.tree.take(step)

    def _name(self, call: str, *changes: tuple[str, int | None], needs: Sequence[tuple[str, int | None]], born: int | None = None) -> None:
        def slots(pairs: Sequence[tuple[str, int | None]]) -> tuple[tuple[Slot, int | None], ...]:
            return tuple((self.tree.slot(path), node) for path, node in pairs)

        self._do(Naming(call, slots(needs), slots(changes), born))

    def _node(self, path: str) -> int:
        node = self.tree.at(path)
        assert node is not None, path
        return node

    def _openat(self, paths: list[str], rest: str, result: str, _fd: str, _texts: list[bytes]) -> None:
        flags = rest.split(",")[2].strip().split("|")
        if "O_CREAT" in flags and self.tree.at(paths[0]) is None:
            node = next(self.nodes)
            self._name(f"create {paths[0]}", (paths[0], node), needs=[(paths[0], None)], born=node)
        if "O_TRUNC" in flags:
            self._do(Cutting(self._node(paths[0]), 0))
        self.appends[result], self.places[result] = "O_APPEND" in flags, 0

    def _write(self, paths: list[str], _rest: str, result: str, fd: str, texts: list[bytes]) -> None:
        node = self._node(paths[0])
        at = len(self.tree.files[node]) if self.appends[fd] else self.places[fd]
        self._do(Writing(node, at, texts[0][: int(result)]))
        self.places[fd] = at + int(result)

    def _pwrite64(self, paths: list[str], rest: str, result: str, _fd: str, texts: list[bytes]) -> None:
        self._do(Writing(self._node(paths[0]), int(rest.rsplit(",", 1)[1]), texts[0][: int(result)]))

    def _ftruncate(self, paths: list[str], rest: str, *_: object) -> None:
        self._do(Cutting(self._node(paths[0]), int(rest.rsplit(",", 1)[1])))

    def _fsync(self, paths: list[str], *_: object) -> None:
        self._do(Sync(self._node(paths[0]), f"fsync {paths[0] or '.'}"))

    _fdatasync = _fsync

    def _rename(self, paths: list[str], rest: str, *_: object) -> None:
        one, other = paths
        node, there = self._node(one), self.tree.at(other)
        if "RENAME_EXCHANGE" in rest:
            self._name(f"swap {one} and {other}", (one, there), (other, node), needs=[(one, node), (other, there)])
        elif node != there:
            self._name(f"rename {one} to {other}", (one, None), (other, node), needs=[(one, node)])

    _renameat = _renameat2 = _rename

    def _link(self, paths: list[str], *_: object) -> None:
        self._name(f"link {paths[0]} as {paths[1]}", (paths[1], self._node(paths[0])), needs=[(paths[1], None)])

    _linkat = _link

    def _unlink(self, paths: list[str], *_: object) -> None:
        self._name(f"unlink {paths[0]}", (paths[0], None), needs=[(paths[0], self._node(paths[0]))])

    _unlinkat = _unlink

    def _mkdir(self, paths: list[str], *_: object) -> None:
        self._name(f"mkdir {paths[0]}", (paths[0], next(self.nodes)), needs=[(paths[0], None)])

    _mkdirat = _mkdir

    def _newfstatat(self, paths: list[str], rest: str, *_: object) -> None:
        found = re.search(r"st_ino=(\d+), st_mode=S_IFREG", rest)
        if found:
            self.run.inodes[self._node(paths[0])] = int(found[1])

    _fstat = _newfstatat
