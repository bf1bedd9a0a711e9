"""Numbers that are sums of many measured answers have intervals around unbiased estimates, which hold 90 %."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.sent import Sent
from releases.small import public_bytes, run
from releases.spread import codes_of_leaves, covered, numbers, quoted, write_spread

from pipeline.estimation import around_estimates, subtree_answers
from pipeline.estimation.around_estimates import AllAround, Around, measured_within
from pipeline.execution.batch_store import Batches
from pipeline.publishing.steps import perform_public_steps
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec
from postprocess.arrays import Arrays
from postprocess.downward.moved import Distances, MovedErrors

AGES, GROUPS, LEAVES = 100, 6, 60
THIRDS = {"young": range(20), "middle": range(20, 50), "old": range(50, AGES)}
TABLES = """groups = { query = "group", cumulative = true }
thirds = { query = "third", cumulative = true, levels = ["area", "leaf"] }
ages = "age"
"""
QUANTILE = 1.6448536


def write_wide_town(folder: Path, key: int) -> Path:
    """Leaves whose persons are of two frequent groups and four rare ones, at all ages: most cells are 0 or 1."""
    rng = np.random.default_rng(4)
    parts = []
    for code in codes_of_leaves(LEAVES):
        size = int(rng.integers(60, 900))
        shares = rng.dirichlet([6.0, 3.0, 0.6, 0.3, 0.1, 0.05])
        ages, groups = rng.integers(0, AGES, size), rng.choice(GROUPS, size, p=shares)
        parts.append(pd.DataFrame({"leaf": code, "age": ages, "group": groups}))
    persons = pd.concat(parts).value_counts(sort=False).reset_index()
    values = {"age": list(map(str, range(AGES))), "group": list(map(str, range(GROUPS)))}
    thirds = ", ".join(f"{name} = [{quoted(own)}]" for name, own in THIRDS.items())
    recodes = f'[schema.recodes.third]\nattribute = "age"\ngroups = {{ {thirds} }}'
    return write_spread(folder, persons, values, {"rho": "3/8", "key": str(key), "recodes": recodes, "tables": TABLES})


@pytest.fixture(scope="module")
def wide_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    return run(write_wide_town(folder / "in", 1), folder / "out")


@pytest.fixture(scope="module")
def simulated_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first of them, with the fault that all intervals are those of simulated runs."""
    folder = tmp_path_factory.mktemp("simulated")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(around_estimates, "MOST", 10**9)
        return run(write_wide_town(folder / "in", 1), folder / "out")


def of_groups(town: Path, level: str) -> pd.DataFrame:
    return numbers(town, level, "groups", ["group"])


