"""Index runs in real processes over real stores: killed anywhere, or several at once, they end where a clean build ends."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from models.pool import TIERS
from tests.index_runs import backend, start
from tests.samples import delve


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """A memory folder."""
    (tmp_path / "memory").mkdir()
    return tmp_path / "memory"


def write(memory: Path, active: range, archive: range) -> None:
    """Gives both tiers these entries; three of the first lack what the others have."""
    for name, numbers in (("dream-sparks.md", active), ("dream-sparks-archive.md", archive)):
        entries = [delve(f"Entry number {n}", "2026-05-01") for n in numbers]
        entries[:3] = [f"### [dream] Bare {n} (2026-05-01)\n**Connection:** a\n".encode() for n in numbers[:3]]
        (memory / name).write_bytes(b"\n".join(entries))


def finish(memory: Path, state: Path) -> dict[str, Any]:
    """A run to its end."""
    process = start(memory, state)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def contents(memory: Path, state: Path) -> dict[str, object]:
    """Everything that two indexes of the same files must agree on."""
    local = backend(memory, state)
    assert not local.sync().added
    index = local.index()
    found: dict[str, object] = {f"records {tier}": index.store.ids(tier) for tier in TIERS}
    found |= {f"wanted {tier}": index.catalog.records(tier) for tier in TIERS}
    found["entries"] = {key: (k.version, k.tier, k.view, k.passages) for key, k in index.catalog.known().items()}
    found["todo"] = index.catalog.surplus()
    local.close()
    assert found["records active"] == found["wanted active"]
    return found


def test_killed_half_way_only_the_rest_is_embedded(memory: Path, tmp_path: Path) -> None:
    """Of 6,000 short entries over real Chroma, those embedded before the kill are not embedded again; then all are there."""
    write(memory, range(1_000), range(1_000, 6_000))
    process = start(memory, tmp_path / "state")
    assert process.stderr is not None
    done = 0
    while done < 3_000:
        done = int(process.stderr.readline())
    process.kill()
    process.wait()
    process.stderr.close()
    assert process.stdout is not None
    process.stdout.close()
    result = finish(memory, tmp_path / "state")
    assert (result["entries"], result["passages"]) == ({"active": 1_000, "archive": 5_000}, 6_000)
    assert 6_000 - done - 2 * 64 <= result["embedded"] <= 6_000 - done + 64
    found = contents(memory, tmp_path / "state")
    assert [len(found[f"records {tier}"]) for tier in TIERS] == [1_000, 5_000]  # type: ignore[arg-type]


def test_killed_at_any_moment_the_next_run_ends_like_a_clean_build(memory: Path, tmp_path: Path) -> None:
    """Run after run dies somewhere while entries come, go and move; the last one, undisturbed, gives a clean build's index."""
    moments = random.Random(11)
    state = tmp_path / "state"
    size = 400
    for n in range(8):
        split = 20 * n
        write(memory, range(split, size), range(split))
        process = start(memory, state)
        time.sleep(moments.uniform(0.3, 3.0))
        process.kill()
        process.communicate()
    result = finish(memory, state)
    assert result["status"] == "ok"
    clean = finish(memory, tmp_path / "clean")
    assert (result["entries"], result["passages"]) == (clean["entries"], clean["passages"])
    assert contents(memory, state) == contents(memory, tmp_path / "clean")
    assert len([p for p in (state / "index").iterdir() if p.is_dir()]) == 1


def test_two_runs_at_once_take_turns(memory: Path, tmp_path: Path) -> None:
    """The second waits for the first and finds nothing left to do; what they report is what a third process counts."""
    write(memory, range(150), range(150, 200))
    both = [start(memory, tmp_path / "state") for _ in range(2)]
    results = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert sorted(r["embedded"] for r in results) == [0, 200]
    assert {r["passages"] for r in results} == {200}
    assert finish(memory, tmp_path / "state")["entries"] == {"active": 150, "archive": 50}
