"""Errors in the measures of uses, from public files or against the truth, as pandas finds them; other ways."""

from __future__ import annotations

import json
import math
import shutil
import stat
from collections.abc import Mapping
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from releases.command import printed
from scipy.stats import norm

from features.fitness.fitness import threshold
from features.fitness.from_public import public_tables
from features.fitness.methods import Apart, Perturbed, swapped
from features.fitness.other_estimator import estimated_otherwise
from features.fitness.table import TableFitness
from geography.spine import Level, Spine
from geography.sums import roll_up
from pipeline.disclosure.cell_keys import CellKeyParameters, probabilities
from pipeline.disclosure.method import KEYS
from pipeline.errors import InputError, RefusedError
from pipeline.execution.steps import Silent
from pipeline.model.labels import Labels
from pipeline.model.measure import COUNTS
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.model.texts.message import Message
from pipeline.model.universe import Table, Universe
from pipeline.reading.reader import Reader, open_reader
from pipeline.reading.release import Release
from pipeline.release.area_sizes import SIZE_LABELS, SIZES
from pipeline.release.tables import ReleasedTable, write_table
from pipeline.spec.release_spec import parse_spec
from pipeline.spec.sections import PostprocessSection
from pipeline.storage.paths import unchecked
from postprocess.largest_group import fits
from postprocess.statistics import NORMAL_QUANTILE, Moments


@pytest.fixture
def public(town: Path, tmp_path: Path) -> Path:
    """The public files alone: whatever reads more fails."""
    shutil.copytree(town / "public", tmp_path / "town" / "public")
    return tmp_path / "town"


def test_errors_come_from_the_published_intervals(public: Path) -> None:
    data = json.loads(printed("fitness", public, "--json"))
    assert not data["restricted"]
    assert not (public / "restricted").exists()
    for one in data["tables"]:
        files = public / "public" / ("companions/units" if one["universe"] else "")
        frame = pd.read_parquet(files / "tables" / one["table"] / f"{one['level']}.parquet")
        labels = [name for name in frame.columns if ":" not in name and name != "geocode"]
        wide = np.array([(frame[f"{name}:high90"] - frame[f"{name}:low90"]) / (2 * NORMAL_QUANTILE) for name in labels])
        known = wide[~np.isnan(wide)]
        assert one["all"]["numbers"] == known.size
        assert one["all"]["mae"] == pytest.approx(known.mean() * (2 / np.pi) ** 0.5)
        assert one["all"]["rmse"] == pytest.approx((known**2).mean() ** 0.5)
        assert one["all"]["bias"] is None


def test_thresholds_use_the_margin(public: Path) -> None:
    data = json.loads(printed("fitness", public, "--threshold", "60", "--at", "tract", "--json"))["thresholds"]
    assert [(one["people"], one["level"]) for one in data] == [(60, "tract")]
    numbers = Release(open_reader(public)).query("total").at("tract")
    spread = numbers["total:moe90"] / NORMAL_QUANTILE
    gap = (numbers["total"] - 59.5).abs()
    wrong = np.where(spread > 0, norm.sf(gap / spread.where(spread > 0, 1)), 0)
    assert data[0]["expected_wrong"] == pytest.approx(wrong.sum())
    assert data[0]["lost"] is None
    said = printed("fitness", public, "--threshold", "60", "--html", public / "fitness.html")
    assert "expected on the wrong side" in said
    assert "RESTRICTED" not in (public / "fitness.html").read_text("utf-8")


