"""Which specs can be run at all, and of these which a plan works out errors for; of the others it is said at once.

Up to a million cells a schema is estimated with numbers of each of them. One of more cells is estimated on the few sums
that its lower levels measure (`postprocess.sums`): the detail is measured above these and determines which cells have
persons. What cannot be stated so is refused by `validate`, `plan` and `run` alike, and so is what is not published of
such a schema. A run whose errors alone would take too long to work out is not refused: it does not need them.

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
from pipeline.estimation.whole_spine import MOST_CELLS_AT_ONCE, is_by_sums
from pipeline.model.draw import by_level, everywhere
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.algebra import Basis
from postprocess.sums.space import MOST_SUMS
from postprocess.sums.upward import unfit

#: Numbers of the matrices of all levels; operations that inverting them takes; those of a matrix of any size.
MOST_NUMBERS: Final = 120_000_000
MOST_OPERATIONS: Final = 200_000_000_000  # about 20 s
PER_MATRIX: Final = 40_000


def check_possible(spec: ReleaseSpec, universe: Universe) -> None:
    """Refuse a universe of more than a million cells that cannot be estimated on sums.

    Raises:
        InputError: it is; the message says how many cells are possible, why they are too many, and what would fit.
    """
    if universe.strategy.where_positive and (why := _not_where_positive(spec, universe)):
        raise InputError(
            f'{universe.key("strategy")}: where = "parent positive" is for counts of one schema that are estimated on '
            f"the whole spine, but {'; '.join(why)}; leave `where` out, or the other"
        )
    if not is_by_sums(universe):
        return
    if why := [*_not_on_sums(universe), *_not_there(spec)]:
        raise InputError(
            f"{_name(spec, universe)}: found {possible_cells(universe):,} possible cells; of more than "
            f"{MOST_CELLS_AT_ONCE:,} those can be estimated whose detail is measured at the upper levels, and at most "
            f"{MOST_SUMS:,} answers at all levels below, but {'; '.join(why)}; what fits: wide queries "
            'with where = "parent positive", other queries in strategy.levels, fewer attributes or coarser values'
        )


def _not_where_positive(spec: ReleaseSpec, universe: Universe) -> list[str]:
    """What a spec states that there is not where answers are drawn only where the released parent is positive."""
    stated = {
        "amounts are summed": not universe.measure.counts,
        "numbers are not this run's own noise on true counts": not universe.source.counts_with_noise,
        "the release is one of a series": universe.series,
        "universes are estimated together": universe.together,
        "universes are linked": bool(spec.links()),
        "geography.bypass is true": universe.bypass,
        "publish.margins is true": spec.publish.margins,
    }
    return [name for name, found in stated.items() if found]


def _not_on_sums(universe: Universe) -> list[str]:
    """Why a universe cannot be estimated on sums."""
    names, draws = universe.level_names, universe.draws()
    levels = [
        (name, [draw.query for draw in level])
        for name, level in zip(names, by_level(everywhere(draws), names), strict=True)
    ]
    positive = by_level((draw for draw in draws if draw.where_positive), names)
    coarse = [
        name
        for name, level in zip(names, positive, strict=True)
        if level and all(draw.query.size < universe.schema.n_cells for draw in level)
    ]
    stated = {
        "invariants": universe.invariants,
        "bounds": universe.bounds,
        "geography.bypass": universe.bypass,
        "public facts": universe.facts,
        "selections": universe.stated_selections,
        "added answers": universe.added,
        "another source of numbers than the run's own noise": not universe.source.counts_with_noise,
        "estimation together with others": universe.together,
    }
    return [
        *unfit(universe.schema.shape, levels, universe.passes),
        *(f"{name} are not possible with it" for name, found in stated.items() if found),
        *(f"the detail is not among what {level} measures where the parent is positive" for level in coarse),
    ]


def _not_there(spec: ReleaseSpec) -> list[str]:
    """What a spec asks for that there is not of such a universe."""
    publish = spec.publish
    stated = {
        "publish.margins is true": publish.margins,
        "publish.unbiased is true": publish.unbiased,
        "publish.draws is not 0": publish.draws,
        "universes are linked": bool(spec.links()),
        "postprocess.solver is 'cvxpy'": spec.postprocess.solver == "cvxpy",
    }
    return [name for name, found in stated.items() if found]


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


def is_planned(n_levels: int, n_symmetric: int, combinations: int) -> bool:
    """Whether the errors of so much are worked out.

    Args:
        n_levels: of the spine.
        n_symmetric: attributes that queries keep whole or sum out.
        combinations: of the values of all other attributes.
    """
    matrices = 2 * n_levels * 2**n_symmetric
    return matrices * combinations**2 <= MOST_NUMBERS and matrices * (combinations**3 + PER_MATRIX) <= MOST_OPERATIONS


def _refusal(spec: ReleaseSpec, universe: Universe, basis: Basis, n_levels: int) -> str:
    n_symmetric, combinations = len(basis.symmetric), basis.n_asymmetric
    found, fits = [], []
    if combinations > 1:
        listed = ", ".join(universe.schema.names[j] for j in basis.asymmetric)
        found.append(f"{listed}, whose values queries group or zeros tell apart, have {combinations:,} combinations")
        most = bisect_left(range(1, combinations), True, key=lambda n: not is_planned(n_levels, n_symmetric, n))
        fits += [f"at most {most:,} such combinations"] if most else []
    if n_symmetric:
        found.append(f"{n_symmetric} attributes that queries keep whole or sum out have {basis.n_blocks:,} subsets")
        least = [n for n in range(n_symmetric) if is_planned(n_levels, n, combinations)]
        fits += [f"at most {least[-1]} attributes that are kept whole or summed out"] if least else []
    return (
        f"{_name(spec, universe)}: found {universe.schema.n_cells:,} cells, too "
        f"many to work out errors for at {n_levels} levels: {'; '.join(found)}; what fits: "
        f"{' or '.join(fits) or 'fewer attributes, and fewer grouped values'}"
    )


def _name(spec: ReleaseSpec, universe: Universe) -> str:
    return f"{spec.name}{': ' + universe.name if universe.name else ''}"
