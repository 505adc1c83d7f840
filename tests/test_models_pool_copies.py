"""Names that sync services, file managers and editors leave beside the tiers, and names that merely begin alike."""

from __future__ import annotations

import unicodedata

import pytest

from compactor.compact import compact, dry_run
from compactor.durable import Disk
from models.pool import Pool
from models.settings import Settings
from models.snapshot import read_pool
from service import operations
from tests.compactor_disks import MIXED, OLD_ARCHIVE, lay, request, tree
from tests.compactor_places import doctor_says
from tests.samples import KILN, delve, log

COPIES = [
    # Dropbox
    "dream-sparks (Anna's conflicted copy 2026-05-04).md", "dream-sparks (conflicted copy).md", "dream-sparks (Case Conflict).md",
    "dream-sparks (Selective Sync Conflict).md", "dream-sparks (Annas in Konflikt stehende Kopie 2026-05-04).md",
    "dream-sparks (Copie en conflit de Anna 2026-05-04).md", "dream-sparks (copia en conflicto de Ana 2026-05-04).md",
    # Syncthing
    "dream-sparks.sync-conflict-20260504-021000-ABCDEF7.md", "dream-sparks-archive.sync-conflict-20260504-021000-ABCDEF7.md",
    "dream-sparks-archive-2026-Q1.sync-conflict-20260504-021000-ABCDEF7.md",
    # OneDrive, Nextcloud, Google Drive
    "dream-sparks-DESKTOP-AB12CD.md", "dream-sparks-DESKTOP-AB12CD-2.md", "dream-sparks_conf(1).md", "dream-sparks [Conflict].md",
    "Copy of dream-sparks.md", "Kopie von dream-sparks.md",
    # iCloud and file managers
    "dream-sparks 2.md", "dream-sparks-archive 12.md", "dream-sparks(1).md", "dream-sparks (1).md", "dream-sparks-archive-2026-Q1 2.md",
    "dream-sparks copy.md", "dream-sparks copy 2.md", "dream-sparks - Copy.md", "dream-sparks - Copy (2).md", "dream-sparks Kopie.md",
    "dream-sparks - Kopie (2).md", "dream-sparks - Copie.md", "dream-sparks - Cópia.md", "dream-sparks - Kopia.md",
    "dream-sparks (copy 1).md",
    # editors and people
    "dream-sparks.md~", "dream-sparks.md.bak", "dream-sparks.md.orig", "dream-sparks.md.tmp", "dream-sparks.md.1", "dream-sparks.md.~1~",
    "dream-sparks.bak", "dream-sparks.bak.md", "dream-sparks-backup.md", "dream-sparks.old.md", "dream-sparks.md.swp",
    ".dream-sparks.md.swp", "#dream-sparks.md#", "dream-sparks-archive-2026-Q1.md.bak", "DREAM-SPARKS (1).MD",
]  # fmt: skip
OTHERS = [
    "dream-sparks-notes.md", "dream-sparks-archive-2026-Q1.md", "dream-sparks-reviews.jsonl", "other.md", "daydream-sparks.md",
    "dream-sparks-summary.md", "dream-sparks-archived.md", "dream-sparksler.md", "dream-sparks-archive-index.md",
    "dream-sparks-copywriting.md", "dream-sparks-conflict-resolution.md", "dream-sparks-copy-editing.md",
    "dream-sparks-README.md", "dream-sparks-TODO.md", "dream-sparks-2026.md", "dream-sparks.json", "dream-sparks.html", "dream-sparks.lock",
    ".coldspark", "dream-sparks.md", "dream-sparks-archive.md", "dream-sparks.d",
]  # fmt: skip


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_is_known_by_its_name(pool: Pool, name: str) -> None:
    """Whatever made it, and whichever way the system spells its accents."""
    for spelt in {name, unicodedata.normalize("NFD", name)}:
        path = pool.memory_dir / spelt
        path.write_bytes(KILN)
        assert pool.copies() == [path]
        path.unlink()


@pytest.mark.parametrize("name", OTHERS)
def test_what_merely_begins_alike_is_no_copy(pool: Pool, name: str) -> None:
    """Notes, indexes, the tiers themselves and everybody's own files are not warned about."""
    (pool.memory_dir / name).write_bytes(KILN)
    assert pool.copies() == []


