"""`archive verify` and `archive split` as a person runs them: what they print, as text and JSON, and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compactor.compact import compact
from compactor.durable import Disk
from compactor.split import split
from models.pool import Pool
from models.results import ArchiveSize, FileWarning, SplitOff, SplitReport, SplitResult, VerifiedFile, VerifyReport, VerifyResult
from service import render
from tests.compactor_archives import LEFT, QUARTERS, SETTINGS, TITLE, batch, lay_archive, shards_of
from tests.compactor_disks import CrashingDisk, HookedDisk, PowerCutError, request
from tests.samples import HEADER, delve, log
from tests.service_support import run, tree


@pytest.fixture
def flags(pool: Pool) -> list[str]:
    """The flags that name a pool whose archive has five batches without checksums."""
    lay_archive(pool)
    return [f"--memory-dir={pool.memory_dir}", f"--state-dir={pool.memory_dir.parent / 'state'}"]


def proven(pool: Pool) -> None:
    """Gives the pool one batch with a checksum."""
    pool.archive.unlink()
    pool.active.write_bytes(HEADER + log(delve("One", "2026-05-01"), delve("Two", "2026-05-02")))
    compact(request(pool), Disk())


def test_a_sound_archive_verifies(pool: Pool, flags: list[str]) -> None:
    """A table of files and one sentence, on stdout; nothing is written."""
    proven(pool)
    before = tree(pool.memory_dir.parent)
    shown = run("archive", "verify", *flags)
    lines = shown.stdout.splitlines()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert lines[-1] == "1 of 1 batches are byte for byte as they were written (pool default)"
    assert lines[0].split() == ["batches", "proven", "entries", "size", "file"]
    assert lines[-2].split()[:3] == ["1", "1", "2"]
    assert tree(pool.memory_dir.parent) == before


def test_batches_without_a_checksum_are_counted_apart(flags: list[str]) -> None:
    """An old archive verifies by its headings, and the sentence says that this is all."""
    shown = run("archive", "verify", *flags)
    assert shown.returncode == 0
    expected = "0 of 5 batches are byte for byte as they were written; 5 have no recorded checksum, their headings fit (pool default)"
    assert shown.stdout.splitlines()[-1] == expected


def test_a_damaged_archive_ends_with_code_3(pool: Pool, flags: list[str]) -> None:
    """The verdict is on stdout with file and line of what is wrong, and in the exit code."""
    proven(pool)
    pool.archive.write_bytes(pool.archive.read_bytes().replace(b"thought", b"Thought", 1))
    shown = run("archive", "verify", *flags)
    assert (shown.returncode, shown.stderr) == (3, "")
    assert "DAMAGED: not everything is as it was written (pool default)\n" in shown.stdout
    message = "the batch of 2 entries archived on 2026-06-15 is not as it was written; restore it from a backup"
    assert f"{pool.archive}:3: {message}" in shown.stdout
    as_json = run("archive", "verify", "--json", *flags)
    found = json.loads(as_json.stdout)
    assert (as_json.returncode, found["status"]) == (3, "damaged")
    assert found["problems"] == [{"file": str(pool.archive), "line": 3, "message": message}]


def test_verify_in_json(pool: Pool, flags: list[str]) -> None:
    """Every number of the table is in the JSON."""
    found = json.loads(run("archive", "verify", "--json", *flags).stdout)
    size = pool.archive.stat().st_size
    assert found == {
        "status": "verified", "pool": "default", "entries": 8, "batches": 5, "proven": 0, "unrecorded": 5, "problems": [], "warnings": [],
        "files": [{"file": str(pool.archive), "bytes": size, "entries": 8, "batches": 5, "proven": 0}],
    }  # fmt: skip


def test_an_archive_without_batches_says_so(pool: Pool, flags: list[str]) -> None:
    """Nothing to verify is no failure."""
    pool.archive.unlink()
    shown = run("archive", "verify", *flags)
    assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "There is no batch to verify (pool default)")


def test_a_plan_of_a_split_writes_nothing(pool: Pool, flags: list[str]) -> None:
    """The dry run lists the files to come and leaves every path as it was."""
    before = tree(pool.memory_dir.parent)
    shown = run("archive", "split", "--dry-run", *flags)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[0] == "8 entries would go to 3 quarterly files (pool default)"
    assert tree(pool.memory_dir.parent) == before
    found = json.loads(run("archive", "split", "--dry-run", "--json", *flags).stdout)
    assert (found["status"], found["left"], found["conserved"]) == ("planned", 0, None)
    assert [Path(m["file"]).name for m in found["moved"]] == [f"dream-sparks-archive-{name}.md" for name in QUARTERS]


def test_a_split_says_what_went_where(pool: Pool, flags: list[str]) -> None:
    """One line a file, then the proof; the files are as promised, and verify; a second split has nothing to do."""
    shown = run("archive", "split", *flags, COLDSPARK_NOW="2026-06-15T12:00:00Z")
    lines = shown.stdout.splitlines()
    assert (shown.returncode, shown.stderr) == (0, "")
    assert lines[0] == "8 entries went to 3 quarterly files (pool default)"
    assert lines[1].split()[:4] == ["1", "entry", "1", "batch"]
    assert lines[-1].startswith("proof    8 archived entries (")
    assert lines[-1].endswith(" bytes) = 8 in quarterly files now + 0 where they were")
    assert shards_of(pool) == QUARTERS
    assert pool.archive.read_bytes() == LEFT
    assert run("archive", "verify", *flags).returncode == 0
    again = run("archive", "split", *flags)
    assert (again.returncode, again.stdout) == (0, "Nothing to split: the archive has no dated batch (pool default)\n")


def test_split_in_json(pool: Pool, flags: list[str]) -> None:
    """Files, batches, entries and bytes are numbers."""
    found = json.loads(run("archive", "split", "--json", *flags).stdout)
    assert (found["status"], found["pool"], found["left"], found["warnings"]) == ("split", "default", 0, [])
    assert [(m["batches"], m["entries"]) for m in found["moved"]] == [(1, 1), (2, 3), (2, 4)]
    assert found["archive"] == {
        "file": str(pool.archive), "bytes": sum(p.stat().st_size for p in pool.archive_files()), "entries": 8,
    }  # fmt: skip


def test_all_commands_see_the_shards(flags: list[str]) -> None:
    """Counts, ids and texts are the same behind a split as before; lines and files are the shards'."""
    before = json.loads(run("entries", "--json", *flags).stdout)["entries"]
    run("archive", "split", *flags)
    after = json.loads(run("entries", "--json", *flags).stdout)["entries"]
    assert {e["id"]: e["version"] for e in after} == {e["id"]: e["version"] for e in before}
    moved = [e for e in after if e["tier"] == "archive"]
    assert {Path(e["file"]).name for e in moved} == {f"dream-sparks-archive-{name}.md" for name in QUARTERS}
    for entry in moved:
        data = Path(entry["file"]).read_bytes()[entry["byte_start"] : entry["byte_end"]]
        found = json.loads(run("show", entry["id"], "--json", *flags).stdout)
        assert (found["file"], found["text"]) == (entry["file"], data.decode("utf-8", "replace"))
    status = json.loads(run("status", "--json", *flags).stdout)
    assert status["pools"][0]["archive"]["entries"] == 8


