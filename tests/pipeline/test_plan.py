"""What no plan of a release may be: faults that no spec brings about, one at a time; and what its paths cost."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from releases.small import write_town

import pipeline.plan
from geography.spine import last_levels
from pipeline.inputs.geography import read_spine
from pipeline.metadata.products import MEASUREMENTS, TABLES, products_of
from pipeline.model.universe import Universe
from pipeline.plan import Plan
from pipeline.privacy.budget import MOVED
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

BYPASS = (
    "levels = { county = 1, tract = 3, block = 5 }",
    "levels = { county = 1, tract = 3, block = 5 }\nbypass = true",
)
PURE = (('rho = "2"', 'framework = "pure"\nepsilon = "2"'), ('{ rho = "1" }', '{ epsilon = "1" }'))
#: Tables whose detail is chosen; a choice may cost a little less than it is given.
SELECT = (
    "[strategy.levels]",
    '[select.detail]\nlevel = "tract"\nshare = "1/10"\nchoice_share = "1/4"\nversions = ["sex", "detailed"]\n'
    "thresholds = [0, 50]\n\n[strategy.levels]",
)


def planned(folder: Path, *changes: tuple[str, str]) -> Plan:
    spec = load_spec(write_town(folder, *changes))
    universes = spec.universes()
    scope: Any = SimpleNamespace(spec=spec, universes=universes, run=RunDirectory(folder / "out"))
    return Plan(scope, spec.links(universes), read_spine(spec.geography))


def cost_of_each_leaf(plan: Plan, universe: Universe) -> list[Fraction]:
    """By hand: of each leaf, one number after the other that is drawn on its way to the top."""
    moved, spine = MOVED[universe.neighbours], plan.spine
    costs = [Fraction(0)] * spine.n_leaves
    for draw in universe.draws(spine):
        above = spine.leaf_ancestors(spine.index_of(draw.level))
        for leaf, geounit in enumerate(above.tolist()):
            kind = 0 if draw.kinds is None else int(draw.kinds[geounit])
            if kind >= 0:
                scale = draw.drawn[kind].scale
                costs[leaf] += moved / scale if universe.framework == "pure" else Fraction(moved) / (2 * scale)
    return costs


@pytest.mark.parametrize("changes", [(), (BYPASS,), PURE, (BYPASS, *PURE)])
def test_every_path_costs_what_is_promised_exactly(tmp_path: Path, changes: tuple[tuple[str, str], ...]) -> None:
    plan = planned(tmp_path, *changes).checked()
    for universe in plan.scope.universes:
        assert set(cost_of_each_leaf(plan, universe)) == {universe.budget} == {plan.spent(universe)}
        if BYPASS in changes:
            assert any(draw.kinds is not None and (draw.kinds < 0).any() for draw in universe.draws(plan.spine))


def test_what_chooses_detail_is_paid_beside_the_strategy(tmp_path: Path) -> None:
    plan = planned(tmp_path, SELECT).checked()
    own = plan.scope.universes[0]
    (cost,) = set(cost_of_each_leaf(plan, own))
    assert cost == own.budget * Fraction(9, 10)
    assert own.budget * Fraction(999_999, 1_000_000) < plan.spent(own) <= own.budget


def _more_noise_than_paid(patch: pytest.MonkeyPatch) -> None:
    def twice(self: Universe, level: Fraction, share: Fraction) -> NoiseSpec:
        return noise_for(self.framework, 2 * self.strategy_budget, level, share, self.neighbours)

    patch.setattr(Universe, "noise_at", twice)


def _measured_below_as_well(patch: pytest.MonkeyPatch) -> None:
    """What stands for others keeps their budget, and they are measured all the same."""

    def everywhere(*arguments: Any) -> list[Any]:
        return [np.where(last < 0, number, last) for number, last in enumerate(last_levels(*arguments))]

    patch.setattr("pipeline.model.draw.last_levels", everywhere)


def _table_of_two_products(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline.plan, "products_of", lambda features: (*products_of(features), TABLES))


def _no_product(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline.plan, "products_of", lambda of: [one for one in products_of(of) if one is not MEASUREMENTS])


def _one_file_for_two_draws(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(pipeline.plan, "drawn_file", lambda folder, draw: folder.measurement(draw.level, "total"))


def _in_a_circle(patch: pytest.MonkeyPatch) -> None:
    links: Any = (SimpleNamespace(of="", by="units"), SimpleNamespace(of="units", by=""))
    patch.setattr(Plan, "checked", lambda self, checked=Plan.checked: checked(Plan(self.scope, links, self.spine)))


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (_more_noise_than_paid, "what is drawn of the release's own universe costs 4, and 2 is promised"),
        (_measured_below_as_well, "is promised"),
        (_table_of_two_products, "tables/total/county.parquet has 2 products and 0 draws"),
        (_no_product, "measurements/county/total.parquet has 0 products and 1 draws"),
        (_one_file_for_two_draws, "measurements/county/total.parquet has 1 products and 3 draws"),
        (_in_a_circle, "known by one another in a circle"),
    ],
)
def test_a_plan_with_a_fault_is_none(
    fault: Callable[[pytest.MonkeyPatch], None], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same plan without the fault is one, see above."""
    fault(monkeypatch)
    with pytest.raises(ValueError, match=told):
        planned(tmp_path, BYPASS).checked()
