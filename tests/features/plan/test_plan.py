"""What a plan foretells, against the measured problem and many runs; divisions of a budget, against dense algebra."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.optimize
from releases.command import printed
from releases.made_case import made_case
from releases.small import request_of, write_town

from features.plan.best import PARTS, in_parts, rounded_up
from features.plan.division import LEAST_SHARE, Objective, check_objective, descend
from features.plan.release_plan import plan_release
from features.plan.targets import Aim, parse_aims
from features.plan.write_spec import write_divided
from geography.errors import SpinewiseError
from geography.off_spine import OffSpineAreas, off_spine_distances
from pipeline.errors import InputError
from pipeline.estimation.expectation import Expectation
from pipeline.estimation.whole_spine import Computed
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.area_numbers import read_facilities
from pipeline.inputs.geography import read_listed_spine, read_spine
from pipeline.model.query import Query
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.reading.reader import open_reader
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.release.spine import read_public_spine
from pipeline.runs.run import run_release
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked
from postprocess.arrays import FloatArray
from postprocess.linear.downward import variances_of
from postprocess.linear.upward import basis_of, upward_pass
from postprocess.statistics import MEAN_ABSOLUTE


@pytest.fixture(scope="module")
def spec_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town's spec; the records are gone, since a plan reads none."""
    spec = write_town(tmp_path_factory.mktemp("town"))
    for name in ("persons.csv", "units.csv"):
        (spec.parent / name).unlink()
    return spec


def invoke(*arguments: object) -> str:
    return printed("plan", *arguments)


@pytest.mark.parametrize("name", ["town", "bypass"])
def test_json_against_the_measured_problem(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    """Every expected error is that of the covariances of the release as it was measured, facilities included."""
    folder = made_case(tmp_path_factory, name)
    spec, directory = folder / "release.toml", folder / "out" / "town"
    found = json.loads(invoke(spec, "--json"))
    loaded = load_spec(spec)
    spine = read_public_spine(unchecked(directory / "public" / "spine.parquet"), loaded.geography.level_names)
    job = Job(RunDirectory(directory), loaded, loaded.universes(), spine, Workers(1), Silent())
    for universe, stated in zip(job.universes, found["universes"], strict=True):
        problem = Computed(job, universe).problem
        basis = basis_of(problem)
        variances = list(variances_of(problem, upward_pass(problem, basis)))
        queries = {query.name: query for query in universe.strategy.distinct_queries()}
        checked = 0
        for row in stated["expected"]:
            if row["query"] in queries:
                number = spine.index_of(row["level"])
                errors = MEAN_ABSOLUTE * np.sqrt(variances[number].of_answers(basis, queries[row["query"]]))
                assert row["per_number"] == pytest.approx(errors.mean(), rel=1e-6, abs=1e-5)
                squares = (errors / MEAN_ABSOLUTE) ** 2
                assert row["rmse"] == pytest.approx(squares.mean() ** 0.5, rel=1e-6, abs=1e-5)
                assert row["per_geounit"] == pytest.approx(errors.sum(axis=1).mean(), rel=1e-6, abs=1e-5)
                checked += 1
        assert checked >= 6
        assert stated["privacy"]["budget"] == str(universe.budget)


def test_found_division_runs(spec_alone: Path, tmp_path: Path) -> None:
    """What is written is a spec: exact shares, the same files from another folder, comments kept, targets met."""
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / "better.toml"
    aims = "tract: grown * sex <= 6; block: total <= 2"
    found = json.loads(invoke(spec_alone, "--target", aims, "--write", target, "--json"))["best"]
    written, before = load_spec(target), load_spec(spec_alone)
    universe, own = written.universes()[0], before.universes()[0]
    assert str(universe.budget) == str(Fraction(found["rho"]))
    assert sum(level.share for level in universe.strategy.levels) == 1
    assert written.geography.file == before.geography.file
    assert universe.bounds[0].file == own.bounds[0].file
    assert universe.input is not None
    assert universe.input.file == own.input.file  # type: ignore[union-attr]
    assert written.universes()[1].privacy_fingerprint() == before.universes()[1].privacy_fingerprint()
    spine = read_spine(written.geography)
    facilities = [read_facilities(bound, spine) for bound in universe.bounds]
    expectation = Expectation.of(universe, spine, facilities, "full")
    planned = expectation.planned()
    queries = {query.name: query for query in universe.strategy.distinct_queries()}
    assert expectation.errors(planned, "tract", queries["grown * sex"]).per_geounit <= 6
    assert expectation.errors(planned, "block", queries["total"]).per_geounit <= 2
    needed = {one["division"]: Fraction(one["rho_needed"]) for one in found["compared"]}
    assert needed["found"] < needed["the spec's own"]
    assert needed["found"] < needed["equal"]


def test_a_companion_and_a_given_budget(spec_alone: Path, tmp_path: Path) -> None:
    """--universe and --weights: the companion's budget is divided, the release's own stays; nothing is overwritten."""
    target = tmp_path / "better.toml"
    arguments = (spec_alone, "--universe", "units", "--rho", "3/7", "--weights", "tract: status = 2; block: status = 1")
    assert "Best division of the companion units: rho = 3/7" in invoke(*arguments, "--write", target)
    written, before = load_spec(target).universes(), load_spec(spec_alone).universes()
    assert written[1].budget == Fraction(3, 7)
    assert written[0].privacy_fingerprint() == before[0].privacy_fingerprint()
    target.write_text("mine")
    with pytest.raises(SpinewiseError, match="nothing is overwritten"):
        invoke(*arguments, "--write", target)
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--write", "x.toml"], "--write needs something to write"),
        (["--rho", "1"], "--rho needs what the budget is to be divided for"),
        (["--weights", "tract: total = 1"], "--weights needs --rho"),
        (["--target", "tract: total <= 1", "--weights", "tract: total = 1"], "one of the two is allowed"),
        (["--target", "tract: total <= 1", "--rho", "a lot"], "--rho: found 'a lot'"),
        (["--target", "tract: total <= 1", "--rho", "0"], "it must be above 0"),
        (["--target", "tract: total <= 1", "--universe", "cars"], "no companion 'cars'; the companions are 'units'"),
        (["--target", "tract: total <= 1", "--least", "0.5"], "measured queries cannot have 0.5 of the budget each"),
    ],
)
def test_refusals(spec_alone: Path, arguments: list[str], told: str) -> None:
    with pytest.raises(SpinewiseError) as caught:
        invoke(spec_alone, *arguments)
    assert told in str(caught.value)
    assert caught.value.exit_status == 2


