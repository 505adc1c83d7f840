"""Results as people read them on a terminal. Each function turns one result into text."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import click

from models.results import (
    CompactReport,
    CompactResult,
    DoctorResult,
    EntriesResult,
    EntryResult,
    Explanation,
    FileWarning,
    Hit,
    IndexResult,
    PoolStatus,
    RecallResult,
    SplitReport,
    SplitResult,
    StatusResult,
    TierSize,
    VerifyReport,
    VerifyResult,
)
from models.settings import READER_LIMIT_BYTES, READER_LIMIT_TOKENS

_MOST_WARNINGS = 8
_HEADING = re.compile(r"\A *### .*(?:\n|\Z)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s+(?=(?:->|→) )")
_LABELS = re.compile(r"^\*\*(?:(?:Pass|Signal|Type|Sources?):\*\*.*$|[^*\n]{1,60}:\*\*)", re.MULTILINE)


def kilobytes(count: int) -> str:
    """Bytes as KB of 1,024, in whole numbers from 10 on."""
    size = count / 1024
    return f"{size:.1f} KB" if 0 < size < 10 else f"{size:,.0f} KB"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def table(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Columns as wide as their widest cell, those in *right* flush right; the last one is cut to the terminal."""
    cells = [list(row) for row in rows]
    if not cells:
        return ""
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    out = []
    for row in cells:
        parts = [cell.rjust(w) if i in right else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        out.append(_cut("  ".join(parts).rstrip()))
    return "\n".join(out) + "\n"


def status(result: StatusResult) -> str:
    """Both tiers beside their limits, the index, the service."""
    out = [_pool(p) for p in result.pools]
    i = result.index
    fresh = i.stale or f"synced {i.synced_at}"
    out.append(f"index    {i.entries.active} active + {i.entries.archive} archived entries, {i.passages} passages; {fresh}\n")
    out.append(f"service  {result.service or 'not running; start it with `coldspark serve`'}\n")
    return "".join(out) + _warnings([w for p in result.pools for w in p.warnings])


def _pool(p: PoolStatus) -> str:
    a = p.active
    state = "over target; `coldspark compact` is due" if a.over_target else "within target"
    rows = [
        ("", "lines", "size", "tokens", "entries", ""),
        ("active", f"{a.lines:,}", kilobytes(a.bytes), f"~{p.tokens_estimate:,}", f"{a.entries:,}", state),
        ("archive", "", kilobytes(p.archive.bytes), "", f"{p.archive.entries:,}", "never loaded whole"),
        ("reader", "", kilobytes(READER_LIMIT_BYTES), f"{READER_LIMIT_TOKENS:,}", "", "limits of an agent's Read tool"),
    ]
    return f"pool     {p.pool} ({p.memory_dir})\n" + table(rows, frozenset({1, 2, 3, 4})) + "\n"


def entries(result: EntriesResult) -> str:
    """One line an entry."""
    rows = [("id", "tier", "date", "kind", "verdict", "signal", "title")]
    rows += [(e.id, e.tier, e.date or "-", e.kind, e.verdict or "-", e.signal or "-", e.title) for e in result.entries]
    return table(rows) + f"{len(result.entries)} entries\n" + _warnings(result.warnings)


def compaction(result: CompactResult | CompactReport) -> str:
    """What moved, what stays, and what holds it."""
    if isinstance(result, CompactReport):
        return "\n".join(compaction(r) for r in result.pools)
    nothing = f"No entries, nothing to do (pool {result.pool})" if not result.decisions else None
    out = [f"{nothing or _COMPACTED[result.status].format(r=result)}\n", f"active   {_size(result.active)}\n"]
    out.append(f"archive  {result.archive.entries:,} entries, {kilobytes(result.archive.bytes)} ({result.archive.file})\n")
    if result.conserved:
        out.append(f"proof    {result.conserved}\n")
    if result.advice:
        out.append("still over target; what stays, by rule:\n")
        out.append(table([("", h.rule, f"{h.entries:,} entries", kilobytes(h.bytes)) for h in result.held], frozenset({2, 3})))
        out.append(f"advice   {result.advice}\n")
    return "".join(out) + _warnings(result.warnings)


_COMPACTED = {
    "compacted": "{r.archived} entries archived, {r.kept} kept (pool {r.pool}, {r.today})",
    "planned": "Would archive {r.archived} entries and keep {r.kept} (pool {r.pool}, {r.today}); nothing was written",
    "already-compact": "Nothing to do: the active file is within its targets (pool {r.pool}, {r.today}); --force compacts all the same",
    "nothing-to-archive": "Nothing to do: the rules keep all {r.kept} entries (pool {r.pool}, {r.today})",
}


def explained_compaction(result: CompactResult | CompactReport) -> str:
    """The decision on every entry, then the summary."""
    results = result.pools if isinstance(result, CompactReport) else [result]
    rows = [("action", "rule", "age", "id", "title")]
    rows += [(d.action, d.rule, "-" if d.age_days is None else f"{d.age_days}d", d.id, d.title) for r in results for d in r.decisions]
    counts = Counter((d.rule, d.action) for r in results for d in r.decisions)
    summary = [(action, rule, str(n)) for (rule, action), n in sorted(counts.items(), key=lambda c: int(c[0][0].split()[0]))]
    return table(rows, frozenset({2})) + "\n" + table(summary, frozenset({2})) + "\n" + compaction(result)


def verification(result: VerifyResult | VerifyReport) -> str:
    """What the archive's batches prove, file by file."""
    if isinstance(result, VerifyReport):
        return "\n".join(verification(r) for r in result.pools)
    rows = [("batches", "proven", "entries", "size", "file")]
    rows += [(f"{f.batches:,}", f"{f.proven:,}", f"{f.entries:,}", kilobytes(f.bytes), f.file) for f in result.files]
    if result.problems:
        verdict = "DAMAGED: not everything is as it was written"
    elif result.batches == 0:
        verdict = "There is no batch to verify"
    else:
        verdict = f"{result.proven} of {result.batches} batches are byte for byte as they were written"
    rest = f"; {result.unrecorded} have no recorded checksum, their headings fit" if result.unrecorded and not result.problems else ""
    return (
        table(rows, frozenset({0, 1, 2, 3})) + f"{verdict}{rest} (pool {result.pool})\n" + _warnings([*result.problems, *result.warnings])
    )


def splitting(result: SplitResult | SplitReport) -> str:
    """What went to which quarter."""
    if isinstance(result, SplitReport):
        return "\n".join(splitting(r) for r in result.pools)
    would = "would go" if result.status == "planned" else "went"
    rows = [
        (counted(m.entries, "entry", "entries"), counted(m.batches, "batch", "batches"), kilobytes(m.bytes), m.file) for m in result.moved
    ]
    total, files = sum(m.entries for m in result.moved), counted(len(rows), "quarterly file")
    head = f"{counted(total, 'entry', 'entries')} {would} to {files} (pool {result.pool})\n"
    out = table(rows, frozenset({0, 1, 2})) if rows else ""
    out = head + out if rows else f"Nothing to split: the archive has no dated batch (pool {result.pool})\n"
    return out + (f"proof    {result.conserved}\n" if result.conserved and rows else "") + _warnings(result.warnings)


_MARKS = {"ok": ("ok", "green"), "warning": ("!", "yellow"), "problem": ("FAIL", "red")}


def checks(result: DoctorResult) -> str:
    """One line a check, with the way out below what is not well."""
    out = []
    for check in result.checks:
        mark, colour = _MARKS[check.status]
        name = check.name if check.pool is None else f"{check.name} ({check.pool})"
        out.append(f"{click.style(f'{mark:<4}', fg=colour)} {name:<20} {check.message}\n")
        if check.advice:
            out.append(f"{'':<25} -> {check.advice}\n")
    count = Counter(check.status for check in result.checks)
    problems, warnings = counted(count["problem"], "problem"), counted(count["warning"], "warning")
    return "".join(out) + f"{problems}, {warnings}; {counted(count['ok'], 'check')} well\n"


def sync(result: IndexResult) -> str:
    """What a sync did."""
    e = result.entries
    done = (
        f"{e.active} active + {e.archive} archived entries, {result.passages} passages"
        f" ({result.embedded} embedded, {result.reused} reused; {result.added} added, {result.moved} moved, {result.removed} removed;"
        f" {result.seconds:.1f} s)\n"
    )
    label = "Would sync: " if result.status == "planned" else "Indexed "
    anew = f"A new index {'would be' if result.status == 'planned' else 'was'} built: {result.rebuild}.\n" if result.rebuild else ""
    if result.rebuild and result.status == "degraded":
        anew = f"A new index must be built ({result.rebuild}), and cannot be yet.\n"
    words = f"! Answers go by words alone: {result.degraded}\n" if result.degraded else ""
    return label + done + anew + words + _warnings(result.warnings)


def recall(result: RecallResult) -> str:
    """Hits with provenance and a preview."""
    notes = [n for n in (result.degraded and f"by words alone: {result.degraded}", result.stale) if n]
    head = "".join(click.style(f"! {note}\n", fg="yellow") for note in notes)
    if not result.hits:
        return head + "No entry passes the filters.\n"
    shown = [_hit(n, h, result.query) for n, h in enumerate([*result.hits, *(result.near_misses or [])], 1)]
    if result.near_misses:
        shown.insert(len(result.hits), click.style("Just missed:\n", bold=True))
    return head + "\n".join(shown) + f"\n{len(result.hits)} hits in {result.took_ms:.0f} ms\n"


def _hit(number: int, h: Hit, query: str) -> str:
    facts = [h.kind, h.verdict, h.signal, h.date]
    where = f"{h.file}:{h.line_start}-{h.line_end}" + (f", archived {h.batch_date}" if h.batch_date else "")
    lines = [
        f"{number:>2}. {click.style(h.title, bold=True)}  {h.score:.2f}",
        click.style(f"    {' · '.join(f for f in facts if f)} · {h.tier} · {h.id}", dim=True),
        click.style(f"    {where}", dim=True),
    ]
    if shown := _excerpt(_readable(h.passage.text if h.passage else h.text or ""), query):
        lines.append(textwrap.indent(textwrap.fill(textwrap.shorten(shown, 280, placeholder=" …"), _width() - 6), "    "))
    if h.explanation:
        lines.append(click.style(textwrap.indent(textwrap.fill(_why(h.explanation), _width() - 6), "    "), fg="cyan"))
    return "\n".join(lines) + "\n"


def _why(e: Explanation) -> str:
    """What a score is made of, in words."""
    meaning = "meaning not asked" if e.meaning is None else f"meaning {e.meaning:.2f}"
    legible = f" (the model reads {e.legible:.0%} of the question)" if e.meaning is not None and e.legible < 1 else ""
    matched = ", ".join(f"{part.name} {part.share:.2f} of {part.most:.2f}" for part in e.matched)
    missing = f"; without {', '.join(e.missing)}" if e.missing else ""
    return f"{meaning}{legible} · words {e.words:.2f}{': ' if matched else ''}{matched}{missing}"


def _readable(text: str) -> str:
    """A passage on one line, without the heading (the title stands above it), labels and mere marks."""
    return " ".join(_LABELS.sub(" ", _HEADING.sub("", text)).split())


def _excerpt(text: str, query: str) -> str:
    """*text* from the sentence on that shares most words with *query*, if one shares any."""
    asked = _stems(query)
    starts = [0, *(m.end() for m in _SENTENCE.finditer(text))]
    shared = [len(asked & _stems(text[a:b])) for a, b in pairwise([*starts, len(text)])]
    best = starts[shared.index(max(shared))]
    return f"… {text[best:]}" if best else text


def _stems(text: str) -> set[str]:
    """Roughly the words that tell something: their first five letters."""
    return {w[:5] for w in re.findall(r"\w{4,}", text.casefold())}


def entry(result: EntryResult) -> str:
    """The entry's text as it stands in its file, and where that is."""
    r = result
    where = f"{r.file}:{r.line_start}-{r.line_end} ({r.tier}" + (f", archived {r.batch_date})" if r.batch_date else ")")
    lossy = "some bytes are not UTF-8 and are shown as U+FFFD\n" if r.lossy else ""
    return r.text + "\n\n" + click.style(f"{r.id} · {where}\n{lossy}", dim=True)


def _size(a: TierSize) -> str:
    return f"{a.entries:,} entries, {a.lines:,} lines, {kilobytes(a.bytes)}" + (" (over target)" if a.over_target else "")


def _warnings(warnings: Sequence[FileWarning]) -> str:
    shown = [f"! {w.file}{f':{w.line}' if w.line else ''}: {w.message}" for w in warnings[:_MOST_WARNINGS]]
    more = len(warnings) - len(shown)
    lines = [*shown, f"! and {more} more; --json lists them all"] if more > 0 else shown
    return "".join(click.style(f"{line}\n", fg="yellow") for line in lines)


def _width() -> int:
    return min(110, shutil.get_terminal_size().columns)


def _cut(line: str) -> str:
    width = shutil.get_terminal_size((160, 24)).columns
    return line if len(line) <= width else line[: width - 1] + "…"


class ProgressBar:
    """A bar on stderr that is redrawn in place and leaves nothing behind."""

    def __init__(self, label: str) -> None:
        self.label = label

    def __call__(self, done: int, total: int) -> None:
        """Draws *done* of *total*."""
        if not total:
            return
        filled = 30 * done // total
        click.echo(f"\r{self.label} [{'#' * filled}{'.' * (30 - filled)}] {done:,} of {total:,}", err=True, nl=False)
        if done >= total:
            click.echo("\r\033[K", err=True, nl=False)
