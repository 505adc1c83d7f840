"""Joining the two arms. Pure.

score = (max(0, cosine of the best passage) + W x BM25 / ceiling) / (1 + W)

Both parts lie in 0 to 1 and mean something by themselves: how near in meaning, and what share of the query's
information was literally there. So each arm weighs as much as it really matched, which fixed mixes of ranks do not
manage: they lose wherever one arm has nothing to say.
"""

from __future__ import annotations

from collections.abc import Mapping

W = 1.0


def fuse(cosine: Mapping[int, float], share: Mapping[int, float]) -> dict[int, float]:
    """Scores from 0 to 1, per entry that either arm knows."""
    return {row: (max(0.0, cosine.get(row, 0.0)) + W * share.get(row, 0.0)) / (1 + W) for row in {**cosine, **share}}
