"""What can be said of a pool's health: each check well, odd and broken, and not a byte written for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.checkup import check_pool
from compactor.compact import compact
from compactor.durable import Disk
from compactor.lock import held, holder
from compactor.split import split
from models.pool import Pool
from models.results import Check
from models.settings import Settings
from tests.compactor_disks import MIXED, OLD_ARCHIVE, CrashingDisk, PowerCutError, lay, request, tree
from tests.compactor_places import NOW
from tests.samples import HEADER, KILN, TIDE, delve, log

SURVIVAL = "| Anchor | Status |\n|---|---|\n| Kiln cooling and staged eviction | alive |\n"


def look(pool: Pool, settings: Settings = NOW) -> list[Check]:
    """Every check; nothing under the pool's parent changes for it."""
    before = tree(pool.memory_dir.parent)
    found = list(check_pool(pool, settings))
    assert tree(pool.memory_dir.parent) == before
    return found


def named(pool: Pool, name: str) -> list[tuple[str, str, str | None]]:
    """(status, message, advice) of every check of this name."""
    return [(c.status, c.message, c.advice) for c in look(pool) if c.name == name]


def well(pool: Pool) -> None:
    """Lays a pool that nothing is wrong with."""
    pool.active.write_bytes(HEADER + log(KILN, TIDE))
    assert pool.knowledge_dir is not None
    (pool.knowledge_dir / "sparks" / "survival-log.md").write_text(SURVIVAL)


def cut_short(pool: Pool, after: str, *, swaps: bool = True) -> None:
    """Leaves a pool as a crash behind the first step of this name does."""
    steps = CrashingDisk(10_000, "after")
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), steps)
    at = [step for step, _ in steps.steps].index(after) + 1
    lay(pool, archive=OLD_ARCHIVE)
    with pytest.raises(PowerCutError):
        compact(request(pool), CrashingDisk(at, "after", swaps=swaps))


def test_a_pool_that_is_well(pool: Pool) -> None:
    """Every check says what it saw; none has advice."""
    well(pool)
    compact(request(pool), Disk())
    found = look(pool)
    assert [(c.name, c.pool, c.status, c.advice) for c in found] == [
        (name, "default", "ok", None) for name in ("files", "places", "runs", "archive", "knowledge", "size")
    ]
    assert [c.message for c in found] == [
        "1 active and 1 archived entries; 1 archive file",
        "the active file can be replaced, and the archive written to",
        "no run was cut short, and no late text waits",
        "1 of 1 batches proven by checksum",
        "the survival log keeps 1 anchors alive; 0 session logs",
        f"the active file is within its targets ({pool.active.read_bytes().count(10)} lines, {pool.active.stat().st_size} bytes)",
    ]


def test_a_pool_without_an_archive_is_well(pool: Pool) -> None:
    """The archive is born with the first move."""
    well(pool)
    assert {c.status for c in look(pool)} == {"ok"}
    assert not pool.private_dir.exists()


def test_a_missing_folder_is_the_one_finding(tmp_path: Path) -> None:
    """There is nothing else to look at."""
    found = list(check_pool(Pool("notes", tmp_path / "gone"), NOW))
    assert found == [
        Check(
            name="files", pool="notes", status="problem",
            message=f"The memory folder {tmp_path / 'gone'} does not exist: check the path, or name another folder with --memory-dir.",
        )
    ]  # fmt: skip


def test_a_missing_active_file_hides_no_other_check(pool: Pool) -> None:
    """The archive is looked at all the same."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.active.unlink()
    message = f"The active file {pool.active} does not exist: check the path, or name another folder with --memory-dir."
    assert named(pool, "files") == [("problem", message, None)]
    assert named(pool, "archive") == [
        ("ok", "0 of 1 batches proven by checksum; of 1 no checksum was recorded, but their headings fit", None)
    ]
    assert {c.name for c in look(pool)} >= {"files", "runs", "archive", "knowledge", "size"}


@pytest.mark.parametrize("after", ["append", "swap", "rename"])
def test_a_run_that_was_cut_short(pool: Pool, after: str) -> None:
    """It is told of wherever it was cut, with what settles it, and then it is settled."""
    cut_short(pool, after)
    assert named(pool, "runs") == [
        (
            "warning",
            "a run was cut short while moving entries; every entry is there, and counts once",
            "Run `coldspark compact` to settle it.",
        )
    ]
    counts = [message for _, message, _ in named(pool, "files")]
    assert sum(int(word) for word in counts[0].split() if word.isdigit()) == 9, "8 entries and 1 file"
    assert all(status == "ok" for status, _, _ in named(pool, "archive"))
    compact(request(pool), Disk())
    assert [status for status, _, _ in named(pool, "runs")] == ["ok"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\x00", b'{"format": 2}', b'{"format": "2"}', b'{"format": 2, "run": 1}'])
def test_a_damaged_journal(pool: Pool, data: bytes) -> None:
    """It is a problem with the way out in its sentence, the same that `compact` refuses with."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    (pool.private_dir / "journal.json").write_bytes(data)
    message = (
        f"Refused to touch {pool.private_dir / 'journal.json'}: the journal of an unfinished run is damaged."
        " Compare both tiers with a backup, then remove that file and run again."
    )
    assert named(pool, "runs") == [("problem", message, None)]


