"""The sample of simulated geounits is public, fair, nested, and as large as the precision needs."""

from __future__ import annotations

import numpy as np
import pytest

from geography.spine import Level, Spine
from postprocess.downward import simulation
from postprocess.downward.simulation import ERRORS, PRECISION, Rates, rates_of, visited, work_of


def country(states: int = 20, counties: int = 15, tracts: int = 8, blocks: int = 3) -> Spine:
    levels = [Level("us", np.array(["0"]), np.array([-1]))]
    for name, children in (("state", states), ("county", counties), ("tract", tracts), ("block", blocks)):
        above = levels[-1]
        codes = np.array([f"{code}{i:02}" for code in above.geocodes for i in range(children)])
        levels.append(Level(name, codes, np.repeat(np.arange(len(above)), children)))
    return Spine(tuple(levels))


def test_the_number_of_errors_gives_the_stated_precision() -> None:
    """The 90 % quantile of the absolute value of that many normal numbers varies by the stated share."""
    rng = np.random.default_rng(1)
    quantiles = np.quantile(np.abs(rng.normal(size=(4000, ERRORS))), 0.9, axis=1)
    assert quantiles.std() / quantiles.mean() == pytest.approx(PRECISION, rel=0.1)


@pytest.mark.parametrize("visits", [(10.0, 4.0, 2.5, 0.5, 0.5), (6.0, 6.0, 0.3, 0.3, 0.3), (3.0,) * 5])
def test_every_geounit_is_visited_as_often_as_its_rate_says(visits: tuple[float, ...]) -> None:
    spine = country()
    rates = Rates(int(visits[0]), visits, 2)
    flags = visited(spine, rates, 7)
    for level in range(spine.n_levels - 1):
        if level:
            # Only below those that are visited.
            assert not (flags[level] & ~flags[level - 1][:, spine.levels[level].parents]).any()
        often = flags[level].sum(axis=0)
        assert often.mean() == pytest.approx(visits[level + 1], rel=0.25)
        assert often.max() <= np.ceil(visits[level + 1]) + 1
    # A leaf's chance does not depend on where it stands among its siblings.
    by_place = np.zeros(15)
    for key in range(60):
        by_place += visited(spine, rates, key)[2].sum(axis=0).reshape(-1, 15).sum(axis=0)
    assert by_place.std() / by_place.mean() < 0.14
    again, other = visited(spine, rates, 7), visited(spine, rates, 8)
    assert all(np.array_equal(a, b) for a, b in zip(flags, again, strict=True))
    everything = min(visits) == rates.runs
    assert all(np.array_equal(a, b) for a, b in zip(flags, other, strict=True)) == everything


def test_a_country_is_simulated_in_part_and_never_more_than_allowed() -> None:
    spine = country(50, 60, 20, 30)
    filled = [np.full(len(level), k) for level, k in zip(spine.levels[:-1], (1500, 900, 400, 80), strict=True)]
    work = work_of(spine, 2016, filled)
    rates = rates_of(spine, [0.0, 0.0, 0.4, 0.1, 0.05], work, 20)
    assert rates.cut == 2
    assert list(rates.visits) == sorted(rates.visits, reverse=True)
    assert rates.runs == rates.visits[0] <= 20
    # Below the cut subtrees are simulated whole or not at all.
    assert rates.visits[3] == rates.visits[4] == pytest.approx(0.1)
    assert float(np.dot(rates.visits, work)) < 0.5 * work.sum()
    assert rates_of(spine, [0.0, 0.0, 0.4, 0.1, 0.05], work, 1).runs == 1


def test_the_sample_below_few_geounits_is_in_more_than_one_run() -> None:
    """One nation and five states: were their children visited 0.6 times, all of it would be in one run."""
    spine = country(5, 40, 10, 20)
    filled = [np.full(len(level), k) for level, k in zip(spine.levels[:-1], (1500, 900, 400, 80), strict=True)]
    rates = rates_of(spine, [0.0, 0.0, 0.6, 0.6, 0.6], work_of(spine, 2016, filled), 20)
    assert rates.visits[2] == simulation.SPREAD
    assert rates.visits[3] == pytest.approx(0.6)
    runs = visited(spine, rates, 3)[rates.cut or 0].sum(axis=1)
    assert np.sort(runs)[-2:].tolist() == pytest.approx([runs.sum() / 2] * 2, rel=0.1)


@pytest.mark.parametrize("filled", [2, 300])
@pytest.mark.parametrize("needed", [0.0, ERRORS / simulation.NOTABLE])
def test_leaves_are_simulated_no_more_often_than_is_said_before(filled: int, needed: float) -> None:
    """Also where work is little, so that more of it is done, and where the rarest size that is notable is published."""
    spine = country(5, 40, 10, 20)
    work = work_of(spine, 300, [np.full(len(level), filled) for level in spine.levels[:-1]])
    most = simulation.most_visits(spine.n_leaves, 300)
    assert 0 < rates_of(spine, [needed] * spine.n_levels, work, 20).visits[-1] <= most < 20
    assert rates_of(spine, [1.2 * most] * spine.n_levels, work, 20).visits[-1] > most
