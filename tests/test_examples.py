"""The sample pool holds every tag, verdict and rule; the pool made from it has the size that breaks a reader."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

from compactor.compact import dry_run
from compactor.survey import Request
from examples.make_pool import HERE, TODAY, build
from models.log import BATCH_HEADING, parse
from models.pool import Pool
from models.settings import READER_LIMIT_BYTES, Settings
from models.snapshot import read_pool

SAMPLE = Pool("sample", HERE / "memory", HERE / "knowledge")


def test_the_sample_has_every_tag_verdict_and_signal() -> None:
    """What the format knows occurs at least once, a tag of the future among it."""
    entries = [p.entry for p in read_pool(SAMPLE).entries]
    tags = {tag for e in entries for tag in e.tags}
    known = {
        "dream",
        "daydream",
        "delve",
        "swarm-docs",
        "swarm-fomo",
        "swarm-meta",
        "ext-signal",
        "expired",
        "research",
        "noise",
        "prior-work",
    }
    assert known < tags
    assert {e.verdict.word if e.verdict else None for e in entries if e.kind == "delve"} == {"absorb", "park", "release", None}
    assert {e.signal for e in entries} >= {"resonant", "faint", "noise"}
    assert {name.casefold() for e in entries for name, _ in e.heading.annotations} == {"consumed", "dead"}


def test_every_rule_decides_on_a_sample() -> None:
    """On the sample's day each row of the table has an active entry to show."""
    decisions = dry_run(Request(SAMPLE, Settings(), TODAY, force=True)).decisions
    assert {int(d.rule.split()[0]) for d in decisions} == set(range(1, 12))


def test_the_samples_batches_are_what_their_headings_say() -> None:
    """Counts and date ranges of the archive's headings are true."""
    data = SAMPLE.archive.read_bytes()
    headings = list(BATCH_HEADING.finditer(data))
    assert len(headings) == 2
    for m in headings:
        day = dt.date.fromisoformat(m[1].decode())
        dates = [e.date for e in parse(data, archive=True).entries if e.batch_date == day and e.date]
        assert (len(dates), str(min(dates)), str(max(dates))) == (int(m[2]), m[3].decode(), m[4].decode())


def test_the_made_pool_breaks_the_reader_until_it_is_compacted(tmp_path: Path) -> None:
    """At least 160 entries, 1,200 lines and 400 KB before; under every target after; the same bytes every time."""
    for name in ("a", "b"):
        build(tmp_path / name)
    pool = Pool("made", tmp_path / "a" / "memory", tmp_path / "a" / "knowledge")
    data = pool.active.read_bytes()
    assert data == (tmp_path / "b" / "memory" / "dream-sparks.md").read_bytes()
    assert len(re.findall(rb"(?m)^### \[", data)) == len(parse(data).entries) >= 160
    assert data.count(b"\n") >= 1_200
    assert len(data) >= 400 * 1024 > READER_LIMIT_BYTES
    plan = dry_run(Request(pool, Settings(), TODAY))
    kept = len(data) - sum(
        len(e.raw) for e in parse(data).entries if e.content_id in {d.id for d in plan.decisions if d.action == "archive"}
    )
    assert kept < Settings().target_bytes
