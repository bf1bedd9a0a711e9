"""Intervals of functions of draws have the coverage that they state; Rubin's rules equal their published formula."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import InputError
from pipeline.reading.release import interval_of
from pipeline.reading.rubin import rubin


def draws_frame(values: np.ndarray) -> pd.DataFrame:
    """`(count, n)` values as draws of a table with one label."""
    count, n = values.shape
    index = pd.MultiIndex.from_product([range(1, count + 1), [f"g{i}" for i in range(n)]], names=["draw", "geocode"])
    return pd.DataFrame({"x": values.ravel()}, index=index)


@pytest.mark.parametrize(("count", "share"), [(19, 0.9), (25, 0.9), (39, 0.95), (100, 0.8)])
def test_any_function_is_covered_as_often_as_stated(count: int, share: float) -> None:
    """Truth and draws from one skewed distribution, a function that is not monotone; a narrower one covers less."""
    rng = np.random.default_rng(count)
    values = rng.gamma(1.2, 2.0, (count + 1, 40_000))
    found = interval_of(lambda frame: (frame["x"] - 2) ** 2, [draws_frame(values[1:])], share)
    low, high = found.iloc[:, 1].to_numpy(), found.iloc[:, 2].to_numpy()
    truth = (values[0] - 2) ** 2
    inside = float(((low <= truth) & (truth <= high)).mean())
    assert abs(inside - share) < 0.012
    narrow = float(((low / 0.8 <= truth) & (truth <= 0.8 * high)).mean())
    assert narrow < inside - 0.008
    assert list(found.columns) == ["median", f"low{100 * share:g}", f"high{100 * share:g}"]


def test_functions_of_several_tables_and_forms_of_values() -> None:
    first, second = draws_frame(np.arange(38.0).reshape(19, 2)), draws_frame(np.ones((19, 2)))
    of_two = interval_of(lambda one, two: one["x"].sum() / two["x"].sum(), [first, second])
    assert of_two.index.tolist() == ["value"]
    assert of_two.to_numpy().tolist() == [[18.5, 0.5, 36.5]]
    assert interval_of(lambda frame: frame, [first]).index.tolist() == [("g0", "x"), ("g1", "x")]
    assert interval_of(lambda frame: frame.to_numpy()[:, 0], [first]).index.tolist() == [0, 1]


def test_a_value_that_one_draw_does_not_have_is_unknown() -> None:
    """A ratio whose denominator is 0 in one of the draws, in a data frame."""
    values = np.ones((19, 2))
    values[4, 0] = 0.0
    with np.errstate(invalid="ignore"):
        found = interval_of(lambda frame: frame / frame, [draws_frame(values)])
    assert found["median"].isna().tolist() == [True, False]


def test_too_few_draws_and_other_mistakes_are_named() -> None:
    frame = draws_frame(np.ones((18, 2)))
    with pytest.raises(InputError, match=r"found 18 draws; an interval with a share of 0\.9 needs 19"):
        interval_of(lambda one: one["x"], [frame])
    with pytest.raises(InputError, match="found share = 1"):
        interval_of(lambda one: one["x"], [frame], 1.0)
    with pytest.raises(InputError, match="gives str for draw 1"):
        interval_of(lambda _: "x", [draws_frame(np.ones((19, 2)))])
    changing = draws_frame(np.arange(38.0).reshape(19, 2))
    with pytest.raises(InputError, match="gives 2 values for draw 11 and 0 for draw 1"):
        interval_of(lambda one: one["x"][one["x"] >= 20], [changing])


def test_rubins_rules_by_hand() -> None:
    """Q = 2, W = 0.5, B = 1, M = 3: T = 0.5 + 4/3, degrees 2 (1 + 0.375)^2."""
    pooled = rubin([1.0, 2.0, 3.0], [0.4, 0.5, 0.6])
    assert [float(pooled.estimate), float(pooled.within), float(pooled.between)] == [2.0, 0.5, 1.0]
    assert pooled.variance == pytest.approx(11 / 6)
    assert pooled.degrees == pytest.approx(3.78125)
    # The 95 % quantile of t with 3.78125 degrees, from tables: between 2.132 (4) and 2.353 (3).
    assert 2.132 < (pooled.high - pooled.estimate) / np.sqrt(11 / 6) < 2.2


def test_rubins_rules_take_arrays_and_draws_that_agree() -> None:
    pooled = rubin([[1.0, 2.0], [1.0, 4.0]], [[0.25, 0.0], [0.25, 0.0]])
    assert pooled.estimate.tolist() == [1.0, 3.0]
    assert pooled.degrees[0] == np.inf
    assert pooled.high[0] == pytest.approx(1 + 0.5 * 1.6448536, abs=1e-6)
    assert pooled.degrees[1] == 1


@pytest.mark.parametrize(("estimates", "variances"), [([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, 2.0], [1.0, -1.0])])
def test_rubins_rules_refuse_what_does_not_match(estimates: list[float], variances: list[float]) -> None:
    with pytest.raises(InputError, match="rubin: found estimates of the form"):
        rubin(estimates, variances)