def test_copies_follow_the_names_that_are_set(pool: Pool) -> None:
    """Other tiers have other look-alikes; characters of the name that mean something in a pattern mean themselves."""
    named = Pool("p", pool.memory_dir, active_file="log[1]+.md", archive_file="cold")
    for name in ("log[1]+ (1).md", "log1 (1).md", "cold 2", "cold.bak", "colder", "dream-sparks (1).md"):
        (pool.memory_dir / name).touch()
    assert [p.name for p in named.copies()] == ["cold 2", "cold.bak", "log[1]+ (1).md"]


def test_our_own_temporary_files_are_no_copies(pool: Pool) -> None:
    """What an unfinished run leaves is its own to settle."""
    (pool.memory_dir / ".dream-sparks.md.20260615T120000-abc123.tmp").touch()
    assert pool.copies() == []


def test_copies_are_told_of_and_never_touched(pool: Pool) -> None:
    """`status`, `compact`, its plan and `doctor` name each once; their entries count nowhere, their bytes and times stay."""
    lay(pool, archive=OLD_ARCHIVE)
    names = ["dream-sparks (conflicted copy 2026-05-04).md", "dream-sparks-archive 2.md", "dream-sparks.md.bak"]
    for name in names:
        (pool.memory_dir / name).write_bytes(MIXED + delve("Only here", "2026-05-09"))
    paths = [str(pool.memory_dir / name) for name in sorted(names)]
    before = {path: tree(pool.memory_dir)[path] for path in paths}
    settings = Settings(memory_dir=pool.memory_dir, state_dir=pool.memory_dir.parent / "state")

    def told(files: list[str]) -> list[str]:
        return [file for file in files if file in paths]

    assert told([w.file for w in operations.status(settings).pools[0].warnings]) == paths
    assert told([w.file for w in operations.entries(settings).warnings]) == paths
    assert told([w.file for w in dry_run(request(pool)).warnings]) == paths
    assert "Only here" not in [e.title for e in operations.entries(settings).entries]
    assert told([w.file for w in compact(request(pool), Disk()).warnings]) == paths
    assert {path: tree(pool.memory_dir)[path] for path in paths} == before
    assert "Only here" not in [p.entry.title for p in read_pool(pool).entries]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (MIXED, "all 7 entries of it are in the tiers too"),
        (MIXED + b"\n\n" + delve("Only here", "2026-05-09"), "1 of its 8 entries are in neither tier as they stand there"),
        (MIXED.replace(b"absorb -- fits", b"absorb -- edited"), "1 of its 7 entries are in neither tier as they stand there"),
        (log(KILN, KILN), "1 of its 2 entries are in neither tier as they stand there"),  # one is in the tiers, its twin is not
        (b"", "all 0 entries of it are in the tiers too"),
        (b"\xff\xfe\x00 no log", "all 0 entries of it are in the tiers too"),
    ],
    ids=["same", "one-more", "one-edited", "a-twin-more", "empty", "no-log"],
)
def test_doctor_counts_what_only_a_copy_holds(pool: Pool, data: bytes, says: str) -> None:
    """An entry counts as there when the tiers have it byte for byte, as often as the copy has."""
    lay(pool, archive=OLD_ARCHIVE)
    copy = pool.memory_dir / "dream-sparks 2.md"
    copy.write_bytes(data)
    (told,) = (told for told in doctor_says(pool, "warning") if told.startswith("copies"))
    assert told == (
        f"copies: {copy} looks like a copy of a tier (a sync conflict or a backup); {says}"
        " Nothing of it is read; see what it holds, then move it out of the memory folder."
    )


def test_a_copy_in_both_tiers_is_looked_up_in_both(pool: Pool) -> None:
    """A backup from before a compaction holds what is archived by now."""
    lay(pool, archive=OLD_ARCHIVE)
    copy = pool.memory_dir / "dream-sparks.md.bak"
    copy.write_bytes(MIXED)
    compact(request(pool), Disk())
    told = [told for told in doctor_says(pool, "warning") if told.startswith("copies")]
    assert len(told) == 1
    assert "all 7 entries of it are in the tiers too" in told[0]
