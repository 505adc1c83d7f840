"""Joining the two arms. Pure.

score = (max(0, cosine of the best passage) + W x BM25 / ceiling) / (1 + W)

Both parts lie in 0 to 1 and mean something by themselves: how near in meaning, and what share of the query's
information was literally there. So each arm weighs as much as it really matched, which fixed mixes of ranks do not
manage: they lose wherever one arm has nothing to say.

W was chosen among 0.5 to 2 on half of the questions of four sets; `make bench` reports the other half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

W = 1.25


def fuse(cosine: NDArray[np.float64], share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores from 0 to 1, of entries whose cosine and share of the query are given; both arrays of one length."""
    return (np.maximum(cosine, 0.0) + W * share) / (1 + W)
