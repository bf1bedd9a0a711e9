"""Areas that share persons as public numbers do: keys, plans, nearness to the truth, refusals, intervals."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.command import feature_module
from releases.made_case import made_case
from releases.mutant import resealed
from releases.shared_town import SHARES, write_shared_town
from releases.small import request_of, run

from auditor.check.release import check_release
from auditor.program import audit
from features.shares import knowledge
from features.shares.forecast import SpreadGuess, guesses_like, places_of, shared_rows, spread_guessed
from features.shares.public_share import shares_of
from pipeline.errors import InputError, SpecError
from pipeline.execution.steps import Silent
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.open_public import open_listed
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec, parse_spec
from postprocess.statistics import MEAN_ABSOLUTE

#: In place of SHARES.
_WITHOUT = '[postprocess]\nsolver = "batched"\n\n[companions.units]'


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small town of the matrix; two folders above it are its inputs."""
    return made_case(tmp_path_factory, "shares") / "out" / "town"


def test_the_blocks_are_nearer_to_the_truth_and_the_counties_the_same(shared: Path, tmp_path: Path) -> None:
    plain = run(write_shared_town(tmp_path, (SHARES, _WITHOUT)), tmp_path / "out")
    errors = []
    for root in (shared, plain):
        released = pq.read_table(root / "public/tables/total/block.parquet").to_pandas()
        truth = pd.read_csv(tmp_path / "persons.csv").groupby("block").size().reindex(released.geocode, fill_value=0)
        errors.append(abs(released["total"].to_numpy() - truth.to_numpy()).sum())
    assert errors[0] < 0.7 * errors[1]
    county = [pq.read_table(root / "public/tables/total/county.parquet") for root in (shared, plain)]
    assert county[0].column("total").equals(county[1].column("total"))
    for name in ("block/total", "tract/detailed"):
        measured = [(root / f"public/measurements/{name}.parquet").read_bytes() for root in (shared, plain)]
        assert measured[0] == measured[1]
    assert not (plain / "public" / "shares").exists()
    assert "shares" not in str(read_manifest(RunDirectory(plain).manifest).solver)


def test_an_independent_check_knows_the_public_numbers(shared: Path, tmp_path: Path) -> None:
    root = shutil.copytree(shared, tmp_path / "town")
    path = root / "public/shares/beds.parquet"
    table = pd.read_parquet(path)
    table.loc[3, "number_1"] = -1.0
    table.iloc[:-1].to_parquet(path, index=False)
    found = "\n".join(check_release(root))
    assert "public/shares/beds.parquet: row 4 has -1.0; numbers from 0 are allowed" in found
    assert "has 0 rows; each block has one" in found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("A0101,", "X0101,", 1), "a geocode that is not a leaf of the spine in 1 row"),
        (lambda text: text + text.splitlines()[-1] + "\n", r"have several rows: 'B0304' \(the last is row \d+\)"),
        (lambda text: text.replace("A0101,", "A0101,-", 1), r"geounit A0101: a negative number in 1 row \(row 1; line"),
        (lambda text: text.replace("A0102,", "A0102,nan", 1), "geounit A0102: .* number in 1 row"),
        (lambda text: text.replace("A0102,", "A0102,many", 1), "geounit A0102: something that is not a number"),
        (lambda text: text.replace("A0102,", "A0102,inf", 1), "geounit A0102: something that is not a number"),
        (lambda text: text.replace("beds", "sofas", 1), "no column 'beds'"),
    ],
)
def test_a_wrong_public_file_is_refused_before_anything_is_written(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    spec = write_shared_town(tmp_path)
    beds = tmp_path / "beds.csv"
    beds.write_text(change(beds.read_text()))
    checked = request_of(spec, tmp_path / "out")
    with pytest.raises(InputError, match=message) as error:
        open_listed(checked.spec, checked.universes)
    assert "beds.csv" in str(error.value)
    assert "postprocess.shares.beds" in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("people", 123),
        pytest.param("geounits", 10_000, marks=pytest.mark.slow),
        pytest.param("tau2", -1.0, marks=pytest.mark.slow),
        ("factors", [["3", 1.5]]),
    ],
)
def test_the_second_program_takes_no_other_notes_on_shares(
    shared: Path, tmp_path: Path, key: str, value: object
) -> None:
    copy = Path(shutil.copytree(shared, tmp_path / shared.name))

    def change(manifest: dict[str, Any]) -> None:
        manifest["solver"]["estimate block"]["shares"]["beds"]["total"][key] = value

    resealed(copy, change)
    assert "solver notes" in {found.check for found in audit(copy) if not found.passed}