def test_a_journal_of_a_newer_version(pool: Pool) -> None:
    """Only that version can finish what it began."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    (pool.private_dir / "journal.json").write_text(json.dumps({"format": 99}))
    message = (
        f"Refused to touch {pool.private_dir / 'journal.json'}: another version of Coldspark left an unfinished run."
        " Finish it with that version."
    )
    assert named(pool, "runs") == [("problem", message, None)]


@pytest.mark.parametrize("which", ["replaced", "replaced-archive"])
def test_late_text_in_a_replaced_file(pool: Pool, which: str) -> None:
    """What was appended through an old descriptor waits there; the advice names the tier that it comes over into."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    split(pool, NOW, Disk())
    (snapshot,) = (pool.private_dir / which).iterdir()
    with snapshot.open("ab") as file:
        file.write(b"\n### [dream] Late (2026-06-14)\n")
    ((status, message, advice),) = named(pool, "runs")
    assert status == "warning"
    assert message == f"another program wrote to a file after it had been replaced ({snapshot.name})"
    assert advice is not None
    assert advice.startswith("Run `coldspark compact`: it carries the text over")
    assert ("active file" in advice) == (which == "replaced")
    compact(request(pool), Disk())
    assert [status for status, _, _ in named(pool, "runs")] == ["ok"]
    successor = pool.active if which == "replaced" else pool.archive
    assert successor.read_bytes().endswith(b"\n### [dream] Late (2026-06-14)\n")


@pytest.mark.parametrize(
    ("extra", "says"), [(b"", "all 7 entries of it are in the tiers too"), (TIDE, "1 of its 8 entries are in neither tier")]
)
def test_a_text_that_was_set_aside(pool: Pool, extra: bytes, says: str) -> None:
    """It stays for a person, who is told how much of it is nowhere else."""
    lay(pool, archive=OLD_ARCHIVE)
    (pool.private_dir / "replaced").mkdir(parents=True)
    path = pool.private_dir / "replaced" / "1796086655.conflict.md"
    path.write_bytes(MIXED + b"\n\n" + extra)
    ((status, message, advice),) = named(pool, "set-aside")
    assert status == "warning"
    assert message.startswith(f"{path} was written by another program while a tier was replaced; ")
    assert says in message
    assert advice == "Append what is missing to the active file, then remove it."


HOLDER = """
import sys
from pathlib import Path
from compactor.lock import held
with held(Path(sys.argv[1]), "memory default"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_run_that_is_going_on(pool: Pool) -> None:
    """Its process is named; its journal is nobody's to judge meanwhile."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    (pool.private_dir / "journal.json").write_bytes(b"{")
    command, root = [sys.executable, "-c", HOLDER, str(pool.private_dir / "lock")], Path(__file__).parents[1]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        found = named(pool, "runs")
        process.stdin.close()
    assert found == [("warning", f"a compaction is going on (process {process.pid})", "Wait for it to finish.")]


def test_the_holder_of_a_lock_is_seen_without_taking_it(tmp_path: Path) -> None:
    """Looking neither creates nor changes the file, and keeps nobody from holding it."""
    lock = tmp_path / "lock"
    assert holder(lock) is None
    assert not lock.exists()
    with held(lock, "memory default", 0):
        assert holder(lock) == f"process {os.getpid()}"
        lock.write_bytes(b"\xff\n")
        assert holder(lock) == "another process"
    before = tree(tmp_path)
    assert holder(lock) is None
    assert tree(tmp_path) == before


@pytest.mark.parametrize("lock", [b"", b"99999999\n", b"\xff garbage"])
def test_an_old_lock_file_is_no_run(pool: Pool, lock: bytes) -> None:
    """A file is no holder."""
    lay(pool, archive=OLD_ARCHIVE)
    pool.private_dir.mkdir()
    (pool.private_dir / "lock").write_bytes(lock)
    assert [status for status, _, _ in named(pool, "runs")] == ["ok"]


