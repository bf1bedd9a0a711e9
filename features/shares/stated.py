"""Public shares of one universe as its published numbers state them, level by level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from features.shares.files import path_of, read_public_shares
from features.shares.public_share import PublicShare
from geography.spine import Spine
from pipeline.execution.job import Job
from pipeline.model.universe import Universe
from postprocess.shares.shared import Shared


def stated_shares(job: Job, universe: Universe, shares: Sequence[PublicShare]) -> tuple[tuple[Shared, ...], ...]:
    """Per level of the spine, what the published numbers of a universe's shares say.

    Raises:
        ReleaseError: a file is missing or damaged.
    """
    folder = job.folder(universe)
    numbers = [
        read_public_shares(job.readable(path_of(folder, share.name)), share, job.spine.level(share.level).geocodes)
        for share in shares
    ]
    return shares_by_level(shares, numbers, job.spine)


def shares_by_level(
    shares: Sequence[PublicShare], numbers: Sequence[NDArray[np.float64]], spine: Spine
) -> tuple[tuple[Shared, ...], ...]:
    """Per level of the spine, the shares that are used there.

    Args:
        shares: of a universe.
        numbers: of each, `(n, n_columns)` at the level of its file.
        spine: the geounits.
    """
    levels: list[list[Shared]] = [[] for _ in spine.levels]
    for share, own in zip(shares, numbers, strict=True):
        query, answers = share.query, np.array(list(share.columns), dtype=np.int64)
        place = [share.distinct_columns.index(column) for column in share.columns.values()]
        of_level = own
        for level in range(spine.index_of(share.level), 0, -1):
            parents = spine.levels[level].parents
            if spine.level_names[level] in share.levels:
                levels[level].append(Shared.of(share.name, query, answers, of_level[:, place], parents))
            above = np.zeros((len(spine.levels[level - 1]), of_level.shape[1]))
            np.add.at(above, parents, of_level)
            of_level = above
    return tuple(tuple(level) for level in levels)
