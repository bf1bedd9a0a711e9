"""What a plan foretells of shares: by hand, as an earlier release found it, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import feature_module, printed
from releases.shared_town import write_shared_town
from releases.small import run

import spinewise as sw
from features.shares.forecast import guesses_like
from features.shares.public_share import shares_of
from pipeline.errors import InputError
from pipeline.privacy.budget import noise_for
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.spec.release_spec import load_spec
from postprocess.statistics import MEAN_ABSOLUTE

plan_release = feature_module("features.plan.release_plan").plan_release
SharesGuess = feature_module("features.plan.shares").SharesGuess

HOMES = [10, 20, 30, 60]
SPEC = """
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
STATED = "homes: persons = 2.5, tau2 = 4, a = 0.01"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    pd.DataFrame({"block": ["11", "12", "13", "14"], "homes": HOMES}).to_csv(tmp_path / "blocks.csv", index=False)
    path = tmp_path / "plan.toml"
    path.write_text(SPEC)
    return path


def _noise(path: Path) -> float:
    universe = load_spec(path).universes()[0]
    level = universe.strategy.levels[1]
    share = level.queries[0].share
    return noise_for(universe.framework, universe.strategy_budget, level.share, share, universe.neighbours).variance


def test_one_family_is_as_by_hand(spec: Path) -> None:
    """Dense: the estimator's error of four blocks with noise, distances and a tract whose error is independent."""
    (row,) = plan_release(spec, None, 1, SharesGuess(STATED)).shared
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
    assert row.error == pytest.approx(MEAN_ABSOLUTE * np.sqrt(variance).mean(), rel=1e-6)
    without = MEAN_ABSOLUTE * np.sqrt(v - v / 4 + top / 16)
    assert row.without == pytest.approx(without, rel=1e-6)
    assert row.error is not None
    assert row.error < 0.9 * without


def test_the_budgets_give_the_errors_that_they_are_said_to(spec: Path) -> None:
    (row,) = plan_release(spec, None, 1, SharesGuess(STATED)).shared
    assert row.needed_without is not None
    assert row.enough is not None
    assert row.enough < row.budget < row.needed_without
    found: list[Any] = []
    for budget in (row.needed_without, row.enough):
        spec.write_text(SPEC.replace('rho = "1/100"', f'rho = "{budget:.12f}"'))
        found += plan_release(spec, None, 1, SharesGuess(STATED)).shared
    assert found[0].without == pytest.approx(row.error, rel=1e-3)
    assert found[1].error == pytest.approx(row.without, rel=1e-3)


def test_without_a_guess_it_says_that_the_gain_is_unknown(spec: Path) -> None:
    shown = " ".join(printed("plan", spec).split())
    assert "Shares from public counts are used: homes. What they gain is not known before the run" in shown
    data = json.loads(printed("plan", spec, "--json"))
    assert (data["shares"], data["shares_without_a_guess"]) == ([], ["homes"])
    shown = " ".join(printed("plan", spec, "--shares-spread", "homes: persons = 2.5, relative = 0.2").split())
    assert "rho for that without" in shown
    assert "not known before the run" not in shown
    spec.write_text(SPEC[: SPEC.index("[postprocess.shares")])
    assert "hares" not in printed("plan", spec)


