"""What designs of a series promise, and what the second program says of them, against all pairs of histories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from oracles.histories import farthest
from oracles.series_numbers import square_root

from auditor.reading.findings import FormError
from auditor.series import Series, _bounds, distance_problems, read_series
from features.years.best import best, best_gram, weights
from features.years.design import Design, bound, independent, reach, triangular, worst_pairs
from features.years.series import StatedTerms, found
from geography.errors import InputError
from pipeline.privacy.budget import MOVED, NEIGHBOURS, Neighbours
from pipeline.privacy.noise.mechanisms import noise_for

RHO = Fraction(1)


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


def test_no_design_is_better() -> None:
    """Weak duality: for any weights of pairs that add up to 1, tr(W G^-1) >= (tr (W^1/2 S W^1/2)^1/2)^2, S their mean.

    Weights are found here by multiplicative updates, which share nothing with the solver.
    """
    gram = best_gram(5, 2, "change-one")
    weight = weights(5)
    pairs = worst_pairs(np.rint(gram * 2**24).astype(np.int64), 2, "change-one", 40)[0].astype(float)
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


@pytest.mark.parametrize(
    ("rows", "spells"), [((), 1), (((1,), (1,)), 1), (((0,),), 1), (((1,), (0, -1)), 1), (((1,),), 0)]
)
def test_what_is_no_design_is_refused(rows: tuple[tuple[int, ...], ...], spells: int) -> None:
    with pytest.raises(InputError, match="series"):
        Design(rows, spells, "change-one")


def random_gram(periods: int, seed: int) -> NDArray[np.int64]:
    """Of a lower triangular matrix of whole numbers; of even seeds most off the diagonal are below 0."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.integers(-40, 1 if seed % 2 == 0 else 25, (periods, periods)))
    matrix[np.arange(periods), np.arange(periods)] = rng.integers(40, 64, periods)
    return np.asarray(matrix.T @ matrix)


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("periods", "seed"), [(1, 0), (2, 1), (2, 2), (3, 3), (3, 4), (4, 6)])
def test_reach_is_that_of_all_pairs(periods: int, seed: int, neighbours: Neighbours) -> None:
    """For each number of spells; the bound is never below, and is the reach with one period or independent noise."""
    gram = random_gram(periods, seed)
    expected = farthest(gram, neighbours)
    for spells, most in enumerate(expected, 1):
        found = reach(gram, spells, neighbours)
        assert (found.value, found.exact) == (most, True)
        assert bound(gram, spells, neighbours) >= most
    assert reach(gram, periods + 3, neighbours).value == expected[-1]


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
def test_independent_noise_costs_the_sum_whatever_the_spells(neighbours: Neighbours) -> None:
    gram = independent(6, 1, neighbours).gram
    moved = {"change-one": 2, "add-remove": 1}[neighbours]
    for spells in (1, 2):
        assert reach(gram, spells, neighbours).value == 6 * moved
        assert bound(gram, spells, neighbours) == 6 * moved


def test_forgetting_shared_answers_understates() -> None:
    """The trap: without pairs that share an answer the square root's cost is less than it is, by a quarter."""
    gram = triangular(square_root(4), 1, "change-one").gram
    sound, trap = farthest(gram, "change-one"), farthest(gram, "change-one", sharing=False)
    assert [reach(gram, spells, "change-one").value for spells in (1, 2, 3, 4)] == sound
    assert trap[0] == 2 * reach(gram, 1, "add-remove").value
    assert all(more > less for more, less in zip(sound, trap, strict=True))
    assert sound[1] / trap[1] > 1.25


ROWS = ((8,), (-2, 8), (1, -1, 8))


def _series(spells: int, *, times: Mapping[int, Fraction] | None = None) -> Series:
    matrix = np.zeros((3, 3), dtype=np.int64)
    for number, row in enumerate(ROWS):
        matrix[number, : number + 1] = row
    reaches = farthest(matrix.T @ matrix, "change-one")
    whole = reaches[min(spells, 3) - 1]
    losses = {k: Fraction(reaches[k - 1], whole) * (times or {}).get(k, 1) for k in (1, 2, 3)}
    return Series("padron", ("2031", "2032", "2033"), 0, "first", spells, Fraction(whole, 2), losses, ROWS)


@pytest.mark.parametrize("spells", [1, 2, 3, 4, 9])
def test_people_with_the_stated_spells_lose_the_budget(spells: int) -> None:
    """With more spells than periods: as many as there are periods; another loss is noticed."""
    assert distance_problems(_series(spells), 2) == []
    found = distance_problems(_series(spells, times={min(spells, 3): Fraction(2)}), 2)
    assert f"people with {spells} spells do not lose the budget" in found


