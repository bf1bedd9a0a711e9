"""Record swapping: some records change places with others nearby, and are counted as if nothing had happened.

So the US Census Bureau protected the censuses of 1990 to 2010; its rates and rules are secret (McKenna 2018,
"Disclosure Avoidance Techniques Used for the 1970 through 2010 Decennial Censuses"). Here the
records of a universe are swapped one by one, at random: every area keeps its number of records, and what is exchanged
are their attributes. A histogram does not say who lives with whom, so that households of several persons are not kept
together.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.fitness.methods.way import Histograms, summed_up
from geography.spine import Spine
from pipeline.model.texts.message import message

#: Records that are swapped, and the most records that it is done with.
RATE, MOST_RECORDS = 0.1, 50_000_000


def swapped(leaves: sp.csr_array, spine: Spine, within: int, rate: float, seed: int) -> sp.csr_array:
    """The histograms of leaves `(n_leaves, n_cells)` after a part of their records changed places.

    Args:
        leaves: true counts.
        spine: of the leaves.
        within: number of the level whose geounits no record leaves.
        rate: share of records that move, above 0 and at most 1.
        seed: decides which.
    """
    rng = np.random.default_rng(seed)
    leaf = np.repeat(np.repeat(np.arange(leaves.shape[0]), np.diff(leaves.indptr)), leaves.data)
    cell = np.repeat(leaves.indices, leaves.data)
    chosen = np.flatnonzero(rng.random(len(leaf)) < rate)
    region = spine.leaf_ancestors(within)[leaf[chosen]]
    # By region, then leaf: half a region further is another leaf, unless one leaf has most of the region's records.
    order = chosen[np.lexsort((rng.random(len(chosen)), leaf[chosen], region))]
    taken = order.copy()
    for part in _runs(np.sort(region)):
        taken[part] = np.roll(order[part], (part.stop - part.start) // 2)
    moved = cell.copy()
    moved[order] = cell[taken]
    ones = np.ones(len(leaf), dtype=np.int64)
    return sp.csr_array(sp.coo_array((ones, (leaf, moved)), shape=leaves.shape).tocsr())


def _runs(values: NDArray[np.int64]) -> list[slice]:
    """The slices of equal values, of sorted ones."""
    starts = np.flatnonzero(np.diff(values, prepend=-1))
    return [slice(int(a), int(b)) for a, b in zip(starts, [*starts[1:], len(values)], strict=True)]


def swapping(leaves: sp.csr_array, spine: Spine, seed: int, rate: float = RATE) -> Histograms | None:
    """All levels after swapping within the geounits of the level below the top; None where there are too many records.

    With two levels or fewer, records may go anywhere.
    """
    if int(leaves.sum()) > MOST_RECORDS:
        return None
    within = 1 if spine.n_levels > 2 else 0
    about = message(
        "Record swapping: {percent} % of the records, chosen at random, change places with others of the same "
        "{level}. Every area keeps its number of records. What it promises cannot be stated: it "
        "rests on the rate and the rules being secret.",
        percent=f"{100 * rate:g}",
        level=spine.level_names[within],
    )
    return Histograms(message("swapping"), about, summed_up(swapped(leaves, spine, within, rate, seed), spine))
