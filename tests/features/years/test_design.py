"""What designs of a series promise, what they cost people by their spells, and that no design is better."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from oracles.histories import farthest
from oracles.series_numbers import square_root

from features.years.best import best, best_gram, factor, weights
from features.years.design import Design, independent, triangular, worst_pairs
from geography.errors import InputError
from pipeline.privacy.budget import NEIGHBOURS, Neighbours, noise_for

RHO = Fraction(1)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_one_period_is_a_usual_release(neighbours: Neighbours) -> None:
    """The same noise as without a series, and the numbers are not multiplied."""
    for design in (best(1, 2, neighbours), independent(1, 2, neighbours), triangular(square_root(1), 2, neighbours)):
        assert design.rows == ((1,),)
        assert design.noise(Fraction(1, 7)) == noise_for("zcdp", Fraction(1, 7), Fraction(1), Fraction(1), neighbours)


def test_independent_periods_are_so_many_releases() -> None:
    design = independent(10, 2, "change-one")
    one = noise_for("zcdp", RHO / 10, Fraction(1), Fraction(1), "change-one")
    assert design.noise(RHO) == one
    assert design.errors(RHO) == pytest.approx((one.variance**0.5, (2 * one.variance) ** 0.5))
    assert {float(cost.value) for cost in independent(4, 2, "change-one").costs().values()} == {1.0}


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_best_costs_the_budget_and_no_more(neighbours: Neighbours) -> None:
    """Its cost, by the program that goes through all pairs; for each number of spells."""
    design = best(4, 2, neighbours)
    distances = farthest(np.array(design.gram), neighbours)
    noise = design.noise(RHO)
    assert Fraction(distances[1]) / (2 * noise.scale) == RHO
    for spells, cost in design.costs().items():
        assert cost.exact
        assert cost.value == Fraction(distances[min(spells, 4) - 1], distances[1])


def test_best_is_better_than_the_square_root_and_than_independent_years() -> None:
    """In years and in changes, over ten years, with the same cost."""
    of = [best(10, 2, "change-one"), triangular(square_root(10), 2, "change-one"), independent(10, 2, "change-one")]
    (year, change), (root_year, root_change), (own_year, own_change) = (design.errors(RHO) for design in of)
    assert year < 0.85 * root_year < 0.85 * own_year
    assert change < 0.97 * root_change < 0.65 * own_change
    assert year / own_year == pytest.approx(0.797, abs=0.005)
    assert change / own_change == pytest.approx(0.597, abs=0.005)


def test_no_design_is_better() -> None:
    """Weak duality: for any weights of pairs that add up to 1, tr(W G^-1) >= (tr (W^1/2 S W^1/2)^1/2)^2, S their mean.

    Weights are found here by multiplicative updates, which share nothing with the solver.
    """
    gram = best_gram(5, 2, "change-one")
    weight = weights(5)
    pairs = worst_pairs(np.rint(gram * 2**24).astype(np.int64), 2, "change-one", 40).moments.astype(float)
    values, vectors = np.linalg.eigh(weight)
    root = (vectors * np.sqrt(values)) @ vectors.T
    lam = np.full(len(pairs), 1 / len(pairs))
    least = 0.0
    for _ in range(3000):
        inner = root @ np.tensordot(lam, pairs, 1) @ root
        spectrum, axes = np.linalg.eigh(inner)
        least = max(least, float(np.sqrt(np.maximum(spectrum, 0)).sum() ** 2))
        half = (axes / np.sqrt(np.maximum(spectrum, 1e-12))) @ axes.T
        lam = lam * np.einsum("kij,ij->k", pairs, root @ half @ root)
        lam /= lam.sum()
    reached = float(np.trace(weight @ np.linalg.inv(gram)))
    assert least <= reached * (1 + 1e-9)
    assert reached < 1.005 * least


def test_whole_numbers_lose_little() -> None:
    gram = best_gram(6, 2, "change-one")
    matrix = factor(gram)
    assert np.allclose(matrix.T @ matrix, gram)
    assert np.allclose(matrix, np.tril(matrix))
    design = triangular(matrix, 2, "change-one")
    year = float(np.sqrt(np.linalg.inv(gram).diagonal().mean() / 2))
    assert design.errors(RHO)[0] == pytest.approx(year, rel=0.004)


def test_more_spells_cost_more_noise() -> None:
    years = [best(5, spells, "change-one").errors(RHO)[0] for spells in (1, 2, 3)]
    assert years[0] < years[1] < years[2] < 1.01 * independent(5, 1, "change-one").errors(RHO)[0]


def test_changes_can_weigh_more() -> None:
    level, change = best(6, 2, "change-one", 0.0).errors(RHO), best(6, 2, "change-one", 4.0).errors(RHO)
    assert level[0] < change[0]
    assert level[1] > change[1]


def test_a_series_whose_pairs_are_too_many_is_by_the_bound() -> None:
    """Sound by the exact reach, which is not above the bound that it was made by."""
    design = best(7, 3, "change-one")
    assert design.reach.exact
    year, change = design.errors(RHO)
    own = independent(7, 3, "change-one").errors(RHO)
    assert year < own[0]
    assert change < 0.9 * own[1]


@pytest.mark.parametrize(
    ("rows", "spells"), [((), 1), (((1,), (1,)), 1), (((0,),), 1), (((1,), (0, -1)), 1), (((1,),), 0)]
)
def test_what_is_no_design_is_refused(rows: tuple[tuple[int, ...], ...], spells: int) -> None:
    with pytest.raises(InputError, match="series"):
        Design(rows, spells, "change-one")


def test_budgets_and_lengths_that_are_none_are_refused() -> None:
    with pytest.raises(InputError, match="found rho = 0"):
        independent(2, 1, "change-one").noise(Fraction(0))
    with pytest.raises(InputError, match="found 21; from 1 to 20"):
        best(21, 1, "change-one")