def test_written_specs_of_other_forms(tmp_path: Path) -> None:
    """A preset's name instead of a strategy, no table of privacy, a companion in one line."""
    (tmp_path / "blocks.csv").write_text("block\nA11\nA21\nB11\n")
    text = """
name = "little"
geography = { file = "blocks.csv", column = "block", levels = { county = 1, block = 3 } }
schema = { attributes = { age = ["child", "adult"] } }
strategy = { levels = { county = "1/2", block = "1/2" }, queries = { total = "1/2", detailed = "1/2" } }
privacy = { rho = "1" }
companions.units = { privacy = { rho = "1" }, schema = { attributes = { use = ["home", "other"] } }, strategy = { \
levels = { county = "1/2", block = "1/2" }, queries = { total = "1/2", use = "1/2" } } }
"""
    spec = tmp_path / "little.toml"
    spec.write_text(text)
    for number, universe in enumerate(load_spec(spec).universes()):
        target = tmp_path / f"{number}.toml"
        shares = {
            (level.level, one.query.name): Fraction(share, 10)
            for level, part in zip(universe.strategy.levels, ((1, 2), (3, 4)), strict=True)
            for one, share in zip(level.queries, part, strict=True)
        }
        moved = Expectation.of(universe, read_spine(load_spec(spec).geography), [], "full").divided(Fraction(5), shares)
        write_divided(spec, target, moved)
        found = load_spec(target).universes()[number]
        assert found.privacy_fingerprint() == moved.privacy_fingerprint()
        assert found.budget == 5


def test_every_file_name_moves(tmp_path: Path) -> None:
    """Areas to regroup for, names and polygons are found from the folder of the copy, too."""
    more = """[geography.names]
county = { file = "names.csv", code = "code", name = "name" }
[geography.regroup]
file = "areas.csv"
[report.polygons.tract]
file = "tracts.geojson"
code = "tract"
[schema.attributes]"""
    spec = write_town(tmp_path / "town", ("[schema.attributes]", more))
    (tmp_path / "elsewhere").mkdir()
    before = load_spec(spec)
    universe = before.universes()[0]
    levels = universe.strategy.levels
    shares = {(level.level, one.query.name): level.share * one.share for level in levels for one in level.queries}
    blocks = read_listed_spine(before.geography)
    expectation = Expectation.of(universe, blocks, [np.zeros((blocks.n_leaves, 2), dtype=np.int64)], "full")
    target = tmp_path / "elsewhere" / "copy.toml"
    write_divided(spec, target, expectation.divided(Fraction(3), shares))
    after = load_spec(target)
    assert after.geography.regroup is not None
    assert after.geography.regroup.file == tmp_path / "town" / "areas.csv"
    assert after.report.polygons["tract"].file == tmp_path / "town" / "tracts.geojson"
    assert (after.geography.names or {})["county"].file == tmp_path / "town" / "names.csv"


