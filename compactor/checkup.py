"""Everything that can be said of a pool's health by looking: files, places, unfinished runs, copies, the archive's proof. Read only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from compactor import publish
from compactor.journal import Desk
from compactor.lock import holder
from compactor.places import problems
from compactor.survey import tier_size
from compactor.survival import read_knowledge
from compactor.verify import verify_archive
from models.errors import ColdsparkError
from models.log import parse
from models.memory_file import read_bytes
from models.pool import Pool
from models.results import Check
from models.settings import Settings
from models.snapshot import PoolSnapshot, read_pool
from models.text import readable

_UNTOUCHED = "Nothing of it is read; see what it holds, then move it out of the memory folder."


def check_pool(pool: Pool, settings: Settings) -> Iterator[Check]:
    """Every finding about one pool, worst or not; what several checks come upon is told once."""
    try:
        snapshot = read_pool(pool)
    except ColdsparkError as error:
        yield _problem(pool, "files", error)
        return
    told: set[str] = set()
    for check in (_files, _places, _runs, _set_aside, _copies, _twice, _archive, _knowledge, _layout):
        for found in _guarded(check, pool, snapshot):
            if found.status != "problem" or not any(found.message in sentence or sentence in found.message for sentence in told):
                yield found
            told.add(found.message)
    yield _size(pool, snapshot, settings)


def _guarded(check: Callable[[Pool, PoolSnapshot], Iterator[Check]], pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    """A check that cannot be made is a finding itself, and hides no other."""
    try:
        yield from check(pool, snapshot)
    except (ColdsparkError, OSError) as error:
        yield _problem(pool, check.__name__.strip("_"), error)


def _files(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    yield from (_problem(pool, "files", error) for error in snapshot.problems)
    if not snapshot.problems:
        tiers = Counter(placed.tier for placed in snapshot.entries)
        files = len(snapshot.tier("archive"))
        entries = f"{tiers['active']} active and {tiers['archive']} archived entries"
        yield _ok(pool, "files", f"{entries}; {files} archive {_plural('file', files)}")


def _places(pool: Pool, _snapshot: PoolSnapshot) -> Iterator[Check]:
    found = list(problems(pool, replaced=(pool.active,), appended=tuple(pool.archive_files()[-1:])))
    yield from (_problem(pool, "places", error) for error in found)
    if not found:
        yield _ok(pool, "places", "the active file can be replaced, and the archive written to")


def _runs(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    desk = Desk.of(pool)
    if (pid := holder(desk.lock)) is not None:
        yield _warning(pool, "runs", f"a compaction is going on ({pid})", "Wait for it to finish.")
        return
    journal = desk.read()
    if journal is not None:
        what = "moving entries" if journal.batch else "carrying late text over"
        yield _warning(
            pool,
            "runs",
            f"a run was cut short while {what}; every entry is there, and counts once",
            "Run `coldspark compact` to settle it.",
        )
    late = [(s, each.source.name) for each in (desk, Desk.of_archive(pool)) for s in publish.late(each)]
    for replaced, successor in late:
        yield _warning(
            pool, "runs", f"another program wrote to a file after it had been replaced ({readable(replaced.path.name)})",
            f"Run `coldspark compact`: it carries the text over into the {'active file' if successor == desk.source.name else successor}.",
        )  # fmt: skip
    if journal is None and not late and snapshot.pending is None:
        yield _ok(pool, "runs", "no run was cut short, and no late text waits")


def _set_aside(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    for path in snapshot.set_aside:
        message = f"{readable(str(path))} was written by another program while a tier was replaced;{_strange(path, snapshot)}"
        yield _warning(pool, "set-aside", message, "Append what is missing to the active file, then remove it.")


def _copies(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    for path in snapshot.copies:
        found = _strange(path, snapshot)
        yield _warning(
            pool, "copies", f"{readable(str(path))} looks like a copy of a tier (a sync conflict or a backup);{found}", _UNTOUCHED
        )


def _strange(path: Path, snapshot: PoolSnapshot) -> str:
    """How many entries of a file are in neither tier."""
    try:
        entries = parse(read_bytes(path, "copy")[0]).entries
    except ColdsparkError as error:
        return f" {error}"
    missing = Counter(e.version for e in entries) - Counter(p.entry.version for p in snapshot.entries)
    if not missing:
        return f" all {len(entries)} entries of it are in the tiers too"
    return f" {missing.total()} of its {len(entries)} entries are in neither tier as they stand there"


def _twice(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    tiers = {tier: Counter(p.entry.version for p in snapshot.entries if p.tier == tier) for tier in ("active", "archive")}
    both = (tiers["active"] & tiers["archive"]).total()
    if both:
        message = f"{both} {'entry stands' if both == 1 else 'entries stand'} in both tiers, byte for byte the same"
        yield _warning(pool, "tiers", message, "Was the active file restored from a backup? Remove them there by hand if you like.")


def _archive(pool: Pool, _snapshot: PoolSnapshot) -> Iterator[Check]:
    found = verify_archive(pool)
    for problem in found.problems:
        where = f"{problem.file}:{problem.line}" if problem.line else problem.file
        yield Check(
            name="archive", pool=pool.name, status="problem", message=f"{where}: {problem.message}",
            advice="Compare it with a backup; `coldspark archive verify` lists every batch.",
        )  # fmt: skip
    if not found.problems:
        unrecorded = f"; of {found.unrecorded} no checksum was recorded, but their headings fit" if found.unrecorded else ""
        yield _ok(pool, "archive", f"{found.proven} of {found.batches} batches proven by checksum{unrecorded}")


def _knowledge(pool: Pool, _snapshot: PoolSnapshot) -> Iterator[Check]:
    found = read_knowledge(pool.knowledge_dir)
    for path, line, message in found.warnings:
        yield _warning(pool, "knowledge", f"{readable(str(path))}{f':{line}' if line else ''}: {message}", None)
    if not found.warnings:
        yield _ok(pool, "knowledge", f"the survival log keeps {len(found.anchors)} anchors alive; {len(found.sessions)} session logs")


def _layout(pool: Pool, snapshot: PoolSnapshot) -> Iterator[Check]:
    found = [(file, w) for file in snapshot.files for w in file.log.warnings]
    if found:
        file, first = found[0]
        message = f"{len(found)} {_plural('line', len(found))} to look at, first {readable(str(file.path))}:{first.line}: {first.message}"
        yield _warning(pool, "layout", message, "`coldspark entries` lists them.")


def _size(pool: Pool, snapshot: PoolSnapshot, settings: Settings) -> Check:
    data = b"".join(f.data for f in snapshot.tier("active"))
    size = tier_size(data, 0, settings)
    lines = size.lines
    if size.over_target:
        return _warning(pool, "size", f"the active file is over its target ({lines} lines, {len(data)} bytes)", "Run `coldspark compact`.")
    return _ok(pool, "size", f"the active file is within its targets ({lines} lines, {len(data)} bytes)")


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _ok(pool: Pool, name: str, message: str) -> Check:
    return Check(name=name, pool=pool.name, status="ok", message=message)


def _warning(pool: Pool, name: str, message: str, advice: str | None) -> Check:
    return Check(name=name, pool=pool.name, status="warning", message=message, advice=advice)


def _problem(pool: Pool, name: str, error: Exception) -> Check:
    """An error's sentence says what to do as well."""
    return Check(name=name, pool=pool.name, status="problem", message=readable(str(error)))