UNLIKE = """
name = "far"
[privacy]
rho = "1/400"
key = "insecure-test:4"
[geography]
file = "areas.csv"
column = "area"
levels = { state = 1, tract = 3, block = 5 }
[schema.attributes]
age = ["young", "old"]
[strategy.queries]
total = "1/2"
age = "1/2"
[strategy.levels]
state = "1/4"
tract = "1/4"
block = "1/2"
[input]
file = "areas.csv"
form = "wide"
geocode = "area"
cells = [ { counts = "{age}" } ]
[publish]
microdata = false
replicates = 4
[postprocess.shares.homes]
file = "areas.csv"
level = "block"
geocode = "area"
column = "homes"
"""
N_TRACTS, N_BLOCKS = 24, 60
PART = 12  # of blocks, one is unlike the others


def write_far(folder: Path) -> Path:
    """Blocks of 2.5 persons a home, but for some that have nobody, or a hundred persons more."""
    rng = np.random.default_rng(2)
    n = N_TRACTS * N_BLOCKS
    homes = rng.integers(20, 61, n)
    people = rng.poisson(2.5 * homes)
    far = np.arange(n) % PART == 0
    people = np.where(far, people + 100, people)
    young = rng.binomial(people, 0.4)
    codes = [f"1{tract:02}{block:02}" for tract in range(N_TRACTS) for block in range(N_BLOCKS)]
    frame = pd.DataFrame({"area": codes, "homes": homes, "young": young, "old": people - young})
    frame.to_csv(folder / "areas.csv", index=False)
    (folder / "far.toml").write_text(UNLIKE)
    return folder / "far.toml"


def held(root: Path, folder: Path, table: str = "total") -> tuple[float, float, float]:
    """How often the truth is in its interval, of blocks like their neighbours and unlike; mean number of persons."""
    found = pq.read_table(root / f"public/tables/{table}/block.parquet").to_pandas()
    truth = pd.read_csv(folder / "areas.csv", dtype={"area": str}).set_index("area").reindex(found["geocode"])
    true: NDArray[np.int64] = (truth["young"] + truth["old"]).to_numpy()
    low, high, count = (found[name].to_numpy() for name in ("total:low90", "total:high90", "total"))
    assert (low < count).any()
    assert ((low <= count) & (count <= high)).all()
    inside = (low <= true) & (true <= high)
    far = np.arange(len(true)) % PART == 0
    return float(inside[~far].mean()), float(inside[far].mean()), float((high - low + 1).mean())


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("far")
    return run_release(request_of(write_far(folder), folder / "out"), Silent()), folder


def test_nine_of_ten_are_held_in_places_unlike_their_neighbours_too(release: tuple[Path, Path]) -> None:
    alike, unlike, _ = held(*release)
    assert 0.88 <= alike <= 0.92
    assert unlike >= 0.84  # of 120 blocks: 2.2 standard errors


@pytest.mark.slow
def test_simulated_intervals_alone_would_miss_them(
    tmp_path: Path, release: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge, "shared_intervals", lambda rule, *_: rule)
    root = run_release(request_of(write_far(tmp_path), tmp_path / "out"), Silent())
    assert held(root, tmp_path)[1] < 0.75
    kept, other = (pq.read_table(one / "public/tables/age/block.parquet") for one in (root, release[0]))
    assert kept.equals(other)  # answers that are not shared keep theirs


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


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (
            'levels = ["tract", "street"]\nquery = "sex"\ncolumns = { c = "homes" }',
            [
                "homes.levels: found 'tract'; the file's numbers, of level 'block', tell the shares of 'block'",
                "homes.levels: 'street' is not a level; the levels are tract, block",
                "homes.columns: 'c' is not an answer of 'sex'; allowed are male, female",
            ],
        ),
        ("", ["homes.column: found neither of column and columns; one of the two is needed"]),
        (
            'column = "homes"\n[postprocess.shares.HOMES]\nfile = "homes.csv"\nlevel = "tract"\n'
            'columns = { total = "homes" }',
            [
                "HOMES: differs from 'homes' in capital letters only; names must differ by more",
                "HOMES.level: found 'tract', the top level, which has no siblings; name one below it",
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
        parse_spec(PLAN.replace('column = "homes"\n', "") + keys)
    assert str(error.value).splitlines() == [f"spec: postprocess.shares.{line}" for line in lines]


plan_release = feature_module("features.plan.release_plan").plan_release
HOMES = [10, 20, 30, 60]


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


def test_one_family_is_as_by_hand(spec: Path) -> None:
    """Dense: the estimator's error of four blocks with noise, distances and a tract whose error is independent."""
    row = foretold(spec, 2.5, 4, 0.01)
    universe = load_spec(spec).universes()[0]
    level, budget = universe.strategy.levels[1], universe.strategy_budget
    v = noise_for(universe.framework, budget, level.share, level.queries[0].share, universe.neighbours).variance
    m = 2.5 * np.array(HOMES)
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