def test_from_python(spec: Path) -> None:
    frame = sw.plan(spec, workers=1, shares_spread="homes: persons = 2.5, relative = 0.2").shares
    assert frame["error"][0] < frame["without"][0]
    assert sw.plan(spec, workers=1).shares.empty


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "nothing is given"),
        ("homes = 0.2", "found 'homes = 0.2'; allowed is"),
        ("beds: persons = 2", "no share 'beds' is used; the shares in use are 'homes'"),
        ("homes: relative = 0.2", "persons is missing"),
        ("homes: persons = many, relative = 0.2", "persons: found 'many'; a number above 0"),
        ("homes: persons = 2, relative = 0", "relative: found '0'"),
        ("homes: persons = 2, relative = 0.2, tau2 = 1", "found persons, relative, tau2"),
        ("homes: persons = 2, spread = 1", "found 'spread = 1'"),
        (STATED + ";" + STATED, "homes occurs twice"),
    ],
)
def test_a_guess_that_cannot_be_read_is_refused(spec: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_release(spec, None, 1, SharesGuess(text))


def test_a_guess_without_shares_is_refused(spec: Path, tmp_path: Path) -> None:
    spec.write_text(SPEC[: SPEC.index("[postprocess.shares")])
    with pytest.raises(InputError, match="--shares-spread is for specs that use shares"):
        plan_release(spec, None, 1, SharesGuess(STATED))
    assert plan_release(spec, None, 1, SharesGuess(None, tmp_path)).shared == ()  # a release is named for other reasons


@pytest.mark.slow
def test_an_earlier_release_tells_it(tmp_path: Path) -> None:
    """Its manifest's spread, and the persons that it released; a stated guess counts first."""
    path = write_shared_town(tmp_path)
    root = run(path, tmp_path / "out")
    (universe, *_) = load_spec(path).universes()
    guesses = guesses_like(root, shares_of(universe))
    noted = read_manifest(RunDirectory(root).manifest).solver["estimate block"]["shares"]["beds"]["total"]  # type: ignore[index,call-overload]
    guess = guesses["beds", "block", "total"]
    assert guess.spread.public() | {"noise": 0, "standard_error": 0, "geounits": 0} == (
        noted | {"noise": 0, "standard_error": 0, "geounits": 0}  # type: ignore[operator]
    )
    released = pq.read_table(root / "public/tables/total/county.parquet").to_pandas()["total"].sum()
    assert guess.persons == pytest.approx(released / pd.read_csv(tmp_path / "beds.csv")["beds"].sum())
    plan = plan_release(path, None, 1, SharesGuess(None, root))
    assert plan.unguessed_shares == ()
    rows = {(row.name, row.level): row for row in plan.shared}
    assert {level for name, level in rows if name == "quarters"} == {"block"}
    block = rows["beds", "block"]
    assert block.error is not None
    assert block.without is not None
    assert block.error < 0.8 * block.without
    other = plan_release(path, None, 1, SharesGuess("beds: persons = 1, tau2 = 0.1", root)).shared
    found = {(row.name, row.level): row for row in other}
    assert found["quarters", "block"] == rows["quarters", "block"]
    assert found["beds", "block"].error < block.error
    path.write_text(path.read_text().replace("shares.quarters]", "shares.rooms]"))
    with pytest.raises(InputError, match="no shares 'rooms'; its shares are 'beds', 'quarters'"):
        plan_release(path, None, 1, SharesGuess(None, root))


@pytest.mark.slow
def test_many_runs_err_as_foretold(tmp_path: Path) -> None:
    """Where areas are as far from their public shares as was guessed, and every count is far from 0."""
    rng = np.random.default_rng(3)
    codes = [f"1{tract:02}{block}" for tract in range(40) for block in range(6)]
    homes = rng.integers(200, 600, len(codes))
    pd.DataFrame({"block": codes, "homes": homes}).to_csv(tmp_path / "blocks.csv", index=False)
    persons = np.maximum(np.rint(rng.normal(2.5 * homes, np.sqrt(4 * 2.5 * homes))), 0).astype(int)
    pd.DataFrame({"block": codes, "male": persons, "female": persons // 2}).to_csv(tmp_path / "p.csv", index=False)
    persons = persons + persons // 2
    text = SPEC.replace("{ tract = 1, block = 2 }", "{ all = 1, tract = 3, block = 4 }").replace('"1/100"', '"1/2000"')
    text = text.replace('{ tract = "1/2"', '{ all = "1/4", tract = "1/4"').replace("persons.csv", "p.csv")
    text = text.replace('form = "microdata"', 'form = "wide"\ncells = [ { counts = "{sex}" } ]')
    path = tmp_path / "plan.toml"
    path.write_text(text + "[publish]\nmargins = false\nmicrodata = false\n")
    # 1.5 times the persons of above: 3.75 a home, with a variance of 1.5^2 * 4 * 2.5 a home.
    (_, block) = plan_release(path, None, 1, SharesGuess("homes: persons = 3.75, tau2 = 6")).shared
    errors = []
    for key in range(1, 5):
        path.write_text(path.read_text().replace("[geography]", f'key = "insecure-test:{key}"\n[geography]', 1))
        root = run(path, tmp_path / f"out{key}")
        released = pq.read_table(root / "public/tables/total/block.parquet").to_pandas()
        truth = pd.Series(persons, index=codes).reindex(released.geocode).to_numpy()
        errors.append(float(abs(released["total"].to_numpy() - truth).mean()))
        path.write_text(path.read_text().replace(f'key = "insecure-test:{key}"\n', ""))
    assert block.error is not None
    assert block.without is not None
    assert np.mean(errors) == pytest.approx(block.error, rel=0.12)
    assert block.error < 0.85 * block.without


def test_where_public_shares_alone_do_no_budget_is_needed(spec: Path) -> None:
    spec.write_text(SPEC + '[invariants]\ntract = ["total"]\n')
    (row,) = plan_release(spec, None, 1, SharesGuess("homes: persons = 2.5, tau2 = 0.5")).shared
    assert row.enough == 0
