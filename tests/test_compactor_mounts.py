"""Real mounts, made in a namespace of the test's own: read-only ones, single files, and folders; the real command over them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from compactor.places import mount_points
from models.pool import Pool
from tests.compactor_disks import MIXED_AFTER, OLD_ARCHIVE, everywhere, lay, tree
from tests.compactor_places import Failure, other_file_system
from tests.service_support import COMMAND


def _can_mount() -> bool:
    try:
        done = subprocess.run(["unshare", "-m", "sh", "-c", "mount --bind / /mnt"], capture_output=True, check=False, timeout=20)
    except OSError:
        return False
    return done.returncode == 0


needs_mounts = pytest.mark.skipif(not _can_mount(), reason="no mount namespace can be made here (it takes root and unshare)")


class Ran(Failure):
    """A command's exit code, and all it printed."""


def mounted(mounts: str, *commands: str, pool: Pool) -> list[Ran]:
    """Runs *mounts*, then each command of coldspark, in one private mount namespace; $M is the memory folder."""
    flags = f"--memory-dir='{pool.memory_dir}' --state-dir='{pool.memory_dir.parent / 'state'}'"
    script = f"M='{pool.memory_dir}'\n{mounts}\n"
    script += "".join(f"'{COMMAND}' {command} {flags} 2>&1\nprintf '\\001%s\\002' $?\n" for command in commands)
    done = subprocess.run(
        ["unshare", "-m", "sh", "-ec", script.replace("\n'", "\nset +e\n'", 1)],
        capture_output=True, text=True, check=False, timeout=120, env={"COLDSPARK_NOW": "2026-06-15T12:00:00Z", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done
    parts = [part.split("\x01") for part in done.stdout.split("\x02")[:-1]]
    return [Ran(int(code), said) for said, code in parts]


TMPFS = 'mkdir "$M/../disk"; mount -t tmpfs none "$M/../disk"'
READ_ONLY = "mount --bind {0} {0}; mount -o remount,bind,ro {0}"
REFUSED = {
    "the folder is read-only": (READ_ONLY.format('"$M"'), "dream-sparks.md", "this user may not read and write it"),
    "the active file is read-only": (READ_ONLY.format('"$M/dream-sparks.md"'), "dream-sparks.md", "this user may not read and write it"),
    "the archive is read-only": (READ_ONLY.format('"$M/dream-sparks-archive.md"'), "dream-sparks-archive.md", "may not read and write it"),
    "a single file of the same file system": (
        'cp "$M/dream-sparks.md" "$M/../elsewhere.md"; mount --bind "$M/../elsewhere.md" "$M/dream-sparks.md"',
        "dream-sparks.md", "this single file is mounted from elsewhere",
    ),
    "a single file mounted on itself": (
        'mount --bind "$M/dream-sparks.md" "$M/dream-sparks.md"', "dream-sparks.md", "this single file is mounted from elsewhere",
    ),
    "a single file of another file system": (
        f'{TMPFS}; cp "$M/dream-sparks.md" "$M/../disk/file"; mount --bind "$M/../disk/file" "$M/dream-sparks.md"',
        "dream-sparks.md", "this single file is mounted from elsewhere",
    ),
    "the private folder is another file system": (
        'mkdir "$M/.coldspark"; mount -t tmpfs none "$M/.coldspark"', ".coldspark", "it lies on another file system than the tiers",
    ),
    "the private folder is read-only": (
        'mkdir "$M/.coldspark"; ' + READ_ONLY.format('"$M/.coldspark"'), ".coldspark", "read-only",
    ),
}  # fmt: skip


@needs_mounts
@pytest.mark.parametrize("name", REFUSED)
def test_a_mount_that_forbids_the_move_is_refused_before_any_write(pool: Pool, name: str) -> None:
    """`compact` ends with code 5 and one sentence, `doctor` says the same, and both tiers are as they were."""
    lay(pool, archive=OLD_ARCHIVE)
    mounts, file, reason = REFUSED[name]
    before = tree(pool.memory_dir)
    compacted, doctor = mounted(mounts, "compact --force", "doctor", pool=pool)
    assert compacted.code == 5, compacted
    assert compacted.says.startswith("coldspark: Refused to touch ")
    assert compacted.says.count("\n") == 1, "one sentence"
    assert str(pool.memory_dir / file) in compacted.says
    assert reason in compacted.says
    assert doctor.code == 3
    assert compacted.says.removeprefix("coldspark: ").strip() in doctor.says
    after = tree(pool.memory_dir)
    assert {k: v for k, v in after.items() if v[2] is not None} == {k: v for k, v in before.items() if v[2] is not None}
    assert list(pool.private_dir.rglob("*")) == [], "nothing was made"
    assert pool.private_dir.exists() == ("private" in name), "but for the mount point"


@needs_mounts
def test_a_mounted_archive_is_appended_to_but_not_split(pool: Pool) -> None:
    """An append goes through to the file that is mounted there; a replacement could not."""
    before = lay(pool, archive=OLD_ARCHIVE)
    mounts = 'cp "$M/dream-sparks-archive.md" "$M/../cold.md"; mount --bind "$M/../cold.md" "$M/dream-sparks-archive.md"'
    parted, compacted, verified = mounted(mounts, "archive split", "compact --force", "archive verify", pool=pool)
    assert parted.code == 5, parted
    assert f"{pool.archive}: this single file is mounted from elsewhere" in parted.says
    assert (compacted.code, verified.code) == (0, 0)
    assert pool.archive.read_bytes() == OLD_ARCHIVE, "below the mount, where it was never seen"
    shutil.move(pool.memory_dir.parent / "cold.md", pool.archive)
    assert everywhere(pool) == before


@needs_mounts
def test_a_mounted_folder_is_no_hindrance(pool: Pool) -> None:
    """What holds for a single file does not for the folder that it lies in, nor for its links to other mounts."""
    before = lay(pool, archive=OLD_ARCHIVE)
    pool.memory_dir.rename(pool.memory_dir.parent / "store")
    pool.memory_dir.mkdir()
    compacted, doctor = mounted('mount --bind "$M/../store" "$M"', "compact --force", "doctor", pool=pool)
    assert (compacted.code, doctor.code) == (0, 0), (compacted, doctor)
    pool.memory_dir.rmdir()
    (pool.memory_dir.parent / "store").rename(pool.memory_dir)
    assert pool.active.read_bytes() == MIXED_AFTER
    assert everywhere(pool) == before


@needs_mounts
def test_a_link_to_another_mount_is_followed(pool: Pool) -> None:
    """The link lies on one file system, its target on a second, the folder for temporary files on a third."""
    before = lay(pool, archive=OLD_ARCHIVE)
    with other_file_system(pool.memory_dir) as third:
        mounts = (
            f'{TMPFS}; mv "$M/dream-sparks.md" "$M/../disk/real.md"; ln -s ../disk/real.md "$M/dream-sparks.md"; export TMPDIR="{third}"'
        )
        keep = 'status --json > /dev/null; cp -a "$M/../disk" "$M/../kept"; \'' + str(COMMAND) + "' doctor"
        compacted, doctor = mounted(mounts, "compact --force", keep, pool=pool)
        assert list(third.iterdir()) == [], "nothing was written to the third"
    assert compacted.code == 0, compacted
    assert doctor.code == 0, doctor
    kept = pool.memory_dir.parent / "kept"
    assert {p.name for p in kept.iterdir()} == {"real.md", ".coldspark"}
    assert pool.active.is_symlink()
    assert (kept / "real.md").read_bytes() == MIXED_AFTER
    pool.active.unlink()
    shutil.copy(kept / "real.md", pool.active)
    assert everywhere(pool) == before


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("36 25 8:1 /store/f /m/dream-sparks.md rw,relatime - ext4 /dev/sda1 rw", {"/m/dream-sparks.md"}),
        (r"36 25 8:1 / /m/R\040D\134\011x rw - ext4 /dev/sda1 rw", {"/m/R D\\\tx"}),
        ("36 25 8:1 / /m/深夜 rw shared:1 master:2 - ext4 /dev/sda1 rw", {"/m/深夜"}),
        ("garbage", set()),  # a line of another form says nothing
        ("", set()),
    ],
)
def test_mount_points_are_read_from_the_kernels_list(tmp_path: Path, line: str, found: set[str]) -> None:
    """The fifth column names the place; spaces and the like are octal there."""
    (tmp_path / "mountinfo").write_text(f"{line}\n", encoding="utf-8")
    assert mount_points(tmp_path / "mountinfo") == found


def test_without_the_kernels_list_nothing_is_mounted(tmp_path: Path) -> None:
    """Other systems have no such list, and cannot mount single files."""
    assert mount_points(tmp_path / "nowhere") == frozenset()