@pytest.fixture(scope="module")
def judged(town: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A copy of the town's release, judged in every way; and the data that were written."""
    folder = tmp_path_factory.mktemp("judged")
    root = folder / "town"
    shutil.copytree(town, root)
    said = printed("--quiet", "fitness", root, "--truth", "--compare", "--threshold", "60", "--workers", "1")
    assert said == f"{root / 'restricted' / 'fitness.html'}\n"
    return root, json.loads((root / "restricted" / "fitness.json").read_text())


def people_of(root: Path, part: str) -> pd.DataFrame:
    """One row for each block and cell that anybody is in, in public/ or in truth."""
    frame = pd.read_parquet(root / part / "histograms" / "block.parquet")
    return frame.astype({name: str for name in frame.columns if name != "count"})


def find(data: Mapping[str, Any], table: str, level: str, universe: str = "") -> dict[str, Any]:
    named = (universe, table, level)
    return next(one for one in data["tables"] if (one["universe"], one["table"], one["level"]) == named)


@pytest.mark.parametrize(("level", "digits"), [("county", 1), ("tract", 3)])
def test_errors_against_the_truth_are_those_of_the_files(
    judged: tuple[Path, dict[str, Any]], level: str, digits: int
) -> None:
    root, data = judged
    people = people_of(root, "restricted")
    grown = people["age"].map({"child": "young", "adult": "grown", "old": "grown"})
    published = pd.read_parquet(root / "public" / "tables" / "sex" / f"{level}.parquet").set_index("geocode")
    labels = [name for name in published.columns if ":" not in name]
    truth = people.assign(area=people["geocode"].str[:digits], label=grown + " * " + people["sex"])
    wide = truth.pivot_table(index="area", columns="label", values="count", aggfunc="sum", fill_value=0)
    wide = wide.reindex(index=published.index, columns=labels, fill_value=0)
    error = published[labels] - wide
    found = find(data, "sex", level)
    assert found["all"]["mae"] == pytest.approx(error.abs().to_numpy().mean())
    assert found["all"]["rmse"] == pytest.approx((error**2).to_numpy().mean() ** 0.5)
    assert found["all"]["bias"] == pytest.approx(error.to_numpy().mean())
    relative = error.abs().sum() / wide.sum()
    assert found["worst_group"]["group"] == relative.idxmax()
    target = found["largest_group_within_5_points"]
    largest = wide.idxmax(axis=1)
    own = np.array(
        [published.loc[area, largest[area]] / max(1, published.loc[area, labels].sum()) for area in wide.index]
    )
    true = np.array([wide.loc[area, largest[area]] / max(1, wide.loc[area].sum()) for area in wide.index])
    inhabited = wide.sum(axis=1).to_numpy() > 0
    assert target["all_areas"] == inhabited.sum()
    assert target["all_fit"] == (np.abs(own - true)[inhabited] <= 0.05 + 1e-12).sum()


def test_thresholds_by_hand(judged: tuple[Path, dict[str, Any]]) -> None:
    root, data = judged
    for one in data["thresholds"]:
        digits = {"county": 1, "tract": 3, "block": 5}[one["level"]]
        spine = pd.read_parquet(root / "public" / "spine.parquet")[one["level"]].unique()
        own, true = (
            people.assign(area=people["geocode"].str[:digits])
            .groupby("area")["count"]
            .sum()
            .reindex(spine, fill_value=0)
            for people in (people_of(root, "public"), people_of(root, "restricted"))
        )
        assert (one["areas"], one["above"]) == (len(spine), (own >= 60).sum())
        assert (one["lost"], one["gained"]) == (((own < 60) & (true >= 60)).sum(), ((own >= 60) & (true < 60)).sum())


def test_other_ways_are_of_the_same_counts(judged: tuple[Path, dict[str, Any]]) -> None:
    """Every way has every table; swapping keeps totals, the other estimator keeps invariants, noise apart does not."""
    _, data = judged
    ways = {way["way"]: way["tables"] for way in data["compared"]}
    drawn = ["OpenDP"] if find_spec("opendp") else []
    assert list(ways) == ["estimator topdown", "noise apart", *drawn, "cell keys", "swapping"]
    names = [(one["universe"], one["table"], one["level"]) for one in data["tables"]]
    for tables in ways.values():
        assert [(one["universe"], one["table"], one["level"]) for one in tables] == names
        for own, other in zip(data["tables"], tables, strict=True):
            assert own["all"]["areas"] == other["all"]["areas"]
    place = names.index(("", "total", "county"))
    assert [ways[name][place]["all"]["mae"] for name in ("estimator topdown", "swapping")] == [0, 0]
    assert ways["noise apart"][place]["all"]["mae"] > 0
    assert [ways["swapping"][names.index(("", "total", level))]["all"]["mae"] for level in ("tract", "block")] == [0, 0]


def test_the_other_estimator_is_that_of_a_run_of_its_own(town: Path) -> None:
    """Estimated again as it was, the histograms are those that were published, for every universe."""
    opened = open_reader(town)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PostprocessSection, "model_copy", lambda self, **_: self)
        found = estimated_otherwise(opened.run, 1, Silent())
    (histograms,) = found.values()
    releases: list[Reader] = [opened, opened.companion("units")]
    for release in releases:
        for level, other in zip(release.levels, histograms[release.universe.name], strict=True):
            assert (release.histogram(level) != other).nnz == 0