def test_damage_in_the_archive(pool: Pool) -> None:
    """The batch, its file and its line are named."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    data = pool.archive.read_bytes()
    pool.archive.write_bytes(data.replace(b"Move one", b"Move ten"))
    line = data[: data.index(b"## Archived 2026-06-15")].count(b"\n") + 1
    assert named(pool, "archive") == [
        (
            "problem",
            f"{pool.archive}:{line}: the batch of 5 entries archived on 2026-06-15 is not as it was written; restore it from a backup",
            "Compare it with a backup; `coldspark archive verify` lists every batch.",
        )
    ]


def test_an_archive_that_is_gone(pool: Pool) -> None:
    """The list of checksums remembers what there was."""
    lay(pool, archive=None)
    compact(request(pool), Disk())
    pool.archive.unlink()
    ((status, message, _),) = named(pool, "archive")
    assert (status, str(pool.archive) in message) == ("problem", True)


def _no_columns(path: Path) -> None:
    path.write_text("# Survival\n| Kiln cooling | alive |\n")


def _no_table(path: Path) -> None:
    path.write_text("Kiln cooling: alive\n")


@pytest.mark.parametrize(
    ("lay_log", "says"),
    [
        (_no_columns, "cannot be trusted (line 2: the table has no Anchor and Status columns)"),
        (_no_table, "cannot be trusted (line 1: something is alive, but there is no table with Anchor and Status columns)"),
        (Path.mkdir, "cannot be read (Is a directory)"),
        (lambda path: path.symlink_to("gone"), "gone does not exist"),
    ],
    ids=["no-columns", "no-table", "folder", "dangling"],
)
def test_a_broken_survival_log(pool: Pool, lay_log: Callable[[Path], None], says: str) -> None:
    """It keeps `compact` from moving anything, so it is a problem, and hides no other check."""
    lay(pool, archive=OLD_ARCHIVE)
    assert pool.knowledge_dir is not None
    path = pool.knowledge_dir / "sparks" / "survival-log.md"
    lay_log(path)
    ((status, message, _),) = named(pool, "knowledge")
    assert status == "problem"
    assert str(path) in message
    assert says in message
    assert named(pool, "size")[0][0] == "ok"


def test_no_survival_log_is_a_warning(pool: Pool) -> None:
    """Nothing counts as alive then, which a person ought to know."""
    lay(pool, archive=None)
    ((status, message, _),) = named(pool, "knowledge")
    assert status == "warning"
    assert "no survival log" in message


def test_entries_in_both_tiers(pool: Pool) -> None:
    """A restored backup brings back what is archived; that is told, and left to a person."""
    lay(pool, archive=OLD_ARCHIVE)
    compact(request(pool), Disk())
    pool.active.write_bytes(MIXED)
    advice = "Was the active file restored from a backup? Remove them there by hand if you like."
    assert named(pool, "tiers") == [("warning", "5 entries stand in both tiers, byte for byte the same", advice)]
    pool.active.write_bytes(HEADER + delve("Long archived", "2026-01-01"))
    assert named(pool, "tiers") == [("warning", "1 entry stands in both tiers, byte for byte the same", advice)]


def test_odd_lines(pool: Pool) -> None:
    """The first is named, all are counted."""
    well(pool)
    pool.active.write_bytes(HEADER + KILN + b"\n### no tag\n\n### none here\n")
    ((status, message, advice),) = named(pool, "layout")
    line = (HEADER + KILN).count(b"\n") + 2
    assert (status, advice) == ("warning", "`coldspark entries` lists them.")
    assert message.startswith(f"2 lines to look at, first {pool.active}:{line}: the heading has no [tag]")


@pytest.mark.parametrize(("more", "status"), [({}, "ok"), ({"target_lines": 39}, "warning"), ({"target_lines": 40}, "ok")])
def test_a_size_over_its_target(pool: Pool, more: dict[str, int], status: str) -> None:
    """Lines count as `status` and `compact` count them: a last line without an end is one."""
    lay(pool, archive=None)
    assert MIXED.count(b"\n") == 38
    (found,) = [c for c in look(pool, Settings(**more)) if c.name == "size"]
    assert found.status == status
    assert "39 lines" in found.message


def test_a_name_that_is_not_utf8_is_shown(tmp_path: Path) -> None:
    """Every message can be printed and made JSON."""
    pool = Pool("default", tmp_path / "\udcff")
    pool.memory_dir.mkdir()
    pool.active.symlink_to("gone")
    (pool.memory_dir / "dream-sparks (1).md").touch()
    for check in look(pool):
        assert check.model_dump_json().encode()
