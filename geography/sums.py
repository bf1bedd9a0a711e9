"""Histograms of all levels from those of the leaves."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine


def roll_up(spine: Spine, leaf_counts: sp.csr_array[np.int64]) -> list[sp.csr_array[np.int64]]:
    """The histogram of every geounit: `(n_geounits, n_cells)` int64 for each level, the top first.

    Args:
        spine: the geography.
        leaf_counts: `(n_leaves, n_cells)`, canonical, as `tabulate` gives it; it is the last of the result.
    """
    levels = [leaf_counts]
    for level in range(spine.n_levels - 2, -1, -1):
        offsets = spine.child_offsets(level)
        n_children = levels[0].shape[0]
        children = sp.csr_array(
            (np.ones(n_children, dtype=np.int64), np.arange(n_children), offsets), shape=(offsets.size - 1, n_children)
        )
        counts = sp.csr_array(children @ levels[0])
        counts.sort_indices()
        levels.insert(0, counts)
    return levels