def test_nothing_leaves_restricted(judged: tuple[Path, dict[str, Any]], town: Path) -> None:
    root, _ = judged
    for name in ("fitness.json", "fitness.html"):
        path = root / "restricted" / name
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "RESTRICTED" in (root / "restricted" / "fitness.html").read_text()
    own = {path.relative_to(root) for path in (root / "public").rglob("*")}
    assert own == {path.relative_to(town) for path in (town / "public").rglob("*")}


def test_true_figures_are_not_printed_and_need_true_counts(town: Path, public: Path) -> None:
    for options in (("--json",), ("--html", "page.html")):
        with pytest.raises(InputError, match="--truth: the page and the data go to restricted/ only"):
            printed("fitness", town, "--truth", *options)
    with pytest.raises(InputError, match=r"has no true counts \(histograms/block.parquet\)"):
        printed("fitness", public, "--truth")
    assert not (public / "restricted").exists()


def test_errors_about_true_counts_are_not_shown(town: Path, tmp_path: Path) -> None:
    root = tmp_path / "town"
    shutil.copytree(town, root)
    (root / "restricted" / "histograms" / "tract.parquet").write_bytes(b"secret")
    with pytest.raises(RefusedError) as caught:
        printed("fitness", root, "--truth")
    assert "tract.parquet" not in str(caught.value)
    assert "tract.parquet" in (root / "restricted" / "refused.txt").read_text()
    assert not (root / "restricted" / "fitness.json").exists()


LABELS = ("a", "b", "c")


@pytest.fixture
def numbers() -> tuple[np.ndarray, np.ndarray]:
    """True and published numbers of 400 areas of every size, some empty; group c is small and too often published."""
    rng = np.random.default_rng(3)
    truth = rng.poisson(np.exp(rng.uniform(-3, 12.5, (400, 1))) * [0.8, 0.19, 0.01])
    noise = np.rint(rng.normal([0, 0.5, 2], 3, truth.shape)).astype(np.int64)
    return truth, np.maximum(truth + noise, 0)


def long_form(truth: np.ndarray, published: np.ndarray) -> pd.DataFrame:
    """One row a number."""
    frame = pd.DataFrame({"area": np.repeat(np.arange(len(truth)), 3), "group": np.tile(LABELS, len(truth))})
    frame = frame.assign(truth=truth.ravel(), published=published.ravel())
    people = frame.groupby("area")["truth"].transform("sum")
    bins = [*SIZES, math.inf]
    frame["size"] = pd.cut(people, bins, right=False, labels=list(SIZE_LABELS)).astype(str)
    return frame.assign(error=frame["published"] - frame["truth"])


def by_pandas(frame: pd.DataFrame) -> dict[str, float]:
    """The measures, by their definitions."""
    error, truth = frame["error"], frame["truth"]
    filled = frame[truth > 0]
    percent = 100 * filled["error"] / filled["truth"]
    rmse = float((error**2).mean() ** 0.5)
    return {
        "areas": frame["area"].nunique(),
        "numbers": len(frame),
        "l1": error.abs().groupby(frame["area"]).sum().mean(),
        "mae": error.abs().mean(),
        "rmse": rmse,
        "bias": error.mean(),
        "cv": 100 * rmse / truth.mean() if truth.sum() else math.nan,
        "mape": percent.abs().mean(),
        "malpe": percent.mean(),
        "relative": 100 * error.abs().sum() / truth.sum() if truth.sum() else math.nan,
        "relative_bias": 100 * error.sum() / truth.sum() if truth.sum() else math.nan,
    }