@pytest.mark.parametrize("seed", range(3))
def test_parts_add_up(seed: int) -> None:
    """Shares are whole parts of ten thousand, at least one each, nearest to what was found."""
    weights = np.random.default_rng(seed).dirichlet(np.full(20, 0.2))
    parts = in_parts(weights)
    assert sum(parts) == 1
    assert min(parts) >= Fraction(1, PARTS)
    assert max(abs(float(part) - weight) for part, weight in zip(parts, weights, strict=True)) <= 20 / PARTS
    assert (rounded_up(1.76404), rounded_up(0.000123401)) == (Fraction("1.765"), Fraction("0.0001235"))


def planned(spec: Path, *options: object) -> dict[str, Any]:
    found = json.loads(printed("plan", spec, *options, "--json"))
    assert isinstance(found, dict)
    return found


def class_of(people: int) -> str:
    limits = ((0, "empty"), (49, "1 to 49"), (499, "50 to 499"), (999, "500 to 999"))
    return next(name for most, name in limits if people <= most)


def test_sizes_are_those_of_the_earlier_release(town: Path, town_spec: Path) -> None:
    rows = [row for row in planned(town_spec, "--like", town)["by_size"] if not row["universe"]]
    for level in ("tract", "block"):
        people = pd.read_parquet(RunDirectory(town).main.table("total", level))["total"]
        counted = people.map(class_of).value_counts().to_dict()
        assert {
            row["size"]: row["areas"] for row in rows if (row["table"], row["level"]) == ("total", level)
        } == counted
        for row in rows:
            if (row["table"], row["level"]) == ("total", level) and row["relative"] is not None:
                own = people[people.map(class_of) == row["size"]]
                assert row["relative"] == pytest.approx(100 * row["per_number"] * len(own) / own.sum())


def test_over_all_sizes_they_are_the_errors_of_the_level(town: Path, town_spec: Path) -> None:
    data = planned(town_spec, "--like", town)
    for universe in data["universes"]:
        whole = {(row["level"], frozenset(row["query"].split(" * "))): row for row in universe["expected"]}
        release = open_reader(town)
        release = release.companion(universe["universe"]) if universe["universe"] else release
        queries = {table.name: frozenset(table.query.name.split(" * ")) for table in release.universe.tables}
        own = [row for row in data["by_size"] if row["universe"] == universe["universe"]]
        assert own
        for table, level in {(row["table"], row["level"]) for row in own}:
            rows = [row for row in own if (row["table"], row["level"]) == (table, level)]
            areas = sum(row["areas"] for row in rows)
            expected = whole[level, queries[table]]
            assert areas == expected["geounits"]
            assert sum(row["areas"] * row["per_number"] for row in rows) / areas == pytest.approx(
                expected["per_number"]
            )
            squared = sum(row["areas"] * row["rmse"] ** 2 for row in rows) / areas
            assert math.sqrt(squared) == pytest.approx(expected["rmse"])
    # Areas without anybody have fewer numbers that are not certain: the classes differ.
    empty, large = (
        next(row for row in data["by_size"] if (row["table"], row["level"], row["size"]) == ("detail", "block", size))
        for size in ("empty", "50 to 499")
    )
    assert empty["per_number"] < large["per_number"]