@pytest.mark.parametrize("command", ["verify", "split"])
def test_a_memory_folder_that_is_not_there_ends_with_code_3(tmp_path: Path, command: str) -> None:
    """The path is named, on stderr."""
    shown = run("archive", command, f"--memory-dir={tmp_path / 'none'}", f"--state-dir={tmp_path / 'state'}")
    assert (shown.returncode, shown.stdout) == (3, "")
    assert str(tmp_path / "none") in shown.stderr


def test_an_unfinished_split_shows_and_is_settled(pool: Pool, flags: list[str]) -> None:
    """`status` and `entries` count every entry once in between and warn; the next split settles it and says so."""
    whole = HookedDisk()
    split(pool, SETTINGS, whole)
    lay_archive(pool)
    swap = next(at for at, (step, _) in enumerate(whole.steps, 1) if step == "swap")
    with pytest.raises(PowerCutError):
        split(pool, SETTINGS, CrashingDisk(swap, "before"))
    found = json.loads(run("entries", "--json", *flags).stdout)
    assert len(found["entries"]) == 9
    assert any("was cut short here" in w["message"] for w in found["warnings"])
    shown = run("archive", "split", *flags)
    assert shown.returncode == 0
    assert (
        "a batch of 1 entries was in dream-sparks-archive-2025-Q4.md but still in dream-sparks-archive.md; the move was finished"
        in shown.stdout
    )
    assert shards_of(pool) == QUARTERS