def same(found: object, expected: dict[str, float]) -> None:
    for name, value in expected.items():
        own = getattr(found, name)
        assert (own is None) == (isinstance(value, float) and math.isnan(value)), name
        if own is not None:
            assert own == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_all_sizes_and_groups(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    truth, published = numbers
    totals = (published.sum(axis=0), truth.sum(axis=0))
    table = TableFitness("", "race", "block", LABELS, Message("truth"), totals)
    for part in (slice(0, 150), slice(150, 400)):
        table.add(published[part], truth[part], truth[part].sum(axis=1))
    frame = long_form(truth, published)
    same(table.whole, by_pandas(frame))
    assert [size for size, _ in table.by_size] == [size for size in SIZE_LABELS if size in set(frame["size"])]
    assert len(table.by_size) >= 8
    for size, measures in table.by_size:
        same(measures, by_pandas(frame[frame["size"] == size]))
    for group in table.groups:
        same(group.measures, by_pandas(frame[frame["group"] == group.group]))
    assert table.worst_group is not None
    assert table.worst_group.group == "c"
    biased = frame.groupby(["size", "group"])[["error", "truth"]].sum()
    ratio = (100 * biased["error"] / biased["truth"].where(biased["truth"] > 0)).abs()
    assert table.most_biased is not None
    assert (table.most_biased.size, table.most_biased.group) == ratio.idxmax()
    shares = pd.DataFrame(published / totals[0] - truth / totals[1]).abs().sum()
    assert table.share_errors == pytest.approx(100 * shares.mean(), rel=1e-12)
    assert table.data()["all"]["taes"] == table.share_errors


SCHEMA = Schema((Attribute("race", ("a", "b", "c")),))
TABLE = Table("race", Query.parse("race", SCHEMA), ("tract",))
SPREAD, DRAWS = 12.0, 30


def release_of(counts: np.ndarray[Any, Any], folder: Path, *, margins: bool, drawn: np.ndarray[Any, Any] | None) -> Any:
    """What the functions ask a release for; independent errors of the same standard deviation in every number."""
    codes = np.array([f"t{number:03d}" for number in range(len(counts))])
    half = np.full(counts.shape, SPREAD * NORMAL_QUANTILE)
    path, staging = folder / "race.parquet", folder
    rows = ReleasedTable("race", "tract", "race", codes, ("a", "b", "c"), counts, counts - half, counts + half)
    write_table(path, staging, [rows])
    index = pd.MultiIndex.from_product([range(1, DRAWS + 1), codes], names=["draw", "geocode"])
    variances = np.full(counts.shape, SPREAD**2)
    moments = Moments(variances, 3 * variances, variances)
    return SimpleNamespace(
        universe=SimpleNamespace(name="", tables=(TABLE,), measure=COUNTS),
        labels=Labels(),
        spec=SimpleNamespace(publish=SimpleNamespace(margins=margins, draws=0 if drawn is None else DRAWS)),
        levels=("tract",),
        spine=SimpleNamespace(level=lambda _: Level("tract", codes, np.full(len(codes), -1))),
        index_of=lambda _: 0,
        histogram=lambda _: sp.csr_array(counts),
        files=SimpleNamespace(table=lambda *_: path, readable=unchecked),
        draws=lambda *_: None if drawn is None else pd.DataFrame(drawn.reshape(-1, 3), index=index),
        margins=SimpleNamespace(moments=lambda *_: moments),
    )


@pytest.fixture
def counts() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(9)
    return rng.poisson(rng.uniform(5, 600, (200, 1)) * [0.5, 0.3, 0.2])


def test_target_from_variances(counts: np.ndarray[Any, Any], tmp_path: Path) -> None:
    """As many areas are within five points as in truths drawn around the published counts, sizes apart."""
    opened = release_of(counts, tmp_path, margins=True, drawn=None)
    (found,) = public_tables(opened, opened)
    rng = np.random.default_rng(10)
    group = counts.argmax(axis=1)
    fitting = np.zeros(len(counts))
    for _ in range(400):
        truth = counts + rng.normal(0, SPREAD, counts.shape)
        shares, own = truth / truth.sum(axis=1)[:, None], counts / counts.sum(axis=1)[:, None]
        place = np.arange(len(counts))
        fitting += np.abs(shares[place, group] - own[place, group]) <= 0.05
    large = counts.sum(axis=1) >= 200
    assert found.target is not None
    foretold = found.target_sums.fit[4:].sum()
    assert foretold == pytest.approx(fitting[large].sum() / 400, rel=0.03)
    assert foretold < 0.98 * large.sum()
    assert found.whole.rmse == pytest.approx(SPREAD)
    assert found.whole.bias is None


@pytest.mark.parametrize("margins", [True, False])
def test_bias_and_target_from_draws(counts: np.ndarray[Any, Any], tmp_path: Path, margins: bool) -> None:
    """Draws say that two persons too many are published of every number; alone, they say the rest too."""
    rng = np.random.default_rng(12)
    drawn = counts - 2 + rng.normal(0, 5, (DRAWS, *counts.shape))
    opened = release_of(counts, tmp_path, margins=margins, drawn=drawn)
    (found,) = public_tables(opened, opened)
    error = counts - drawn
    assert found.whole.bias == pytest.approx(error.mean())
    assert found.whole.rmse == pytest.approx(SPREAD if margins else (error**2).mean() ** 0.5)
    fit = np.array([fits(counts, truth) for truth in drawn]).mean(axis=0)
    large = counts.sum(axis=1) >= 500
    assert found.target is not None
    assert found.target.areas == large.sum()
    assert found.target.fit == pytest.approx(fit[large].sum())


def test_the_probability_is_that_of_simulated_truths() -> None:
    """Noise of known size around known numbers: as many truths are on the other side as is foretold of each area."""
    rng = np.random.default_rng(7)
    published = np.arange(985, 1016)
    spread = np.full(published.shape, 8.0)
    truth = np.rint(rng.normal(published, spread, (40_000, len(published))))
    other = ((truth >= 1000) != (published >= 1000)).mean(axis=0)
    found = threshold("", "tract", 1000, published.astype(np.str_), published, spread)
    assert found.expected_wrong == pytest.approx(other.sum(), rel=0.01)
    foretold = {int(area.geocode): area.probability for area in found.listed}
    for place, people in enumerate(published.tolist()):
        if people in foretold:
            assert foretold[people] == pytest.approx(other[place], abs=0.01)
    assert found.doubtful == (other >= 0.05).sum()
    assert len(found.listed) == 20


SPEC = """
name = "made-up"
tables = { age = "age", detail = { query = "detailed", levels = ["block"] } }
invariants.state = ["total"]
geography = { file = "none.csv", column = "block", levels = { state = 1, county = 2, block = 4 } }
schema.attributes = { age = ["child", "adult", "old"], sex = ["f", "m"] }
[privacy]
rho = "1/2"
key = "insecure-test:1"
[strategy]
queries = { total = "1/2", detailed = "1/2" }
levels = { state = "1/4", county = "1/4", block = "1/2" }
"""
COUNTIES, BLOCKS = 4, 200


@pytest.fixture(scope="module")
def universe() -> Universe:
    return parse_spec(SPEC).universes()[0]


@pytest.fixture(scope="module")
def spine() -> Spine:
    counties = np.array([f"s{number}" for number in range(COUNTIES)])
    parents = np.repeat(np.arange(COUNTIES), BLOCKS // COUNTIES)
    blocks = np.array([f"{counties[parent]}{number % 50:02d}" for number, parent in enumerate(parents)])
    return Spine(
        (
            Level("state", np.array(["s"]), np.array([-1])),
            Level("county", counties, np.zeros(COUNTIES, dtype=np.int64)),
            Level("block", blocks, parents),
        )
    )


@pytest.fixture(scope="module")
def truth(spine: Spine) -> list[sp.csr_array]:
    rng = np.random.default_rng(6)
    leaves = rng.poisson(rng.uniform(0, 9, (BLOCKS, 1)) * [1, 2, 0.3, 0.3, 0.1, 0.05])
    return roll_up(spine, sp.csr_array(leaves))


def table_of(universe: Universe, name: str) -> Table:
    return next(table for table in universe.tables if table.name == name)


@pytest.mark.parametrize("parameters", [CellKeyParameters(), CellKeyParameters(3, 1.5, 0), CellKeyParameters(8, 6, 3)])
def test_perturbation_tables(parameters: CellKeyParameters) -> None:
    """No error on average, none too large, no count below 0 or from 1 to js, the variance within V, and V if it can."""
    for count in range(30):
        errors, shares = probabilities(count, parameters)
        assert shares.sum() == pytest.approx(1)
        assert shares @ errors == pytest.approx(0, abs=1e-8)
        assert shares @ errors**2 <= parameters.variance + 1e-6
        assert np.abs(errors).max() <= parameters.most
        published = count + errors
        assert ((published == 0) | (published > parameters.unpublished)).all()
        if count > parameters.most + parameters.unpublished:
            uniform = np.mean(np.arange(-parameters.most, parameters.most + 1) ** 2)
            assert shares @ errors**2 == pytest.approx(min(parameters.variance, uniform), abs=1e-6)
    assert probabilities(0, parameters)[0].tolist() == [0]


def test_the_same_records_have_the_same_error(truth: list[sp.csr_array], spine: Spine, universe: Universe) -> None:
    """A cell is published alike in every table; tables do not add up; empty cells stay empty; the spread is V."""
    keys = Perturbed.of(truth, spine, 1)
    everything = slice(0, BLOCKS)
    detail = keys.answers(table_of(universe, "detail"), 2, everything)
    parts = [keys.answers(table_of(universe, "detail"), 2, slice(start, start + 50)) for start in range(0, BLOCKS, 50)]
    assert (np.concatenate(parts) == detail).all()
    again = Table("again", Query.parse("age * sex", universe.schema), ("block",))
    assert (keys.answers(again, 2, everything) == detail).all()
    true = truth[2].toarray()
    assert (detail[true == 0] == 0).all()
    assert not np.isin(detail, [1, 2]).any()
    ages = keys.answers(table_of(universe, "age"), 2, everything)
    assert (ages != detail.reshape(BLOCKS, 3, 2).sum(axis=2)).any()
    large = true >= 8
    errors = (detail - true)[large]
    assert abs(errors.mean()) < 4 * (3 / large.sum()) ** 0.5
    assert errors.var() == pytest.approx(3, rel=0.25)
    age = table_of(universe, "age").query
    counted = (age.answer_csr(keys.keys[2]) % KEYS)[age.answer_csr(truth[2]) > 0] / KEYS
    assert np.histogram(counted, 5, (0, 1))[0] == pytest.approx(np.full(5, len(counted) / 5), rel=0.25)


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_as_many_records_move_as_are_to(spine: Spine, rate: float) -> None:
    """Every record has a cell of its own, by which it is found again: in another block of its county, or its own."""
    each = 20
    home = np.repeat(np.arange(BLOCKS), each)
    people = np.ones(len(home), dtype=np.int64)
    leaves = sp.csr_array(sp.coo_array((people, (home, np.arange(len(home)))), shape=(BLOCKS, len(home))).tocsr())
    after = swapped(leaves, spine, 1, rate, 3).tocoo()
    now = np.empty(len(home), dtype=np.int64)
    now[after.col] = after.row
    assert np.bincount(now, minlength=BLOCKS).tolist() == [each] * BLOCKS
    assert (spine.leaf_ancestors(1)[now] == spine.leaf_ancestors(1)[home]).all()
    assert (now != home).mean() == pytest.approx(rate, abs=4 * (rate * (1 - rate) / len(home)) ** 0.5 + 0.002)


def test_noise_apart_has_the_scale_that_its_budget_buys(truth: list[sp.csr_array], universe: Universe) -> None:
    """rho = 1/2 over four tables of levels, for the change of one record: sigma^2 = 2 / (2 rho / 4) = 8."""
    way = Apart(universe, truth, 1)
    assert way.noise.scale == Fraction(8)
    table = table_of(universe, "age")
    found = way.answers(table, 2, slice(0, BLOCKS))
    true = table.query.answer_csr(truth[2])
    assert (found >= 0).all()
    parts = [way.answers(table, 2, slice(start, start + 50)) for start in range(0, BLOCKS, 50)]
    assert (np.concatenate(parts) == found).all()
    many = sp.csr_array(np.full((3000, 6), 100))
    errors = Apart(universe, [many, many, many], 1).answers(table, 2, slice(0, 3000)) - 200
    assert errors.var() == pytest.approx(8, rel=0.06)
    assert abs(errors.mean()) < 0.15
    assert found[true == 0].mean() > 0.5  # negative numbers are lifted to 0


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
def test_opendp_has_the_same_budget_by_its_own_account(truth: list[sp.csr_array], framework: str) -> None:
    """OpenDP's privacy maps of all tables add up to the release's budget, and its errors have the scale of ours."""
    pytest.importorskip("opendp")
    from features.fitness.methods import mechanism, opendp_noise

    spec = SPEC.replace('rho = "1/2"', 'framework = "pure"\nepsilon = "1/2"') if framework == "pure" else SPEC
    universe = parse_spec(spec).universes()[0]
    apart = Apart(universe, truth, 1)
    # One changed record moves two numbers of a table by one.
    one = mechanism(apart, BLOCKS).map(2 if framework == "pure" else math.sqrt(2))
    assert 4 * one == pytest.approx(0.5, rel=1e-6)
    assert 4 * one > 0.95 * 0.5
    many = sp.csr_array(np.full((3000, 6), 100))
    way = opendp_noise(universe, [many, many, many])
    assert way is not None
    table = table_of(universe, "age")
    found = way.answers(table, 2, slice(0, 3000))
    assert (way.answers(table, 2, slice(10, 20)) == found[10:20]).all()
    ours = Apart(universe, [many, many, many], 1).answers(table, 2, slice(0, 3000))
    assert (found - 200).var() == pytest.approx((ours - 200).var(), rel=0.12)
    assert (way.answers(table, 1, slice(0, 3000)) >= 0).all()