def test_the_spine_is_shown_with_its_areas_off_it_and_written(tmp_path: Path) -> None:
    """Distances of areas from the listed spine and the regrouped one; areas as the release will have them."""
    levels = "levels = { county = 1, tract = 3, block = 5 }"
    spec = write_town(tmp_path, (levels, f'{levels}\nregroup = {{ file = "areas.csv" }}'))
    blocks = pd.read_csv(tmp_path / "blocks.csv", dtype=str)["block"]
    pd.DataFrame({"kind": "place", "code": "1", "geocode": blocks[3:9]}).to_csv(tmp_path / "areas.csv", index=False)
    geography = load_spec(spec).geography
    listed, spine = read_listed_spine(geography), read_spine(geography)
    areas = OffSpineAreas.of(listed, ["place"] * 6, ["1"] * 6, blocks[3:9].tolist())
    (before,), (after,) = off_spine_distances(listed, areas), off_spine_distances(spine, areas.moved(listed, spine))
    assert after < before
    for name in ("areas.parquet", "spine.csv"):
        rows = [line.split() for line in invoke(spec, "--spine", "--write", tmp_path / name).splitlines()]
        assert ["place", "1", f"{before:.2f}", str(before), f"{after:.2f}", str(after)] in rows
        sizes = np.diff(spine.child_offsets(1))
        tract = ["tract", len(spine.levels[1]), sizes.min(), f"{np.median(sizes):.0f}", sizes.max()]
        assert next(row for row in rows if row[:1] == ["tract"])[:5] == list(map(str, tract))
    written = pd.read_csv(tmp_path / "spine.csv", dtype=str)
    assert written["block"].tolist() == spine.leaf_level.geocodes.tolist()


def test_it_shows_the_errors_that_json_has(spec_alone: Path) -> None:
    lines = invoke(spec_alone).splitlines()
    data = json.loads(invoke(spec_alone, "--json"))
    assert lines[1] == f"Budget: rho = 2, rho = 1 of units; {data['promise']}."
    for line, universe, query in zip(lines[2:6], (0, 0, 1, 1), ("total", "detailed", "total", "status"), strict=True):
        rows = [row for row in data["universes"][universe]["expected"] if row["query"] == query]
        errors = [
            f"{row['level']} {format(row['per_number'], ',.2f') if row['per_number'] else 'exact'}" for row in rows
        ]
        assert line.endswith(f"{query}, in persons: {', '.join(errors)}")


LITTLE = """
name = "little"
privacy = { rho = "1" }
geography = { file = "blocks.csv", column = "block", levels = { county = 1, tract = 2, block = 3 } }
schema.attributes = { age = ["child", "adult", "old"], sex = ["f", "m"] }
schema.recodes.grown = { attribute = "age", groups = { young = ["child"], grown = ["adult", "old"] } }
invariants = { county = ["total"] }

[strategy]
levels = { county = "1/3", tract = "1/3", block = "1/3" }
queries = { total = "1/3", "grown * sex" = "1/3", detailed = "1/3" }
"""


def little(folder: Path, *changes: tuple[str, str], estimator: str = "full") -> Expectation:
    """Two counties, four tracts of 1, 2, 2 and 3 blocks."""
    text = LITTLE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "little.toml").write_text(text)
    (folder / "blocks.csv").write_text("block\nA11\nA21\nA22\nB11\nB12\nB21\nB22\nB23\n")
    spec = load_spec(folder / "little.toml")
    return Expectation.of(spec.universes()[0], read_spine(spec.geography), [], estimator)


def dense_errors(expectation: Expectation, aims: Sequence[Aim], shares: FloatArray) -> FloatArray:
    """Error of each aim at rho = 1 by least squares on all cells of all leaves, given the exact totals of counties."""
    spine = expectation.spine

    def answers(level: str, query: Query) -> FloatArray:
        below = np.zeros((len(spine.level(level)), spine.n_leaves))
        below[spine.leaf_ancestors(spine.index_of(level)), np.arange(spine.n_leaves)] = 1.0
        return np.asarray(np.kron(below, np.eye(query.size)[:, query.cell_answer]), dtype=np.float64)

    queries = {query.name: query for query in expectation.universe.strategy.distinct_queries()}
    free = scipy.linalg.null_space(answers("county", queries["total"]))
    # One record that changes moves two answers: the noise of a share has the variance 2 / (2 rho share).
    precision = sum(
        share * (rows := answers(level, queries[name]) @ free).T @ rows
        for share, (level, name) in zip(shares, expectation.measured, strict=True)
    )
    covariance = free @ np.linalg.inv(precision) @ free.T
    found = []
    for aim in aims:
        rows = answers(aim.level, aim.query)
        deviations = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, covariance, rows), 0.0))
        found.append(np.sqrt(2 / np.pi) * deviations.sum() / len(spine.level(aim.level)) / aim.numbers)
    return np.array(found)


