"""Small entries that many tests share, as exact bytes."""

from __future__ import annotations

KILN = b"""\
### [dream] [ext-signal] Kiln cooling and staged eviction (2026-05-04 02:10)
**Pass:** 1
**Sources:** pottery manual x queue design
**Chain:** slow cooling -> fewer cracks -> staged eviction
**Signal:** resonant
**Connection:** Cooling a kiln in steps avoids cracks; evicting a cache in steps avoids stampedes.
"""

TIDE = b"""\
### [dream] [ext-signal] Tide tables and cron jitter (2026-05-05 02:10)
**Pass:** 1
**Sources:** harbour almanac x scheduler docs
**Chain:** tides repeat -> boats bunch up -> jitter start times
**Signal:** faint
**Connection:** Boats waiting for one tide crowd the lock; jobs waiting for one minute crowd the host.
"""


def ledger(verdict: str, date: str = "2026-05-07") -> bytes:
    """A delve whose whole verdict text is *verdict*."""
    return f"""\
### [delve] Ledger forks ({date})
**Source:** https://example.org/ledger
**Type:** article
**Resonance:** strong
**Core pattern:** Two writers fork a ledger when each trusts its own clock
**Connects to:** sync design
**Verdict:** {verdict}
""".encode()


def delve(title: str, date: str, verdict: str = "release -- examined") -> bytes:
    """A short delve; by default one that moves once it is older than a week."""
    return f"### [delve] {title} ({date})\n**Source:** thought\n**Verdict:** {verdict}\n".encode()


def log(*entries: bytes) -> bytes:
    """Entries with one blank line between them."""
    return b"\n".join(entries)


HEADER = b"---\nname: Dream Sparks\n---\n\n# Dream Sparks\n\nLast dream cycle: 2026-05-20 00:06\n\n"