def test_commands_of_the_group_explain_themselves() -> None:
    """`archive` alone lists both; each has its flags."""
    listed = run("archive", "--help").stdout
    assert "verify" in listed
    assert "split" in listed
    for command in ("verify", "split"):
        text = run("archive", command, "--help").stdout
        assert all(flag in text for flag in ("--memory-dir", "--json", "--pool"))
    assert "--dry-run" in run("archive", "split", "--help").stdout
    assert run("archive", "melt").returncode == 2


def test_several_pools_are_reported_one_by_one(tmp_path: Path) -> None:
    """Each pool has its own verdict, and one damaged pool is enough for the exit code."""
    config = tmp_path / "coldspark.toml"
    lines = []
    for name in ("one", "two"):
        pool = Pool(name, tmp_path / name)
        pool.memory_dir.mkdir()
        lay_archive(pool, TITLE + b"\n" + batch("2026-01-05", delve(name, "2025-12-01")))
        lines.append(f'[[pools]]\nname = "{name}"\nmemory_dir = "{pool.memory_dir}"\n')
    config.write_text("\n".join(lines))
    flags = [f"--config={config}", f"--state-dir={tmp_path / 'state'}"]
    assert run("archive", "verify", *flags).returncode == 0
    found = json.loads(run("archive", "split", "--json", *flags).stdout)
    assert [(p["pool"], p["status"]) for p in found["pools"]] == [("one", "split"), ("two", "split")]
    path = next((tmp_path / "two").glob("*-2026-Q1.md"))
    path.write_bytes(path.read_bytes().replace(b"1 entries", b"2 entries"))
    shown = run("archive", "verify", *flags)
    assert shown.returncode == 3
    assert shown.stdout.count("(pool ") == 2
    assert run("archive", "verify", "--pool=one", *flags).returncode == 0


SIZE = ArchiveSize(file="/m/a.md", bytes=2048, entries=3)


def test_rendering_of_a_split() -> None:
    """Singular and plural, columns in line, warnings behind."""
    result = SplitResult(
        status="split", pool="p", left=1, archive=SIZE, conserved="proven",
        moved=[
            SplitOff(file="/m/a-2026-Q1.md", batches=1, entries=1, bytes=1024),
            SplitOff(file="/m/a-2026-Q2.md", batches=12, entries=1234, bytes=2048),
        ],
        warnings=[FileWarning(file="/m/a.md", message="a word")],
    )  # fmt: skip
    text = render.splitting(result)
    assert text.splitlines()[0] == "1,235 entries went to 2 quarterly files (pool p)"
    assert "proof    proven\n" in text
    assert "a word" in text
    assert render.splitting(SplitReport(pools=[result, result])) == text + "\n" + text


def test_rendering_of_a_verification() -> None:
    """Several reports stand one behind the other; a damaged one never says that headings fit."""
    file = VerifiedFile(file="/m/a.md", bytes=2048, entries=3, batches=2, proven=1)
    good = VerifyResult(
        status="verified", pool="p", files=[file], entries=3, batches=2, proven=1, unrecorded=1, problems=[], warnings=[]
    )  # fmt: skip
    bad = good.model_copy(update={"status": "damaged", "problems": [FileWarning(file="/m/a.md", line=7, message="wrong")]})
    assert "1 of 2 batches are byte for byte as they were written; 1 have no recorded checksum" in render.verification(good)
    assert "headings fit" not in render.verification(bad)
    assert "/m/a.md:7: wrong" in render.verification(bad)
    both = render.verification(VerifyReport(pools=[good, bad]))
    assert both == render.verification(good) + "\n" + render.verification(bad)
