"""Which specs can be run at all, and of these which a plan works out errors for; of the others it is said at once.

An area at the top has nobody above it who could have nobody in a cell: all its possible cells may have persons, and are
in one problem then, with a number for each two of them. What no machine can solve is refused by `validate`, `plan` and
`run` alike. A run whose errors alone would take too long to work out is not refused: it does not need them.

Errors are worked out from matrices of one number for each pair of the values of grouped attributes, one matrix for each
set of the attributes that are only kept whole or summed out, and at least two for each level. The bounds here are of
that least; where many areas differ, there are more of them.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from geography.spine import Spine
from pipeline.cost.size import basis_of_spec, possible_cells
from pipeline.errors import InputError
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.algebra import Basis

__all__ = ["MOST_NUMBERS", "MOST_OPERATIONS", "MOST_POSSIBLE", "check_plan_size", "check_possible", "is_planned"]

#: Possible cells of a universe: beyond, a matrix of the problem at the top has 8 TB, and takes years to invert.
MOST_POSSIBLE: Final = 1_000_000
#: Numbers of the matrices of all levels; operations that inverting them takes; those of a matrix of any size.
MOST_NUMBERS: Final = 120_000_000
MOST_OPERATIONS: Final = 200_000_000_000  # about 20 s
PER_MATRIX: Final = 40_000


def check_possible(spec: ReleaseSpec, universe: Universe) -> None:
    """Refuse a universe that no machine can solve.

    Raises:
        InputError: it is; the message says how many cells are possible, what they would take, and what would fit.
    """
    possible = possible_cells(universe)
    if possible > MOST_POSSIBLE:
        raise InputError(
            f"{_name(spec, universe)}: found {possible:,} possible cells, too many to solve: where all of them may "
            f"have persons the area at the top has a number for each two of them, here {8e-12 * possible**2:,.0f} TB; "
            f"what fits: at most {MOST_POSSIBLE:,}, by fewer attributes, coarser values or structural_zeros"
        )


def check_plan_size(spec: ReleaseSpec, spine: Spine) -> None:
    """Refuse a spec whose errors are too many to work out.

    Raises:
        InputError: it is; the message says what is too large, and what would fit.
    """
    for universe in spec.universes():
        check_possible(spec, universe)
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
        f"{_name(spec, universe)}: found {universe.schema.n_cells:,} cells, too "
        f"many to work out errors for at {n_levels} levels: {'; '.join(found)}; what fits: "
        f"{' or '.join(fits) or 'fewer attributes, and fewer grouped values'}"
    )


def _name(spec: ReleaseSpec, universe: Universe) -> str:
    return f"{spec.name}{': ' + universe.name if universe.name else ''}"