@pytest.fixture(scope="module")
def wide_towns(wide_town: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """With another key, too."""
    folder = tmp_path_factory.mktemp("other")
    return [wide_town, run(write_wide_town(folder / "in", 2), folder / "out")]


def held(towns: list[Path], level: str) -> pd.Series:
    """The share that intervals hold of a level's numbers of groups, by the size of the true and of the released one."""
    return covered(pd.concat([of_groups(town, level) for town in towns]), (0, 10, 100))


def test_they_hold_the_truth_and_those_of_simulated_runs_do_not(wide_town: Path, simulated_town: Path) -> None:
    """Simulated runs hold half of the areas' numbers, of 18."""
    for level, least in (("leaf", 0.8), ("area", 0.65)):
        found, simulated = (held([town], level) for town in (wide_town, simulated_town))
        assert found.mean() > max(least, simulated.mean() + 0.02)
    assert held([simulated_town], "leaf").min() < 0.84
    assert held([simulated_town], "area").min() < 0.5


@pytest.mark.slow
def test_they_hold_the_truth_nine_times_in_ten(wide_towns: list[Path]) -> None:
    """In leaves classes of 148 numbers and more, in areas of 12."""
    assert (held(wide_towns, "leaf") > 0.86).all()
    assert (held(wide_towns, "area") > 0.8).all()


@pytest.mark.parametrize("level", ["area", "leaf"])
def test_they_are_around_the_published_unbiased_estimates(wide_town: Path, level: str) -> None:
    """1.645 standard errors to each side, and so much longer that the released number and its neighbours are in.

    In areas all are, of which too few are alike to learn from; in leaves the small ones.
    """
    found = of_groups(wide_town, level)
    if level == "leaf":
        found = found[found["released"] < np.maximum(10, found["standard"])]
        assert len(found) > 200
    reach = QUANTILE * found["standard"]
    low = np.maximum(np.minimum(np.ceil(found["estimate"] - reach), found["released"] - 1), 0)
    high = np.maximum(np.floor(found["estimate"] + reach), found["released"] + 1)
    assert np.abs(found["low"] - low).max() <= 1  # where rounding decides
    assert np.abs(found["high"] - high).max() <= 1
    assert ((found["low"] == low) & (found["high"] == high)).mean() > 0.98


def test_sums_of_few_answers_keep_simulated_intervals(wide_town: Path, simulated_town: Path) -> None:
    """An age is the sum of six groups, a group that of a hundred ages: ages are not moved, and only narrowed."""
    for level in ("area", "leaf"):
        own, other = (numbers(town, level, "ages", ["age"]) for town in (wide_town, simulated_town))
        assert (own["low"] >= other["low"]).all()
        assert (own["high"] <= other["high"]).all()
        assert ((own["low"] == other["low"]) & (own["high"] == other["high"])).mean() > 0.5
        own, other = (of_groups(town, level) for town in (wide_town, simulated_town))
        assert ((own["low"] < other["low"]) | (own["high"] > other["high"])).mean() > 0.5


@pytest.mark.parametrize("most", [1, pytest.param(10**9, marks=pytest.mark.slow)])
def test_a_spine_that_is_cut_has_the_same_intervals(
    wide_town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """As a cluster sends its parts back; and one that is not, whose estimates are worked out family by family."""
    monkeypatch.setattr(subtree_answers, "PIECE_NUMBERS", 1)
    estimated = []
    honest = subtree_answers.estimate_answers

    def seen(task: subtree_answers.AnswersTask) -> object:
        estimated.append(task.number)
        return honest(task)

    monkeypatch.setattr(subtree_answers, "estimate_answers", seen)
    pieces: list[tuple[str, str]] = []
    keep = Batches.put

    def put(batches: Batches, step: str, batch: str, arrays: Arrays) -> None:
        pieces.append((step, batch))
        keep(batches, step, batch, arrays)

    monkeypatch.setattr(Batches, "put", put)
    with computed_again(wide_town, tmp_path, most=most, part=1, workers=Sent()) as job:
        perform_public_steps(job, last=False)
    assert estimated == ([0, 1, 2] if most == 1 else []), "an area is a part"
    found = [piece for step, piece in pieces if step.startswith("estimates ")]
    # An area's leaves are a family.
    assert found == ["0-0", "1-0", "2-0", "2-1", "2-2"]
    whole, cut = public_bytes(wide_town), public_bytes(tmp_path)
    for level in ("area", "leaf"):
        for folder in ("tables/groups", "tables/thirds", "cumulative/groups", "cumulative/thirds"):
            name = f"public/{folder}/{level}.parquet"
            assert cut[name] == whole[name], name


@pytest.mark.slow
@pytest.mark.parametrize(("table", "labels"), [("groups", tuple(map(str, range(GROUPS)))), ("thirds", tuple(THIRDS))])
def test_cumulative_numbers_of_such_a_table_are_around_sums_of_its_estimates(
    wide_towns: list[Path], table: str, labels: tuple[str, ...]
) -> None:
    """Queries which recode what is measured whole: of a cut of groups, and of three groups of ages."""
    inside: list[np.ndarray] = []
    for town in wide_towns:
        files = RunDirectory(town).main
        for level in ("area", "leaf"):
            found = open_release(town).table(table, level, cumulative=True).sort_index()
            unbiased = pd.read_parquet(files.estimates(level)).set_index("geocode").sort_index()
            estimates = np.array(unbiased[table].tolist()).cumsum(axis=1)
            true = pd.read_parquet(files.true_histogram(level))
            third = np.take(list(THIRDS), np.digitize(true["age"].astype(int), [20, 50]))
            of = third if table == "thirds" else true["group"].astype(str)
            by = true.groupby(["geocode", of], observed=False)["count"].sum().unstack(fill_value=0)
            truth = by.reindex(found.index, fill_value=0)[list(labels)].to_numpy().cumsum(axis=1)
            names = [f"up to {label}" for label in labels]
            released, low, high = (
                found[[f"{name}{end}" for name in names]].to_numpy(dtype=float) for end in ("", ":low90", ":high90")
            )
            assert ((low <= released - (low > 0)) & (released + 1 <= high)).all()
            if level == "area":  # too few are alike to learn from
                plain = (low > 0) & (low < released - 1) & (released + 1 < high)
                assert plain.mean() > 0.25
                assert np.abs((low + high) / 2 - estimates)[plain].max() <= 1
            inside.append(((low <= truth) & (truth <= high))[:, 1:].ravel())
    assert 0.85 < np.concatenate(inside).mean() < 0.97


class _Rule:
    """Intervals of four numbers: exact, not known, and two others."""

    def ends(self, counts: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        assert rows == slice(1, 2)
        return counts + np.array([[0.0, np.nan, -3.0, -3.0]]), counts + np.array([[0.0, np.nan, 3.0, 3.0]])

    def large(self, counts: np.ndarray, rows: slice) -> np.ndarray:
        raise NotImplementedError


def test_exact_and_unknown_numbers_stay_so() -> None:
    """And a number of whose area nothing is measured, so that there is no estimate, gets no interval."""
    standard = np.array([[9.0] * 4, [9.0, 9.0, 10.0, np.inf]])
    estimates = np.array([[0.0] * 4, [50.0, 50.0, 30.2, 30.2]])
    around = Around(estimates, standard, np.full((2, 4), 0.5), MovedErrors.of(Distances.none()))
    low, high = AllAround(_Rule(), around).ends(np.array([[7, 7, 52, 7]]), slice(1, 2))
    np.testing.assert_array_equal(low, [[7.0, np.nan, 14.0, np.nan]])
    np.testing.assert_array_equal(high, [[7.0, np.nan, 53.0, np.nan]])


@pytest.mark.parametrize(("estimator", "expected"), [("full", 100), ("topdown", 0)])
def test_what_is_measured_below_counts_with_the_full_estimator(tmp_path: Path, estimator: str, expected: int) -> None:
    """And a query that is measured at the top is no sum of many there alone."""
    spec = write_wide_town(tmp_path, 1)
    own = 'country = { share = "1/3", queries = { detailed = "1/2", group = "1/2" } }'
    text = spec.read_text("utf-8").replace('country = "1/3"', own)
    text = text.replace('area = "1/3"\nleaf = "1/3"', 'area = "0"\nleaf = "2/3"')
    spec.write_text(text, "utf-8")
    universe = load_spec(spec).universes()[0]
    query = next(table.query for table in universe.tables if table.name == "groups")
    assert measured_within(universe, estimator, query, 1) == expected
    assert measured_within(universe, estimator, query, 2) == 100
    assert measured_within(universe, estimator, query, 0) == 1


def test_readers_get_such_intervals_of_numbers_that_no_table_has(wide_town: Path) -> None:
    """Two groups together, sums of 200 measured answers: their unbiased estimates are the sums of those of each."""
    town, level = wide_town, "area"
    found = open_release(town).query("total").where(group=["0", "2"]).at(level).sort_index()
    published = of_groups(town, level)
    published = published[np.isin(np.arange(len(published)) % GROUPS, [0, 2])]
    rows = np.arange(len(published)) // 2
    estimate, released = (published.groupby(rows)[name].sum().to_numpy() for name in ("estimate", "released"))
    assert found["total"].tolist() == released.tolist()
    half = np.rint(QUANTILE * np.sqrt((published["standard"] ** 2).groupby(rows).sum().to_numpy()))
    assert np.abs(found["total:low90"] - np.minimum(estimate - half, released - 1)).max() <= 1
    assert np.abs(found["total:high90"] - np.maximum(estimate + half, released + 1)).max() <= 1
