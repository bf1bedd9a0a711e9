"""What joint draws cost: by the numbers that are drawn, and by those that are published of each draw.

The attributes that no published table of a level or below keeps are summed out before anything is drawn; see
`postprocess/linear/draws.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geography.spine import Spine
from pipeline.cost.size import basis_of_spec
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.downward.subtrees import Cut
from postprocess.linear.draws import kept_by

#: Seconds of a draw per number drawn and per published number.
PER_DRAWN, PER_PUBLISHED = 2.2e-7, 3.5e-7
#: Bytes that each process holds per number drawn above the lowest level, and per published number; and MB besides.
ABOVE_BYTES, PUBLISHED_BYTES, BESIDE_MB = 24.0, 40.0, 60.0
#: MB at the cut of a spine that is cut, `MOST_AT_CUT` numbers and what is made of them.
AT_CUT_MB = 400.0


def draw_cost(spec: ReleaseSpec, spine: Spine, workers: int, cut: Cut | None = None) -> tuple[float, float]:
    """Core seconds of all draws of a release, and the MB that all processes together hold for them; see `cost_of`."""
    draws = spec.publish.draws
    if not draws:
        return 0.0, 0.0
    sizes = [_sizes(universe, spine) for universe in spec.universes()]
    seconds = draws * sum(PER_DRAWN * size.drawn + PER_PUBLISHED * size.published for size in sizes)
    if cut is not None:
        return seconds, AT_CUT_MB + workers * BESIDE_MB
    each = max(ABOVE_BYTES * size.above + PUBLISHED_BYTES * size.published for size in sizes) / 1e6 + BESIDE_MB
    return seconds, (1 if workers == 1 else 1 + min(workers, draws)) * each


@dataclass(frozen=True)
class _Sizes:
    """Numbers of one draw of a universe: that are drawn, above the lowest level alone, and that are published."""

    drawn: int
    above: int
    published: int


def _sizes(universe: Universe, spine: Spine) -> _Sizes:
    basis = basis_of_spec(universe)
    asked = [[table.query for table in universe.tables if level in table.levels] for level in spine.level_names]
    drawn, published = [], 0
    for number, level in enumerate(spine.levels):
        below = [query for queries in asked[number:] for query in queries]
        if below:
            kept = [n for n, keep in zip(basis.symmetric_shape, kept_by(basis, below), strict=True) if keep]
            drawn.append(len(level) * basis.n_asymmetric * math.prod(kept))
            published += len(level) * sum(query.size for query in asked[number])
    return _Sizes(sum(drawn), sum(drawn[:-1]), published)
