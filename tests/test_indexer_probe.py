"""The probe: damage kills a child, and the parent learns of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from indexer.chroma import Metadata, Record, open_embedded
from indexer.probe import Finding, probe

_METADATA: Metadata = {"pool": "p", "tier": "active", "entry": "e", "kind": "", "tags": [""], "verdict": "", "signal": "", "date": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound store with more records than Chroma keeps out of its files."""
    store = open_embedded(tmp_path / "chroma")
    vectors = np.random.default_rng(5).normal(size=(1_200, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store.upsert("active", [Record(f"p/{n}#0", vector, _METADATA, "text") for n, vector in enumerate(vectors)])
    store.close()
    return tmp_path / "chroma"


def part(folder: Path, name: str) -> Path:
    """The one file of this name in the store."""
    (found,) = folder.rglob(name)
    return found


def test_a_sound_store_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is wrong with it, also under an environment that holds next to nothing, and in another working folder."""
    assert probe(folder) == Finding()
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.chdir("/")
    assert probe(folder) == Finding()


def test_an_empty_store_passes(tmp_path: Path) -> None:
    """Nothing in it is no damage."""
    (tmp_path / "chroma").mkdir()
    assert probe(tmp_path / "chroma") == Finding()


@pytest.mark.parametrize(
    ("name", "cut", "damage"),
    [
        ("chroma.sqlite3", "garbage", "file is not a database"),
        ("chroma.sqlite3", "half", "database disk image is malformed"),
        ("header.bin", "half", "the process that read it was killed by signal 11"),
        ("index_metadata.pickle", "garbage", "Error executing plan"),
        ("data_level0.bin", "half", "Error executing plan"),
        ("data_level0.bin", "gone", "Error executing plan"),
    ],
)
def test_damage_is_found(folder: Path, name: str, cut: str, damage: str) -> None:
    """Whether Chroma reports it or dies of it, the probe says in words what happened."""
    path = part(folder, name)
    data = path.read_bytes()
    path.unlink()
    if cut != "gone":
        path.write_bytes({"garbage": b"\x93 no such thing " * 200, "half": data[: len(data) // 2]}[cut])
    found = probe(folder).damage
    assert found is not None
    assert found.startswith(damage)


def test_vectors_that_are_spoilt_are_found(folder: Path) -> None:
    """Chroma reads bytes that were exchanged within its file without a word; the vectors' lengths tell."""
    path = part(folder, "data_level0.bin")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4_096] = b"\x7e" * 4_096
    path.write_bytes(data)
    assert probe(folder).damage is not None


def test_records_of_no_name_of_ours_are_damage(tmp_path: Path) -> None:
    """A store that somebody else filled is not taken for ours."""
    store = open_embedded(tmp_path / "chroma")
    store.upsert("archive", [Record("whatever", np.eye(4, dtype=np.float32)[0], _METADATA, "text")])
    store.close()
    assert probe(tmp_path / "chroma").damage == "the record 'whatever' has no name of ours"


def impostor(folder: Path, script: str) -> str:
    """A program that takes the interpreter's place."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("script", "finding"),
    [
        ("echo nonsense", Finding("the process that read it ended with code 0 and without a report")),
        ("exit 3", Finding("the process that read it ended with code 3 and without a report")),
        ("kill -9 $$", Finding("the process that read it was killed by signal 9")),  # as when memory is short
        ("kill -6 $$", Finding("the process that read it was killed by signal 6")),
        ("head -c 100000 /dev/zero", Finding("the process that read it ended with code 0 and without a report")),
        ("exec sleep 60", Finding("it could not be read within 1 seconds")),
        (f"echo '{json.dumps({'damage': 4, 'no_room': True})}'", Finding("the process that read it gave a report that makes no sense")),
        (f"echo '{json.dumps({'damage': None, 'no_room': True})}'", Finding(no_room=True)),
        (f"echo '{json.dumps({'damage': None, 'no_room': False})}'", Finding()),
    ],
    ids=["rubbish", "failure", "killed", "aborted", "flood", "slow", "senseless", "no room", "sound"],
)
def test_whatever_the_child_does_there_is_a_finding(tmp_path: Path, script: str, finding: Finding) -> None:
    """A child that dies, hangs or talks nonsense makes the store a damaged one; a full disk does not."""
    assert probe(tmp_path, 1.0, impostor(tmp_path, script)) == finding


def test_without_a_process_nothing_is_opened(tmp_path: Path) -> None:
    """A child that cannot be started is a failed probe."""
    found = probe(tmp_path, 1.0, str(tmp_path / "none")).damage
    assert found is not None
    assert found.startswith("no process to check it could be started")


def test_the_child_ends_with_its_parent() -> None:
    """When the lifeline closes, as when the lock's holder is killed, the child goes too instead of opening the store beside a successor."""
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", f"from indexer.probe import _end_with; _end_with({reading})"],
        cwd=Path(__file__).parents[1], pass_fds=(reading,),
    )  # fmt: skip
    os.close(reading)
    assert child.poll() is None
    os.close(writing)
    assert child.wait(20) == 1