def dense_best(expectation: Expectation, aims: Sequence[Aim], goal: str) -> float:
    """The least objective that a general solver finds by differences of `dense_errors`."""
    n, numbers = len(expectation.measured), np.array([aim.number for aim in aims])

    def terms(shares: FloatArray) -> FloatArray:
        errors = dense_errors(expectation, aims, shares)
        return errors / numbers if goal == "largest" else errors * numbers

    start = np.full(n, 1 / n)
    simplex = [{"type": "eq", "fun": lambda x: x[:n].sum() - 1}]
    within = [{"type": "ineq", "fun": lambda x: x[n] - terms(x[:n])}] if goal == "largest" else []
    solution = scipy.optimize.minimize(
        (lambda x: x[n]) if goal == "largest" else (lambda x: terms(x[:n]).sum()),
        np.append(start, terms(start).max()),
        bounds=[(LEAST_SHARE, 1.0)] * n + [(0.0, None)],
        constraints=[*simplex, *within],
        method="SLSQP",
        options={"ftol": 1e-9, "maxiter": 300},
    )
    assert solution.success
    return float(solution.fun)


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        ("largest", "tract: total <= 2; county: sex <= 5; block: age * sex <= 30"),
        ("largest", "block: grown <= 4"),
        ("sum", "tract: total = 3; county: sex = 1 each; block: detailed = .1"),
    ],
)
def test_the_division_is_that_of_dense_algebra(tmp_path: Path, goal: Literal["largest", "sum"], text: str) -> None:
    """Recodes (blocks of 2 x 2), an exact total, single children: the errors at the division, and its optimum."""
    expectation = little(tmp_path)
    aims = parse_aims("--target" if goal == "largest" else "--weights", text, expectation.universe)
    found = descend(Objective(expectation, aims, goal))
    numbers, errors = np.array([aim.number for aim in aims]), dense_errors(expectation, aims, found.shares)
    assert found.value == pytest.approx((errors / numbers).max() if goal == "largest" else errors @ numbers, rel=1e-6)
    assert found.value == pytest.approx(dense_best(expectation, aims, goal), rel=1e-3)
    assert found.gap < 1e-3


def test_what_cannot_be_divided(tmp_path: Path) -> None:
    expectation = little(tmp_path)
    universe = expectation.universe
    exact = Objective(expectation, parse_aims("--target", "county: total <= 1", universe), "largest")
    with pytest.raises(InputError, match="county: total: these numbers are exact"):
        check_objective(exact)
    pure = little(tmp_path, ('{ rho = "1" }', '{ framework = "pure", epsilon = "1" }'))
    with pytest.raises(InputError, match='framework "zcdp" only'):
        check_objective(Objective(pure, parse_aims("--target", "tract: total <= 1", pure.universe), "largest"))
    stands = little(tmp_path, ('column = "block"', 'column = "block", bypass = true'))
    with pytest.raises(InputError, match=r"geography\.bypass: found true"):
        check_objective(Objective(stands, parse_aims("--target", "tract: total <= 1", stands.universe), "largest"))
    coarse = little(tmp_path, ('"grown * sex" = "1/3", detailed = "1/3"', 'sex = "2/3"'))
    with pytest.raises(InputError, match="tract: age: the measurements of the spec do not determine"):
        check_objective(Objective(coarse, parse_aims("--target", "tract: age <= 1", coarse.universe), "largest"))
    with pytest.raises(InputError, match=r"at most 0\.111"):
        descend(Objective(expectation, parse_aims("--target", "tract: total <= 1", universe), "largest"), least=0.2)


def test_targets(tmp_path: Path) -> None:
    universe = little(tmp_path).universe
    first, second = parse_aims("--target", "tract: total <= 2.0;  county: age*sex<=.5 each ;", universe)
    assert (first.name, first.number, first.each, first.numbers) == ("tract: total", 2.0, False, 1)
    assert (second.name, second.number, second.each, second.numbers) == ("county: age * sex", 0.5, True, 6)
    for text, told in (
        ("tract total <= 2", "found 'tract total <= 2'; allowed is"),
        ("village: total <= 2", "no level 'village'; the levels are county, tract, block"),
        ("tract: colour <= 2", "'colour' in the query"),
        ("tract: total <= nothing", "found 'nothing'; a number above 0 is needed"),
        ("tract: total <= 0", "found '0'; a number above 0 is needed"),
        ("tract: total <= 1; tract: total <= 2", "tract: total occurs twice"),
        (" ; ", "nothing is given"),
    ):
        with pytest.raises(InputError, match=f"--target.*{told}"):
            parse_aims("--target", text, universe)


