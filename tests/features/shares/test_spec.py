"""The keys of shares in a spec: what they mean, what is refused, and what a plan foretells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import feature_module
from releases.made_case import made_case
from releases.shared_town import write_shared_town

from features.shares.forecast import SpreadGuess, guesses_like, places_of, shared_rows, spread_guessed
from features.shares.public_share import shares_of
from pipeline.errors import SpecError
from pipeline.privacy.budget import noise_for
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import load_spec, parse_spec
from postprocess.statistics import MEAN_ABSOLUTE

SPEC = """name = "x"
[privacy]
rho = "1"
[geography]
file = "areas.csv"
levels = ["state", "block"]
[schema.attributes]
sex = ["a", "b"]
[strategy]
queries = { total = "1" }
levels = { state = "1/2", block = "1/2" }
[postprocess.shares.homes]
file = "homes.csv"
level = "block"
"""


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (
            'levels = ["state", "street"]\nquery = "sex"\ncolumns = { c = "homes" }',
            [
                "homes.levels: found 'state'; the file's numbers, of level 'block', tell the shares of 'block'",
                "homes.levels: 'street' is not a level; the levels are state, block",
                "homes.columns: 'c' is not an answer of 'sex'; allowed are a, b",
            ],
        ),
        ("", ["homes.column: found neither of column and columns; one of the two is needed"]),
        (
            'column = "homes"\n[postprocess.shares.HOMES]\nfile = "homes.csv"\nlevel = "state"\n'
            'columns = { total = "homes" }',
            [
                "HOMES: differs from 'homes' in capital letters only; names must differ by more",
                "HOMES.level: found 'state', the top level, which has no siblings; name one below it",
            ],
        ),
        (
            'colum = "homes"',
            [
                "homes.colum: unknown key; did you mean 'column'? allowed here are file, level, levels, geocode, "
                "query, column, columns"
            ],
        ),
    ],
)
def test_each_mistake_has_its_message(keys: str, lines: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC + keys)
    assert str(error.value).splitlines() == [f"spec: postprocess.shares.{line}" for line in lines]


# -- what a plan foretells --------------------------------------------------------------------------------------------


plan_release = feature_module("features.plan.release_plan").plan_release
HOMES = [10, 20, 30, 60]
PLAN = """
name = "plan"
[privacy]
rho = "1/100"
[geography]
file = "blocks.csv"
column = "block"
levels = { tract = 1, block = 2 }
[schema.attributes]
sex = ["male", "female"]
[strategy]
queries = { total = "1" }
levels = { tract = "1/2", block = "1/2" }
[input]
file = "persons.csv"
form = "microdata"
geocode = "block"
[postprocess.shares.homes]
file = "blocks.csv"
level = "block"
geocode = "block"
column = "homes"
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    pd.DataFrame({"block": ["11", "12", "13", "14"], "homes": HOMES}).to_csv(tmp_path / "blocks.csv", index=False)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def foretold(path: Path, persons: float, tau2: float, a: float = 0.0) -> dict[str, Any]:
    """What is foretold at the lowest level if areas are so far from their shares at all levels."""
    expectation = plan_release(path, 1).universes[0].expectation
    shares = shares_of(expectation.universe)
    guess = SpreadGuess(persons, spread_guessed(tau2, a))
    guesses = {place: guess for share in shares for place in places_of(share)}
    return shared_rows(shares, expectation, expectation.planned(), guesses)[-1]


def _noise(path: Path) -> float:
    universe = load_spec(path).universes()[0]
    level = universe.strategy.levels[1]
    share = level.queries[0].share
    return noise_for(universe.framework, universe.strategy_budget, level.share, share, universe.neighbours).variance


def test_one_family_is_as_by_hand(spec: Path) -> None:
    """Dense: the estimator's error of four blocks with noise, distances and a tract whose error is independent."""
    row = foretold(spec, 2.5, 4, 0.01)
    v, m = _noise(spec), 2.5 * np.array(HOMES)
    f, s = 4 * (m + 0.01 * m**2), m / m.sum()
    used = 1 / (1 / f - 0.1 / v)
    q = 1 / (1 / v + 1 / used)
    reduced = np.diag(np.ones(4)) - np.outer(q, np.ones(4)) / q.sum()
    top = 1 / (1 / v + 1 / (4 * v))
    noise = reduced @ np.diag(q / v)
    model = reduced @ np.diag(q / used)
    up = top * np.ones(4) / (4 * v)  # what the tract's error owes to each block's noise
    with_parent = model @ s + q / q.sum()
    by_noise = noise + np.outer(with_parent, up)
    by_tract = with_parent * top / v
    distances = model @ (np.diag(f) - np.outer(f, f) / f.sum()) @ model.T
    variance = np.diag(v * by_noise @ by_noise.T + v * np.outer(by_tract, by_tract) + distances)
    assert row["error"] == pytest.approx(MEAN_ABSOLUTE * np.sqrt(variance).mean(), rel=1e-6)
    without = MEAN_ABSOLUTE * np.sqrt(v - v / 4 + top / 16)
    assert row["without"] == pytest.approx(without, rel=1e-6)
    assert row["error"] < 0.9 * without


def test_the_budgets_give_the_errors_that_they_are_said_to(spec: Path) -> None:
    row = foretold(spec, 2.5, 4, 0.01)
    assert row["enough"] < row["budget"] < row["needed_without"]
    found = []
    for budget in (row["needed_without"], row["enough"]):
        spec.write_text(PLAN.replace('rho = "1/100"', f'rho = "{budget:.12f}"'))
        found.append(foretold(spec, 2.5, 4, 0.01))
    assert found[0]["without"] == pytest.approx(row["error"], rel=1e-3)
    assert found[1]["error"] == pytest.approx(row["without"], rel=1e-3)


@pytest.mark.slow
def test_an_earlier_release_tells_it(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Its manifest's spread, and the persons that it released; of shares that it did not use nothing."""
    root, path = made_case(tmp_path_factory, "shares") / "out" / "town", write_shared_town(tmp_path)
    (universe, *_) = load_spec(path).universes()
    guesses = guesses_like(root, shares_of(universe))
    noted = read_manifest(RunDirectory(root).manifest).solver["estimate block"]["shares"]["beds"]["total"]  # type: ignore[index,call-overload]
    guess = guesses["beds", "block", "total"]
    assert guess.spread.public() | {"noise": 0, "standard_error": 0, "geounits": 0} == (
        noted | {"noise": 0, "standard_error": 0, "geounits": 0}  # type: ignore[operator]
    )
    released = pq.read_table(root / "public/tables/total/county.parquet").to_pandas()["total"].sum()
    assert guess.persons == pytest.approx(released / pd.read_csv(tmp_path / "beds.csv")["beds"].sum())
    plan = plan_release(path, 1, root)
    assert plan.unguessed_shares == ()
    rows = {(row.name, row.level): row for row in plan.shared}
    assert {level for name, level in rows if name == "quarters"} == {"block"}
    block = rows["beds", "block"]
    assert block.error is not None
    assert block.without is not None
    assert block.error < 0.8 * block.without
    path.write_text(path.read_text().replace("shares.quarters]", "shares.rooms]"))
    again = plan_release(path, 1, root)
    assert again.unguessed_shares == ("rooms",)
    assert {row.name for row in again.shared} == {"beds"}


def test_where_public_shares_alone_do_no_budget_is_needed(spec: Path) -> None:
    spec.write_text(PLAN + '[invariants]\ntract = ["total"]\n')
    assert foretold(spec, 2.5, 0.5)["enough"] == 0
