"""What each operation answers: the JSON shapes of the command line and of HTTP."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from models.pool import Tier


class Result(BaseModel):
    """A frozen value that knows its JSON."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class FileWarning(Result):
    """Something that looks wrong; `line` counts from 1, and is None where it concerns the whole file."""

    file: str
    line: int | None = None
    message: str


class EntryView(Result):
    """One entry as listed: byte offsets are of the verbatim text in its file, the end is exclusive."""

    id: str
    pool: str
    tier: Tier
    file: str
    line_start: int
    line_end: int
    byte_start: int
    byte_end: int
    kind: str
    tags: list[str]
    annotations: dict[str, str]
    title: str
    date: str | None
    time: str | None
    verdict: str | None
    verdict_reason: str | None
    signal: str | None
    batch_date: str | None
    version: str
    fields: dict[str, str]
    warnings: list[str]


class EntriesResult(Result):
    """`entries`."""

    entries: list[EntryView]
    warnings: list[FileWarning]


class TierSize(Result):
    """How large the active file is, and whether that is over the target."""

    lines: int
    bytes: int
    entries: int
    over_target: bool


class ArchiveSize(Result):
    """The archive file that compaction appends to, and what all files of the tier hold together."""

    file: str
    bytes: int
    entries: int


class DecisionView(Result):
    """What the rules say of one entry; `rule` begins with the rule's number."""

    id: str
    title: str
    rule: str
    action: Literal["keep", "archive"]
    age_days: int | None


class HeldByRule(Result):
    """How much of the active file one rule keeps there."""

    rule: str
    entries: int
    bytes: int


class CompactResult(Result):
    """`compact`, for one pool."""

    status: Literal["compacted", "already-compact", "nothing-to-archive", "planned"]
    pool: str
    today: str
    archived: int
    kept: int
    active: TierSize
    archive: ArchiveSize
    decisions: list[DecisionView]
    held: list[HeldByRule]
    advice: str | None = None
    warnings: list[FileWarning]
    conserved: str | None = None


class SplitOff(Result):
    """What `archive split` brought to one quarter's file."""

    file: str
    batches: int
    entries: int
    bytes: int


class SplitResult(Result):
    """`archive split`, for one pool; `left` entries are in no dated batch and stay in the first file."""

    status: Literal["split", "nothing-to-split", "planned"]
    pool: str
    moved: list[SplitOff]
    left: int
    archive: ArchiveSize
    conserved: str | None = None
    warnings: list[FileWarning] = []


class SplitReport(Result):
    """`archive split`, over several pools."""

    pools: list[SplitResult]


class VerifiedFile(Result):
    """One archive file: its batches, and how many of them are as their recorded checksum says."""

    file: str
    bytes: int
    entries: int
    batches: int
    proven: int


class VerifyResult(Result):
    """`archive verify`, for one pool. `unrecorded` batches have no checksum: only their headings could be checked."""

    status: Literal["verified", "damaged"]
    pool: str
    files: list[VerifiedFile]
    entries: int
    batches: int
    proven: int
    unrecorded: int
    problems: list[FileWarning]
    warnings: list[FileWarning]


class VerifyReport(Result):
    """`archive verify`, over several pools."""

    pools: list[VerifyResult]


class Check(Result):
    """One finding of `doctor`: what was looked at, how it is, and what to do where that is not well."""

    name: str
    pool: str | None = None
    status: Literal["ok", "warning", "problem"]
    message: str
    advice: str | None = None


class DoctorResult(Result):
    """`doctor`: every check, and the worst status among them."""

    status: Literal["ok", "warning", "problem"]
    checks: list[Check]


class CompactReport(Result):
    """`compact`, over several pools."""

    pools: list[CompactResult]


class IndexedEntries(Result):
    """Entries in the index, by tier."""

    active: int
    archive: int


class IndexResult(Result):
    """`index`: what one sync did. `embedded` and `reused` count passages, `added`, `moved` and `removed` entries.

    `rebuild` says why a new index was, or would be, built beside the old one; `degraded` why answers go by words alone.
    """

    status: Literal["ok", "degraded", "planned"]
    entries: IndexedEntries
    passages: int
    embedded: int
    reused: int
    added: int
    moved: int
    removed: int
    seconds: float
    stale: str | None = None
    rebuild: str | None = None
    degraded: str | None = None
    warnings: list[FileWarning] = []


class PassageView(Result):
    """The part of an entry that matched: a verbatim slice, by byte offsets in the entry."""

    text: str
    start: int
    end: int


class MatchedPart(Result):
    """A term, phrase or date of the question: what share of the question's information it gave, and could have given at most."""

    name: str
    share: float
    most: float


class Explanation(Result):
    """What a score is made of.

    `meaning` is the cosine of the hit's passage, None where only words counted, times `legible`: how much of the question
    the model could read. `words` is the share of the question's information that was literally there, made of `matched`;
    of `missing` the entry has nothing.
    """

    meaning: float | None
    legible: float
    words: float
    matched: list[MatchedPart]
    missing: list[str]


class Hit(Result):
    """One entry found; `text` is verbatim, a preview, or absent, as asked for."""

    id: str
    score: float
    tier: Tier
    pool: str
    file: str
    line_start: int
    line_end: int
    batch_date: str | None
    kind: str
    tags: list[str]
    title: str
    date: str | None
    verdict: str | None
    signal: str | None
    text: str | None
    passage: PassageView | None
    explanation: Explanation | None = None


class RecallResult(Result):
    """`recall`. Scores lie in 0 to 1, higher is better; they compare within one mode. `near_misses` come after the limit."""

    query: str
    mode: Literal["hybrid", "semantic", "lexical"]
    degraded: str | None
    stale: str | None
    hits: list[Hit]
    near_misses: list[Hit] | None = None
    took_ms: float


class EntryResult(EntryView):
    """`show`: one entry with its whole text; `lossy` says that the bytes are not UTF-8 and only HTTP's text/markdown has them."""

    text: str
    lossy: bool
    stale: str | None = None


class PoolStatus(Result):
    """One pool's tiers beside the limits."""

    pool: str
    memory_dir: str
    knowledge_dir: str | None
    active: TierSize
    tokens_estimate: int
    archive: ArchiveSize
    warnings: list[FileWarning]


class IndexStatus(Result):
    """What the index holds and how fresh it is."""

    path: str
    entries: IndexedEntries
    passages: int
    model: str | None
    synced_at: str | None
    stale: str | None


class StatusResult(Result):
    """`status`."""

    version: str
    pools: list[PoolStatus]
    index: IndexStatus
    service: str | None
    stale: str | None = None


class ReadyResult(Result):
    """`/readyz` of a service that answers questions in full, and how fresh its answers are."""

    status: Literal["ready"] = "ready"
    stale: str | None
    synced_at: str | None
    entries: IndexedEntries