SPEC = """
name = "plan"
privacy = { rho = "2", key = "insecure-test:1" }
geography = { file = "blocks.csv", levels = LEVELS }
schema.attributes.residence = ["household", "quarters"]
strategy = { queries = { residence = "1" }, levels = SHARES }
input = { file = "persons.csv", form = "microdata", geocode = "block" }
publish = { margins = false, microdata = false }
postprocess.solver = "batched"
TABLES
[companions.homes]
privacy = { rho = "2" }
schema.attributes = { size = [SIZES], tenure = ["own", "rent"] }
strategy = { queries = QUERIES, levels = SHARES }
input = { file = "homes.csv", form = "microdata", geocode = "block" }
[[join]]
companion = "homes"
where = { residence = "household" }
size = "size"
"""
THREE = {
    "LEVELS": '["city", "tract", "block"]',
    "SHARES": '{ city = "1/4", tract = "1/4", block = "1/2" }',
    "SIZES": '"1", "2", "3", "4", "5"',
    "QUERIES": '{ total = "1/5", detailed = "4/5" }',
}
ONE = {
    "LEVELS": '["block"]',
    "SHARES": '{ block = "1" }',
    "SIZES": '"1", "2", "3", "4", "5", "6", "7"',
    "QUERIES": '{ size = "1" }',
}


def _written(folder: Path, texts: dict[str, str], more: str = "") -> Path:
    """Blocks with about a hundred households each, so that no count is near 0."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(2)
    codes = [(f"t{tract}", f"t{tract}b{block}") for tract in range(4) for block in range(5)]
    homes = [(block, int(size), tenure) for _, block in codes for size in range(1, 6) for tenure in ("own", "rent")
             for _ in range(int(rng.integers(12, 30)))]  # fmt: skip
    persons = [(block, "household") for block, size, _ in homes for _ in range(size)]
    persons += [(block, "quarters") for _, block in codes for _ in range(25)]
    pd.DataFrame(homes, columns=["block", "size", "tenure"]).to_csv(folder / "homes.csv", index=False)
    pd.DataFrame(persons, columns=["block", "residence"]).to_csv(folder / "persons.csv", index=False)
    areas = pd.DataFrame([("c", *code) for code in codes], columns=["city", "tract", "block"])
    areas.to_csv(folder / "blocks.csv", index=False)
    text = SPEC
    for old, new in ({"TABLES": ""} | texts).items():
        text = text.replace(old, new)
    path = folder / "plan.toml"
    path.write_text(text + more)
    return path


def test_on_one_level_it_is_what_persons_and_sizes_say_together(tmp_path: Path) -> None:
    """Sizes 1 to 7 with variance w each, persons with v: 7 w - (28 w)^2 / (140 w + v)."""
    path = _written(tmp_path, ONE)
    plan = plan_release(path, 1)
    (row,) = plan.joined
    persons, homes = load_spec(path).universes()
    v, w = (
        noise_for(each.framework, each.strategy_budget, level.share, query.share, each.neighbours).variance
        for each, (level,) in ((each, each.strategy.levels) for each in (persons, homes))
        for query in level.queries
    )
    assert row.persons == pytest.approx(v**0.5, rel=1e-9)
    assert row.households_apart == pytest.approx((7 * w) ** 0.5, rel=1e-9)
    assert row.households == pytest.approx((7 * w - (28 * w) ** 2 / (140 * w + v)) ** 0.5, rel=1e-9)
    assert row.geounits == 20


@pytest.mark.slow
def test_many_runs_err_as_foretold(tmp_path: Path) -> None:
    """And not as households that are released apart, by far."""
    path = _written(tmp_path, THREE)
    rows = {row.level: row for row in plan_release(path, 1).joined}
    homes = pd.read_csv(tmp_path / "homes.csv")["block"]
    true = {"city": pd.Series("c", index=homes.index), "tract": homes.str[:2], "block": homes}
    errors: dict[str, list[np.ndarray]] = {level: [] for level in true}
    text = path.read_text()
    for key in range(1, 25):
        path.write_text(text.replace("insecure-test:1", f"insecure-test:{key}"))
        root = run_release(request_of(path, tmp_path / f"out{key}"), Silent())
        release = open_release(root).companion("homes")
        for level, codes in true.items():
            counted = codes.value_counts()
            found = release.query("total").at(level)["total"]
            errors[level].append((found - counted.reindex(found.index)).to_numpy())
    for level, share in (("block", 0.1), ("tract", 0.2), ("city", 0.35)):
        measured = float(np.sqrt(np.mean(np.square(errors[level]))))
        foretold, apart = rows[level].households, rows[level].households_apart
        assert foretold is not None
        assert apart is not None
        assert measured == pytest.approx(foretold, rel=share), level
        assert apart > (1 + share) * foretold, level