def _stated(last: int, **more: object) -> dict[str, Any]:
    place = {"name": "padron", "from": "2031", "to": str(last), "step": "year", "period": "2031"}
    return {"series": {**place, "predecessor": "first", **more}}


def test_noise_by_spells_has_a_design_of_its_periods_and_other_noise_has_none() -> None:
    """Else ten periods are drawn as two, by what they say themselves; or records bounded where spells are promised."""
    for rows in (0, 1, 2, 9, 11):
        design = [[0] * t + [1] for t in range(rows)]
        terms = {"design": design, "distance": "2", "losses": [[2, "1", True]]}
        with pytest.raises(FormError, match="the design of the series is not of its periods"):
            read_series(_stated(2040, noise="spells", spells=2, terms=terms))
    terms = {"design": [[2], [-1, 2]], "distance": "5", "losses": [[1, "1", True], [2, "1", True]]}
    assert read_series(_stated(2032, noise="spells", spells=2, terms=terms)) is not None
    for other in (
        {"noise": "spells", "spells": 2, "records": 1},
        {"noise": "independent", "spells": 2, "terms": terms},
    ):
        with pytest.raises(FormError, match="noise by spells has a design, and other noise has none"):
            read_series(_stated(2032, **other))


@pytest.mark.parametrize("records", [None, 1, 2, 10])
def test_independent_periods_cost_what_so_many_records_cost(records: int | None) -> None:
    """The distance is that of the records that are stated, or of all periods, and who has more is told so."""
    series = read_series(_stated(2040, noise="independent", **({} if records is None else {"records": records})))
    assert series is not None
    assert (series.distance, series.losses[10]) == (Fraction(records or 10), Fraction(10, records or 10))
    assert distance_problems(series, 2) == []
    if records != 10 and records is not None:
        silent = {k: part for k, part in series.losses.items() if k <= records}
        found = distance_problems(replace(series, losses=silent), 2)
        assert found == [f"people with 10 records lose {Fraction(10, records)}, stated is nothing"]
    nearer = replace(series, distance=series.distance / 2)
    assert "is not as far as so many independent periods" in distance_problems(nearer, 2)


def _of_terms(terms: StatedTerms) -> Series:
    periods = tuple(str(2031 + t) for t in range(len(terms.design)))
    losses = {k: loss.part for k, loss in terms.losses.items()}
    return Series("padron", periods, 0, "first", terms.spells, terms.distance, losses, terms.design)


LONG = [(5, 5), (10, 2), (30, 2)]


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize(("periods", "spells"), LONG)
def test_honest_terms_of_long_series_are_confirmed(periods: int, spells: int, neighbours: Neighbours) -> None:
    """By all pairs of histories or, where they are too many, by a bound of the program's own.

    Two that never share an answer are as far apart as each from none; two of the same two answers are farther.
    """
    design = triangular(square_root(periods), spells, neighbours)
    terms = found(design)
    assert distance_problems(_of_terms(terms), MOVED[neighbours]) == []
    if neighbours == "change-one":
        apart = 2 * Fraction(reach(design.gram, spells, "add-remove").value)
        assert apart < 2 * terms.distance
        said = distance_problems(replace(_of_terms(terms), distance=apart / 2), 2)
        assert any(problem.startswith(f"people with {spells} spells") for problem in said)


def test_a_bound_with_96_for_128_is_noticed() -> None:
    """Three quarters of what the intervals add up to: thirty periods of independent noise would cost half."""
    rows = tuple((0,) * t + (1,) for t in range(30))
    series = Series("padron", tuple(map(str, range(30))), 0, "first", 3, Fraction(30), {3: Fraction(1)}, rows)
    assert distance_problems(series, 2) == []
    said = distance_problems(replace(series, distance=Fraction(30, 2)), 2)
    assert said == ["people with 3 spells are not shown to lose less than 2, stated is 1"]
    large = replace(series, design=tuple((0,) * t + (2**23,) for t in range(30)))
    assert "not judged" in distance_problems(large, 2)[0]


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_above_all_pairs_with_sums_of_rows_below_0_too(seed: int) -> None:
    """With the rows not filled up: of a series of which periods count against each other more than for themselves."""
    rng = np.random.default_rng(seed)
    matrix = np.tril(rng.integers(-9, 4, (4, 4)), -1) + np.diag(rng.integers(1, 9, 4))
    gram = matrix.T @ matrix
    for neighbours in NEIGHBOURS:
        bounds = _bounds(gram, MOVED[neighbours])
        assert all(most >= far for most, far in zip(bounds, farthest(gram, neighbours), strict=True))
