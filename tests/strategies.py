"""Hypothesis strategies for spark logs: from well-formed entries to any bytes at all."""

from __future__ import annotations

from hypothesis import strategies as st

_LINES = [
    b"### [dream] A (2026-01-02)", b"### [delve] B (2026-02-30 25:61)", b"### [swarm-docs] [expired] C (2026-01-02 03:04) [consumed: x]",
    b"## Night of 2026-01-02", b"# Dream Sparks", b"### Bug Fixes", b"###[dream] no space", b"   ### [delve] indented (2026-01-01)",
    b"###\xc2\xa0[delve] odd space (2026-01-01)", b"```", b"````", b"~~~", b"```text", b"<!--", b"-->", b"<!-- one line -->", b"---",
    b"**Verdict:** release -- no", b"**Signal:** faint", b"**Connection:** words \xe2\x80\xa8 and \xff\xfe bytes", b"", b" ", b"\t",
    b"## Archived 2026-01-02 \xe2\x80\x94 1 entries (date range: 2026-01-01 to 2026-01-01)", b"\xef\xbb\xbf", b"\x00", b"plain text",
]  # fmt: skip

lines = st.one_of(st.sampled_from(_LINES), st.binary(max_size=12))
line_ends = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b""])
markdown = st.lists(st.tuples(lines, line_ends), max_size=30).map(lambda rows: b"".join(a + b for a, b in rows))
any_bytes = st.one_of(st.binary(max_size=300), markdown)
