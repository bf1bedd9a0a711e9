"""What the second program says of the losses that a series states: of spells that nobody can have, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from oracles.histories import farthest
from oracles.series_numbers import square_root

from auditor.reading.findings import FormError
from auditor.series import Series, _bounds, distance_problems, read_series
from features.years.design import reach, triangular
from features.years.series import StatedTerms, found
from pipeline.privacy.budget import MOVED, NEIGHBOURS, Neighbours

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
