"""Public test collections as pools: documents become entries, questions keep the entries that answer them.

    locomo/    LoCoMo (Maharana et al., ACL 2024): sessions of long conversations; a question searches its own conversation
    cranfield/, cisi/    the SMART collections of abstracts
    pairs/     sparks with labelled queries, half by meaning and half by a name or term

Questions are dealt in two halves. One chose the settings of recall; the other is what `make bench` reports.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from models.pool import Pool
from models.query import Filters

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December")
_DAY = "2026-01-01"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, the filters it comes with, and the gain of each entry that answers it, by title; `chose` tells of its half."""

    text: str
    gains: Mapping[str, float]
    chose: bool
    filters: Filters = field(default_factory=Filters)


@dataclass(frozen=True, slots=True)
class Collection:
    """A pool and what is asked of it; `measure` is recall at 5 and 10, or nDCG at 10, or whether any answer is in the first 5."""

    name: str
    pool: Pool
    questions: list[Asked]
    measure: str


def collections(data: Path, work: Path) -> Iterator[Collection]:
    """Every collection that lies below *data*; pools are written below *work*."""
    if (path := data / "data" / "locomo" / "locomo10.json.gz").is_file():
        yield _locomo(path, work / "locomo")
    if (folder := data / "data" / "cranfield").is_dir():
        yield _cranfield(folder, work / "cranfield")
    if (folder := data / "data" / "cisi").is_dir():
        yield _cisi(folder, work / "cisi")
    if (folder := data / "corpus" / "pairs").is_dir():
        yield from _sparks(folder)


def _pool(work: Path, entries: list[str]) -> Pool:
    pool = Pool("default", work / "memory", None)
    pool.memory_dir.mkdir(parents=True)
    pool.active.write_text("# Dream Sparks\n", encoding="utf-8")
    pool.archive.write_text("# Dream Sparks Archive\n\n" + "".join(entries), encoding="utf-8")
    return pool


def _locomo(path: Path, work: Path) -> Collection:
    entries, questions = [], []
    for number, sample in enumerate(json.loads(gzip.decompress(path.read_bytes()))):
        name, conversation = sample["sample_id"], sample["conversation"]
        for key in (k for k in conversation if re.fullmatch(r"session_\d+", k)):
            day, month, year = re.findall(r"(\d+) (\w+), (\d{4})", conversation[f"{key}_date_time"])[0]
            date = f"{year}-{_MONTHS.index(month) + 1:02d}-{int(day):02d}"
            turns = "\n".join(_turn(turn) for turn in conversation[key])
            entries.append(f"### [dream] [{name}] {name} {key[8:]} ({date})\n**Connection:** {turns}\n\n")
        for asked in sample["qa"]:
            sessions = {int(n) for n in re.findall(r"D(\d+):\d+", " ".join(asked.get("evidence", [])))}
            if sessions:
                gains = {f"{name} {n}": 1.0 for n in sessions}
                questions.append(Asked(asked["question"], gains, number % 2 == 0, Filters(tags=(name,))))
    return Collection("LoCoMo", _pool(work, entries), questions, "recall")


def _turn(turn: Mapping[str, str]) -> str:
    shared = f" [shares {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{shared}".replace("\n", " ")


def _smart(path: Path) -> Iterator[dict[str, str]]:
    """Records of a SMART file: the fields by letter, "I" being the number."""
    record: dict[str, str] = {}
    letter = ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if m := re.fullmatch(r"\.([A-Z])\s*(\d*)\s*", line):
            if m[1] == "I":
                if record:
                    yield record
                record = {"I": m[2]}
            letter = m[1]
        else:
            record[letter] = record.get(letter, "") + f" {line.strip()}"
    yield record


def _abstract(record: Mapping[str, str]) -> str:
    title, text = (" ".join(record.get(field, "").split()) for field in "TW")
    text = text.removeprefix(title).strip()
    return f"### [dream] {record['I']} {title} ({_DAY})\n**Connection:** {text}\n\n"


def _abstracts(name: str, work: Path, records: Iterator[dict[str, str]], questions: list[Asked]) -> Collection:
    entries = list(map(_abstract, records))
    titles = {entry.split(" ", 3)[2]: entry[len("### [dream] ") : entry.index(f" ({_DAY})")] for entry in entries}
    named = [Asked(q.text, {titles[n]: g for n, g in q.gains.items() if n in titles}, q.chose) for q in questions]
    return Collection(name, _pool(work, entries), named, "ndcg")


def _cranfield(folder: Path, work: Path) -> Collection:
    gains: dict[int, dict[str, float]] = defaultdict(dict)
    for line in (folder / "cranqrel").read_text(encoding="ascii").splitlines():
        query, document, code = line.split()[:3]
        if int(code) > 0:
            gains[int(query)][document] = 5.0 - int(code)  # code 1 is a complete answer
    asked = [Asked(q["W"].strip(), gains[n], n % 2 == 1) for n, q in enumerate(_smart(folder / "cran.qry"), 1) if gains[n]]
    return _abstracts("Cranfield", work, _smart(folder / "cran.all.1400"), asked)


def _cisi(folder: Path, work: Path) -> Collection:
    gains: dict[str, dict[str, float]] = defaultdict(dict)
    for line in (folder / "CISI.REL").read_text(encoding="ascii").splitlines():
        query, document = line.split()[:2]
        gains[query][document] = 1.0
    queries = [q for q in _smart(folder / "CISI.QRY") if gains[q["I"]]]
    asked = [Asked(" ".join((q.get("T", "") + q.get("W", "")).split()), gains[q["I"]], n % 2 == 0) for n, q in enumerate(queries)]
    return _abstracts("CISI", work, _smart(folder / "CISI.ALL"), asked)


def _sparks(folder: Path) -> Iterator[Collection]:
    pool = Pool("default", folder / "memory", folder / "knowledge")
    queries = json.loads((folder / "key.json").read_text(encoding="utf-8"))["queries"]
    for kind in ("meaning", "lexical"):
        of_kind = [q for q in queries if q["kind"] == kind]
        asked = [Asked(q["query"], dict.fromkeys(q["relevant"], 1.0), n % 2 == 0) for n, q in enumerate(of_kind)]
        yield Collection(f"sparks, by {'meaning' if kind == 'meaning' else 'a term'}", pool, asked, "any")
