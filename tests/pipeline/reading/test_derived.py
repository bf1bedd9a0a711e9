"""Shares, ratios, medians, ranks, differences, functions of draws, and numbers one a row: what they are, and hold."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spinewise as sw
from geography.build import spine_from_table
from pipeline.errors import InputError, ReleaseError
from pipeline.model.area_names import LevelNames
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.reading.reader import AreaIndex
from pipeline.reading.release import Release, interval_of, open_release, reader_of, tidy_table
from pipeline.reading.rubin import rubin
from pipeline.release.reliability import CLASSES, classes_of, tenths
from pipeline.release.tables import ReleasedTable


def truth(release: Release, level: str, terms: list[str]) -> pd.DataFrame:
    """True counts by some attributes, a row for each geounit."""
    frame = pd.read_parquet(reader_of(release).files.true_histogram(level))
    frame = frame.astype({name: str for name in frame.columns if name != "count"})
    table = frame.pivot_table("count", "geocode", terms, "sum", fill_value=0)
    if len(terms) > 1:
        table.columns = [" * ".join(column) for column in table.columns]
    return table.reindex(reader_of(release).spine.level(level).geocodes, fill_value=0)


def covered(found: pd.DataFrame, true: pd.DataFrame) -> float:
    inside = [(found[f"{x}:low90"] <= true[x]) & (true[x] <= found[f"{x}:high90"]) for x in true.columns]
    return float(np.mean(inside))


@pytest.fixture(scope="module")
def release(country: Path) -> Release:
    return open_release(country)


def test_shares_cover_the_truth(release: Release) -> None:
    """About 400 blocks of six cells: 90 % of the true shares are inside, and much fewer in half as wide intervals."""
    true = truth(release, "block", ["age", "sex"])
    true = 100 * true.div(true.sum(axis=1), axis=0)
    found = release.query("age * sex").shares_at("block")
    assert 0.87 < covered(found, true) < 0.93
    for x in true.columns:
        found[f"{x}:low90"], found[f"{x}:high90"] = (
            0.5 * (found[x] + found[f"{x}:{end}90"]) for end in ("low", "high")
        )
    assert covered(found, true) < 0.7


def test_shares_of_those_that_a_condition_leaves(release: Release) -> None:
    found = release.query("age").where(sex="f", grown="grown").shares_at("county")
    table = release.query("age").where(sex="f").at("county")
    assert list(found.columns[::3]) == ["adult", "old"]
    expected = 100 * table["old"] / (table["adult"] + table["old"])
    np.testing.assert_allclose(found["old"], expected)
    assert ((found["old:low90"] < found["old"]) & (found["old"] < found["old:high90"])).all()
    np.testing.assert_allclose(found["adult"] + found["old"], 100)


def test_ratios_cover_the_truth(release: Release) -> None:
    """Women for each man, by age; and children for each grown-up."""
    women, men = (release.query("age").where(sex=sex) for sex in "fm")
    true = truth(release, "block", ["age", "sex"])
    ratio = pd.DataFrame({age: true[f"{age} * f"] / true[f"{age} * m"] for age in ("child", "adult", "old")})
    assert 0.87 < covered(women.ratios_at("block", to=men), ratio) < 0.93
    children, grown = release.query("total").where(age="child"), release.query("total").where(grown="grown")
    ages = truth(release, "tract", ["age"])
    dependent = (ages["child"] / (ages["adult"] + ages["old"])).to_frame("total")
    assert covered(children.ratios_at("tract", to=grown), dependent) > 0.75
    area = children.ratios_over({"here": list(ages.index[:5])}, to=grown)
    assert area["total:low90"].iloc[0] < area["total"].iloc[0] < area["total:high90"].iloc[0]
    with pytest.raises(InputError, match="ratio: found numbers for total and, to divide by, for f, m"):
        children.ratios_at("tract", to=release.query("sex"))


def test_a_ratio_is_that_of_what_is_asked_for_or_is_refused(town: Path, named_town: Path, country: Path) -> None:
    """Numbers of other records or releases are never taken for those of the first, whose cells may be as many."""
    opened = [open_release(one) for one in (town, town, named_town, country)]
    opened += [one.companion(name) for one in opened for name in one.companions]
    assert len(opened) > 5
    for one, other in product(opened, opened):
        same = (one.directory, reader_of(one).universe.name) == (other.directory, reader_of(other).universe.name)
        counts, below = one.query("total"), other.query("total")
        if not same:
            with pytest.raises(InputError, match=r"ratio: found numbers of .* and, to divide by, of "):
                counts.ratios_at("tract", to=below)
            with pytest.raises(InputError, match=r"ratio: found numbers of "):
                counts.ratios_over(list(reader_of(one).spine.levels[1].geocodes), to=below)
            continue
        expected = counts.at("tract")["total"] / below.at("tract")["total"]
        found = counts.ratios_at("tract", to=below)["total"]
        np.testing.assert_allclose(found.to_numpy(), expected.where(expected.notna()).to_numpy())


def test_medians_cover_the_truth(release: Release) -> None:
    ages = ("child", "adult", "old")
    counts = truth(release, "block", ["age"])[list(ages)].to_numpy()
    true = (np.cumsum(counts, axis=1) >= counts.sum(axis=1, keepdims=True) / 2).argmax(axis=1)
    found = release.query("age").medians_at("block")
    low, middle, high = (found[name].map(ages.index).to_numpy() for name in ("median:low90", "median", "median:high90"))
    assert ((low <= middle) & (middle <= high)).all()
    assert ((low <= true) & (true <= high)).mean() > 0.9
    assert (low < high).any()
    over = release.query("age").medians_over({"x": list(found.index[:9])})
    assert over.index.tolist() == ["x"]
    with pytest.raises(InputError, match=r"median: found age \* sex; a query of one attribute"):
        release.query("age * sex").medians_at("block")


@pytest.mark.parametrize(("level", "least"), [("block", 0.87), ("tract", 0.87), ("county", 0.87)])
def test_cumulative_numbers_cover_the_truth(release: Release, level: str, least: float) -> None:
    """Up to each age: sums of the numbers, with the intervals that the same sums have as groups of a question."""
    ages = ("child", "adult", "old")
    true = truth(release, level, ["age"])[list(ages)].cumsum(axis=1).rename(columns=lambda age: f"up to {age}")
    question = release.query("age")
    found, alone = question.cumulative_at(level), question.at(level)
    assert covered(found, true) > least
    half = found.copy()
    for name in true.columns:
        for end in ("low90", "high90"):
            half[f"{name}:{end}"] = 0.5 * (found[name] + found[f"{name}:{end}"])
    assert covered(half, true) < 0.8 * covered(found, true) + 0.2  # the last number of counties is exact
    np.testing.assert_array_equal(found[list(true.columns)], alone[list(ages)].cumsum(axis=1))
    pd.testing.assert_frame_equal(
        found.filter(like="up to child").rename(columns=lambda name: name.replace("up to ", "")),
        alone.filter(regex="^child"),
    )
    both = release.query("total").where(age=["child", "adult"]).at(level)
    pd.testing.assert_frame_equal(
        found.filter(like="up to adult").rename(columns=lambda name: name.replace("up to adult", "total")), both
    )
    over = question.cumulative_over({code: [code] for code in found.index[:3]})
    np.testing.assert_array_equal(over.to_numpy(), found.iloc[:3].to_numpy())


def test_ranks_hold_the_true_ranks(release: Release) -> None:
    true = truth(release, "tract", ["sex"]).rank(ascending=False, method="min")
    found = release.query("sex").ranks_at("tract")
    assert covered(found, true) == 1
    assert found["f"].min() == 1
    assert (found["f:high90"] - found["f:low90"] < 36).all()


def test_differences_know_what_the_areas_share(release: Release) -> None:
    """Counties of one state whose total is exact: what one has too much, the others have too little."""
    counties = list(reader_of(release).spine.level("county").geocodes)
    query = release.query("total")
    found = query.difference([counties[0]], counties[1:]).loc["total"]
    assert found["difference"] == found["first"] - found["second"]
    half = found["difference:high90"] - found["difference"]
    margin = query.over({"x": counties[1:]})["total:moe90"].iloc[0]
    assert abs(half - 2 * reader_of(release).margins.half_widths(1, query.query.groups)[0, 0]) <= 1
    assert half > 1.5 * margin
    assert query.difference(counties, counties).loc["total", "difference:high90"] == 0


def test_differences_cover_the_truth(release: Release) -> None:
    blocks = list(reader_of(release).spine.level("block").geocodes)
    true = truth(release, "block", ["sex"])
    inside = []
    for one, other in zip(blocks[:60], blocks[60:120], strict=True):
        found = release.query("sex").difference([one], [other])
        difference = true.loc[one] - true.loc[other]
        inside += list((found["difference:low90"] <= difference) & (difference <= found["difference:high90"]))
    assert 0.82 < np.mean(inside) < 0.97


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


def test_a_value_that_one_draw_does_not_have_is_unknown() -> None:
    """A ratio whose denominator is 0 in one of the draws, in a data frame."""
    values = np.ones((19, 2))
    values[4, 0] = 0.0
    with np.errstate(invalid="ignore"):
        found = interval_of(lambda frame: frame / frame, [draws_frame(values)])
    assert found["median"].isna().tolist() == [True, False]


def test_rubins_rules_by_hand() -> None:
    """Q = 2, W = 0.5, B = 1, M = 3: T = 0.5 + 4/3, degrees 2 (1 + 0.375)^2."""
    pooled = rubin([1.0, 2.0, 3.0], [0.4, 0.5, 0.6])
    assert [float(pooled.estimate), float(pooled.within), float(pooled.between)] == [2.0, 0.5, 1.0]
    assert pooled.variance == pytest.approx(11 / 6)
    assert pooled.degrees == pytest.approx(3.78125)
    # The 95 % quantile of t with 3.78125 degrees, from tables: between 2.132 (4) and 2.353 (3).
    assert 2.132 < (pooled.high - pooled.estimate) / np.sqrt(11 / 6) < 2.2


def test_each_number_is_that_of_the_wide_table(town: Path) -> None:
    release, seen = sw.open_release(town), set()
    reader = reader_of(release)
    for table in reader.universe.tables:
        for level in table.levels:
            wide, tidy = release.table(table.name, level), release.table(table.name, level, tidy=True)
            labels = table.query.answer_labels()
            assert len(tidy) == len(wide) * len(labels)
            for column, suffix in (("value", ""), ("low", ":low90"), ("high", ":high90")):
                assert tidy[column].tolist() == wide[[label + suffix for label in labels]].to_numpy().ravel().tolist()
            assert tidy["geocode"].tolist() == [code for code in wide.index for _ in labels]
            if table.query.terms:
                said = tidy[list(table.query.terms)].agg(" * ".join, axis=1)
                assert said.tolist() == list(labels) * len(wide)
            seen |= set(tidy["reliability"])
    assert seen <= {one.key for one in CLASSES}
    assert len(seen) > 1


def test_ends_of_intervals_are_whole_numbers_and_missing_where_unknown() -> None:
    """Not floats: 233 and not 233.0; none is made up."""
    nan = np.nan
    lows, highs = np.array([[1.0, nan], [0.0, 2.0**53]]), np.array([[3.0, nan], [0.0, 2.0**53]])
    schema = Schema((Attribute("sex", ("f", "m")),))
    table = ReleasedTable(
        "t", "block", "sex", np.array(["A", "B"]), ("f", "m"), np.array([[2, 4], [0, 2**53]]), lows, highs
    )
    tidy = tidy_table(table, Query.parse("sex", schema))
    assert [str(tidy[column].dtype) for column in ("value", "low", "high")] == ["int64", "Int64", "Int64"]
    assert tidy["low"].tolist() == [1, pd.NA, 0, 2**53]
    assert tidy["high"].tolist() == [3, pd.NA, 0, 2**53]
    assert tidy["reliability"].tolist() == ["care", "unreliable", "good", "good"]
    with pytest.raises(ReleaseError, match="no whole number"):
        tidy_table(replace(table, lows=lows + 0.5), Query.parse("sex", schema))


@pytest.mark.parametrize(
    ("count", "margin", "expected"),
    [
        (100, 10.0, "good"), (100, 10.05, "care"), (100, 50.0, "care"), (100, 50.01, "unreliable"),
        (0, 0.0, "unreliable"), (0, 1.0, "unreliable"), (5, 0.0, "care"), (10, 0.0, "good"),
        (7, math.nan, "unreliable"), (3, 0.3, "care"), (30, 3.0000000000000004, "good"),
    ],
)  # fmt: skip
def test_a_number_is_of_the_first_class_that_it_fits(count: int, margin: float, expected: str) -> None:
    found = classes_of(np.array([[count]]), tenths(np.array([[margin]])))
    assert CLASSES[int(found[0, 0])].key == expected


def test_a_zero_is_good_where_it_is_exact_alone() -> None:
    counts, margins = np.array([[0, 0]]), np.array([[0.0, 0.0]])
    found = classes_of(counts, tenths(margins, np.array([[True, False]])))
    assert [CLASSES[int(one)].key for one in found[0]] == ["good", "unreliable"]


def names(*texts: str, **others: list[str]) -> LevelNames:
    return LevelNames({"": pa.array(texts), **{language: pa.array(of) for language, of in others.items()}})


def index() -> AreaIndex:
    """Two counties; the second is one tract, padded; county and tract have codes in common."""
    table = pa.table({"county": ["1", "1", "2"], "tract": ["1", "3", ""], "block": ["7", "8", ""]})
    spine = spine_from_table(table, ["county", "tract", "block"])
    county = names("Alder County", "R\u00edo, \u200fold", es=["Condado de Alisos", "R\u00edo"])
    return AreaIndex("r", spine, {"county": county, "tract": names("Mill", "Alder  county", "R\u00edo, old")})


def test_case_blanks_composition_and_direction_do_not_count() -> None:
    areas = index()
    for text in ("condado DE  alisos", "Condado de Alisos"):
        assert [str(area) for area in areas.named(text)] == ["county 1"]
    # The county and the tract that it is padded to have the same leaves: one area.
    assert [str(area) for area in areas.named("Ri\u0301o, old")] == ["county 2"]
    assert areas.span("county", 1) == (2, 3)
    # The county and the first tract have one code.
    assert areas.one("county:1") == areas.named("Alder County")[0]
