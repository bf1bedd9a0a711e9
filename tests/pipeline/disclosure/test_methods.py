"""Each method: errors with mean 0 and the stated variance, within what a published number allows."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipeline.disclosure.cell_keys import CellKeyParameters, CellKeys, probabilities
from pipeline.disclosure.method import KEYS, UNBOUNDED, DisclosureMethod
from pipeline.disclosure.rounding import Gaussian, RandomRounding, Rounding
from pipeline.errors import InputError

CELL_KEYS = CellKeys.of(CellKeyParameters())
METHODS = [Rounding(3), Rounding(4), Rounding(5), RandomRounding(3), RandomRounding(5), CELL_KEYS]


def drawn(n: int) -> np.ndarray:
    """Keys, evenly from 0 on."""
    return (np.arange(n) * KEYS // n + KEYS // (2 * n)).astype(np.int64)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_what_a_number_allows_is_what_it_can_have_been(method: DisclosureMethod) -> None:
    """The ends are the least and the largest count that is published as the number, by trying all counts."""
    counts = np.repeat(np.arange(60), 2000)
    published = method.publish(counts, np.tile(drawn(2000), 60))
    assert not method.impossible(published).any()
    numbers = np.arange(-3, 40)
    assert (method.impossible(numbers) == ~np.isin(numbers, published)).all()
    for number in np.unique(published[published < 40]):
        behind = counts[published == number]
        least, most = method.allowed(np.array([number]))
        # Half of an even base may be rounded either way.
        loose = int(isinstance(method, Rounding) and method.base % 2 == 0)
        assert least[0] == behind.min()
        assert most[0] - loose <= behind.max() <= most[0]


@pytest.mark.parametrize(
    ("method", "variance"),
    [
        (Rounding(5), 2.0),
        (Rounding(3), 2 / 3),
        (RandomRounding(3), 4 / 3),
        (RandomRounding(5), 4.0),
        (CELL_KEYS, 3.0),
        (Gaussian(Fraction(3)), 9 + 1 / 12),
    ],
    ids=str,
)
def test_errors_have_mean_0_and_the_stated_variance(method: DisclosureMethod, variance: float) -> None:
    """Over large counts that are equally frequent; the rounding of normal noise adds a twelfth."""
    counts = np.repeat(np.arange(100, 130), 20_000)
    errors = method.publish(counts, np.tile(drawn(20_000), 30)) - counts
    assert abs(errors.mean()) < 0.01
    assert errors.var() == pytest.approx(variance, rel=0.01)
    assert float(method.variance) == pytest.approx(variance, rel=0.01)


def test_no_count_is_below_what_noise_allows() -> None:
    least, most = Gaussian(Fraction(2)).allowed(np.array([-7, 7]))
    assert (least == 0).all()
    assert (most == UNBOUNDED).all()
    assert not Gaussian(Fraction(2)).impossible(np.array([-7])).any()


def test_the_same_keys_give_the_same_errors_and_a_multiple_of_a_key_is_a_key() -> None:
    keys = np.random.default_rng(1).integers(0, KEYS, 100_000)
    again = keys * 48_271 % KEYS
    counts = np.full(len(keys), 50)
    one, two = (CELL_KEYS.publish(counts, each) - 50 for each in (keys, again))
    assert (CELL_KEYS.publish(counts, keys) - 50 == one).all()
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.015
    assert two.var() == pytest.approx(3, rel=0.03)


def test_a_perturbation_table_is_read_as_it_is_written_by_the_package(tmp_path: Path) -> None:
    rows = [
        {"i": count, "v": error, "p": share, "j": count + error}
        for count in range(9)
        for error, share in zip(*probabilities(count, CellKeyParameters()), strict=True)
    ]
    path = tmp_path / "ptable.csv"
    pd.DataFrame(rows).sample(frac=1, random_state=1).to_csv(path, index=False)
    read = CellKeys.of_table(path)
    assert read.variance == pytest.approx(3, rel=1e-6)
    counts, keys = np.repeat(np.arange(20), 1000), np.tile(drawn(1000), 20)
    assert (read.publish(counts, keys) == CELL_KEYS.publish(counts, keys)).all()
    pd.DataFrame(rows[:-1]).to_csv(path, index=False)
    with pytest.raises(InputError, match=r"ptable.csv: count 8: probabilities must be at least 0 and add up to 1"):
        CellKeys.of_table(path)
    pd.DataFrame(rows)[["i", "v"]].to_csv(path, index=False)
    with pytest.raises(InputError, match="is no CSV table with the columns i, v and p"):
        CellKeys.of_table(path)


@pytest.mark.parametrize("base", [3, 5])
def test_shaken_cells_are_rounded_to_numbers_that_they_may_have_been_published_as(base: int) -> None:
    """Empty cells stay empty; none moves by more than half of the base."""
    counts = np.repeat(np.arange(40), 500)
    shaken = Rounding(base).shaken(counts, np.random.default_rng(1))
    assert (shaken[counts == 0] == 0).all()
    assert np.abs(shaken - counts).max() == base // 2
    assert (shaken[counts > base // 2] > 0).all()
