"""Builds a pool of the size that breaks an agent's reader, by recombining the sample pool's sentences.

The same arguments give the same bytes. Used by the demo, the tests and the benchmarks; the result is for looking at
and for timing, its sparks mean nothing new.
"""

from __future__ import annotations

import datetime as dt
import random
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from models.entry import Entry
from models.log import parse

HERE = Path(__file__).parent
TODAY = dt.date(2026, 4, 20)
CONTENT = ("Resonance", "Core pattern", "Chain", "Whisper", "Connection")
SIZE = 2_430
"""Bytes of one entry; 168 of them make the 400 KB that this is about."""


@dataclass(frozen=True)
class Idea:
    """What one sample entry says: title, sources, sentences."""

    title: str
    source: str
    sentences: list[str]


@dataclass(frozen=True)
class Share:
    """How many entries of one sort: tags, age in days from and to, verdict of a delve."""

    count: int
    tags: str
    youngest: int
    oldest: int
    verdict: str | None = None


MIX = (
    Share(49, "[delve]", 8, 13, "release"), Share(18, "[swarm-docs]", 15, 17), Share(18, "[swarm-fomo]", 15, 17),
    Share(15, "[swarm-meta]", 15, 17), Share(5, "[dream] [ext-signal] [expired]", 8, 13), Share(5, "[dream] [ext-signal]", 8, 13),
    Share(18, "[dream]", 8, 17), Share(8, "[daydream]", 8, 17), Share(10, "[daydream]", 0, 7), Share(6, "[delve]", 8, 17, "absorb"),
    Share(7, "[delve]", 8, 17, "park"), Share(3, "[research]", 8, 17), Share(4, "[delve]", 0, 7, "release"), Share(2, "[lucid]", 8, 17),
)  # fmt: skip


def ideas() -> list[Idea]:
    """Every sample entry's sentences."""
    files = ("dream-sparks.md", "dream-sparks-archive.md")
    entries = [e for name in files for e in parse((HERE / "memory" / name).read_bytes()).entries]
    return [idea for e in entries if len((idea := _idea(e)).sentences) > 4]


def _idea(entry: Entry) -> Idea:
    text = " ".join(value for name, value in entry.fields.items() if name in CONTENT and "```" not in value)
    sentences = [s.strip() for s in re.split(r"(?<=[.!?])\s+|\s*(?:->|→)\s*", text) if len(s.strip()) > 20]
    source = entry.fields.get("Sources", entry.fields.get("Source", "memory/notes.md"))
    return Idea(entry.title, source.split(" x ")[0].strip(), sentences)


def build(folder: Path, copies: int = 1, seed: int = 13) -> None:
    """Writes `memory/` and `knowledge/` into *folder*, with *copies* times 168 entries in the active file."""
    rng = random.Random(seed)
    shutil.copytree(HERE / "knowledge", folder / "knowledge", dirs_exist_ok=True)
    (folder / "memory").mkdir(parents=True, exist_ok=True)
    pool = ideas()
    rows: list[tuple[dt.date, str]] = []
    for share in MIX * copies:
        for _ in range(share.count):
            day = TODAY - dt.timedelta(days=rng.randint(share.youngest, share.oldest))
            rows.append((day, _entry(share, day, pool, len(rows), rng)))
    rows.sort(key=lambda row: row[0])
    (folder / "memory" / "dream-sparks.md").write_bytes(_file(rows).encode())


def _entry(share: Share, day: dt.date, pool: list[Idea], number: int, rng: random.Random) -> str:
    base = pool[number % len(pool)]
    others = rng.sample([i for i in pool if i is not base], 4)
    round_ = number // len(pool)
    title = base.title if round_ == 0 else f"{base.title}, held beside {Path(others[0].source).stem or 'notes'} ({round_})"
    stamp = f"({day} {rng.randrange(24):02d}:{rng.randrange(60):02d})" if rng.random() < 0.7 else f"({day})"
    body = _delve(share, base, others, rng) if share.tags == "[delve]" else _dream(share, base, others, rng)
    return f"### {share.tags} {title} {stamp}\n{body}\n"


def _padding(others: list[Idea], size: int) -> list[str]:
    chosen: list[str] = []
    for sentence in (s for other in others for s in other.sentences):
        if sum(len(s.encode()) + 4 for s in chosen) >= size:
            break
        chosen.append(sentence)
    return chosen


def _delve(share: Share, base: Idea, others: list[Idea], rng: random.Random) -> str:
    half = len(base.sentences) // 2
    pattern = base.sentences[half:] + _padding(others, SIZE - 1_150)
    lines = [
        f"**Source:** https://example.org/{Path(base.source).stem}", "**Type:** article",
        f"**Resonance:** {' '.join(base.sentences[:half])}", f"**Core pattern:** {' '.join(pattern)}",
        f"**Connects to:** {base.source}, {others[0].source}",
        f"**Verdict:** {share.verdict} {rng.choice(['--', '—'])} read in full on a quiet evening",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _dream(share: Share, base: Idea, others: list[Idea], rng: random.Random) -> str:
    half = len(base.sentences) // 2
    chain = base.sentences[:half] + _padding(others, SIZE - 1_150)
    first = f'**Whisper:** "{base.title.lower()}"' if share.tags == "[daydream]" else f"**Pass:** {rng.choice(['1', '1b', '2'])}"
    lines = [
        first, f"**Sources:** {base.source} x {others[0].source}", f"**Chain:** {rng.choice([' → ', ' -> ']).join(chain)}",
        f"**Signal:** {rng.choice(['resonant', 'resonant', 'faint'])}", f"**Connection:** {' '.join(base.sentences[half:])}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _file(rows: list[tuple[dt.date, str]]) -> str:
    head = (
        "---\nname: Dream Sparks\ndescription: Cross-references found overnight\ntype: reference\n---\n\n"
        f"# Dream Sparks\n\nLast dream cycle: {TODAY} 00:06\n\n"
    )
    out = [head]
    last = None
    for day, text in rows:
        if day != last:
            out.append(f"## Night of {day}\n\n")
            last = day
        out.append(text)
    return "".join(out)


if __name__ == "__main__":
    build(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
