"""Which specs a plan works out: beyond, it would take hours or more memory than there is, and so it says so at once.

Errors are worked out from matrices of one number for each pair of the values of grouped attributes, one matrix for each
set of the attributes that are only kept whole or summed out, and at least two for each level. The bounds here are of
that least; where many areas differ, there are more of them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from flows.plan.cost.size import basis_of_spec
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.algebra import Basis

__all__ = ["MOST_NUMBERS", "MOST_OPERATIONS", "check_plan_size", "is_planned"]

#: Numbers of the matrices of all levels; operations that inverting them takes; those of a matrix of any size.
MOST_NUMBERS: Final = 120_000_000
MOST_OPERATIONS: Final = 200_000_000_000  # about 20 s
PER_MATRIX: Final = 40_000


def check_plan_size(spec: ReleaseSpec, spine: Spine) -> None:
    """Refuse a spec whose errors are too many to work out.

    Raises:
        InputError: it is; the message says what is too large, and what would fit.
    """
    for universe in spec.universes():
        basis = basis_of_spec(universe)
        if not is_planned(spine.n_levels, len(basis.symmetric), basis.n_asymmetric):
            raise InputError(_refusal(spec, universe, basis, spine.n_levels))


def is_planned(n_levels: int, apart: int, combinations: int) -> bool:
    """Whether the errors of so much are worked out.

    Args:
        n_levels: of the spine.
        apart: attributes that queries keep whole or sum out.
        combinations: of the values of all other attributes.
    """
    matrices = 2 * n_levels * 2**apart
    return matrices * combinations**2 <= MOST_NUMBERS and matrices * (combinations**3 + PER_MATRIX) <= MOST_OPERATIONS


def _refusal(spec: ReleaseSpec, universe: Universe, basis: Basis, n_levels: int) -> str:
    apart, combinations = len(basis.symmetric), basis.n_asymmetric
    found, fits = [], []
    if combinations > 1:
        listed = ", ".join(universe.schema.names[j] for j in basis.asymmetric)
        found.append(f"{listed}, whose values queries group or zeros tell apart, have {combinations:,} combinations")
        most = bisect_left(range(1, combinations), True, key=lambda n: not is_planned(n_levels, apart, n))
        fits += [f"at most {most:,} such combinations"] if most else []
    if apart:
        found.append(f"{apart} attributes that queries keep whole or sum out have {basis.n_blocks:,} subsets")
        least = [n for n in range(apart) if is_planned(n_levels, n, combinations)]
        fits += [f"at most {least[-1]} attributes that are kept whole or summed out"] if least else []
    return (
        f"{spec.name}{': ' + universe.name if universe.name else ''}: found {universe.schema.n_cells:,} cells, too "
        f"many to work out errors for at {n_levels} levels: {'; '.join(found)}; what fits: "
        f"{' or '.join(fits) or 'fewer attributes, and fewer grouped values'}"
    )
