"""What a release says through the reader: the published tables, sums of any cells, and margins that hold."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.changed import not_refused

from pipeline.errors import InputError
from pipeline.reading.release import open_release, reader_of
from pipeline.release.tables import HIGH_SUFFIX, LOW_SUFFIX, is_count
from pipeline.storage.files import sha256_file


def truth(directory: Path, level: str) -> pd.DataFrame:
    frame = pd.read_parquet(directory / "restricted" / "histograms" / f"{level}.parquet")
    return frame.astype({name: str for name in frame.columns if name != "count"})


def test_each_file_is_compared_with_the_manifest_before_it_is_read(named_town: Path, tmp_path: Path) -> None:
    """Counts, intervals, and what margins of sums of one's own follow from: measurements and what is known."""
    root = Path(shutil.copytree(named_town, tmp_path / "town"))
    blocks = reader_of(open_release(root)).spine.levels[-1].geocodes.tolist()

    def read() -> None:
        release = open_release(root)
        for universe in (release, *map(release.companion, release.companions)):
            universe.table(universe.tables[0], "county")
            universe.query("total").at("block")
            universe.query("total").over({"some": blocks[:5]})
            reader, total = reader_of(universe), universe.query("total").query
            reader.margins.ends(reader.leaves_of(blocks[:5], "").astype(float), total.groups, np.zeros((1, 1), int))
        release.names(reader_of(release).named_levels[0])

    files, wrong = not_refused(root / "public", read)
    assert wrong == []
    assert {"spine.parquet", "histograms/block.parquet", "tables/total/county.parquet"} <= files
    folders = {name.split("/")[0] for name in files}
    assert {"measurements", "invariants", "constraints", "names", "companions"} <= folders


def test_a_file_is_hashed_once_and_only_if_it_is_read(named_town: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def hashing(path: Path) -> str:
        hashed.append(path.relative_to(named_town / "public").as_posix())
        return sha256_file(path)

    monkeypatch.setattr("pipeline.release.manifest.sha256_file", hashing)
    release = open_release(named_town)
    for _ in range(2):
        release.table("total", "county")
        release.query("total").at("county")
    assert sorted(hashed) == ["histograms/county.parquet", "spine.parquet", "tables/total/county.parquet"]


def test_counts_are_those_of_the_histogram(town: Path) -> None:
    """Every query, condition, recode and level of the town, against pandas over the published histogram."""
    release = open_release(town)
    for level in release.levels:
        histogram = pd.read_parquet(town / "public" / "histograms" / f"{level}.parquet")
        histogram = histogram.astype({name: str for name in histogram.columns if name != "count"})
        histogram["grown"] = np.where(histogram["age"] == "child", "young", "grown")
        codes = reader_of(release).spine.level(level).geocodes
        questions: list[tuple[list[str], dict[str, Any]]] = [
            (["age"], {}),
            (["age", "sex"], {"quarters": ["house", "dorm"]}),
            (["grown", "sex"], {"age": "old"}),
            (["sex"], {"grown": "grown", "quarters": "prison"}),
            (["quarters"], {"quarters": ["dorm", "prison"], "sex": "m"}),
        ]
        for terms, conditions in questions:
            found = release.query(" * ".join(terms)).where(**conditions).at(level)
            kept = histogram
            for name, values in conditions.items():
                kept = kept[kept[name].isin([values] if isinstance(values, str) else values)]
            expected = kept.groupby(["geocode", *terms])["count"].sum()
            for label in [name for name in found.columns if is_count(name) and name != "sum"]:
                for code in codes:
                    assert found.loc[code, label] == expected.get((code, *label.split(" * ")), 0)
            together = kept.groupby("geocode")["count"].sum().reindex(codes, fill_value=0)
            assert (found.get("sum", found.iloc[:, 0]) == together).all()


def scores(directory: Path, areas: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Errors over areas in standard errors; and, as a fault, as if the leaves' errors were independent."""
    release = open_release(directory)
    margins = reader_of(release).margins
    found = release.query("grown * sex").over(areas)
    labels = [name for name in found.columns if is_count(name) and name != "sum"]
    frame = truth(directory, "block")
    frame["answer"] = np.where(frame["age"] == "child", "young", "grown") + np.array(" * ") + frame["sex"]
    exact = frame.groupby(["geocode", "answer"])["count"].sum().unstack(fill_value=0)
    groups = release.query("grown * sex").query.groups
    single = pd.DataFrame(
        margins.variances(3, groups), index=reader_of(release).spine.leaf_level.geocodes, columns=labels
    )
    proper, independent, covered = [], [], []
    for name, codes in areas.items():
        inside = reader_of(release).leaves_of(codes, name)
        error = found.loc[name, labels].to_numpy(float) - exact.loc[codes, labels].sum().to_numpy()
        proper.append(error / np.sqrt(margins.variances(inside.astype(float), groups)[0]))
        independent.append(error / np.sqrt(single.loc[codes].sum().to_numpy()))
        low, high = (
            found.loc[name, [label + end for label in labels]].to_numpy(float) for end in (LOW_SUFFIX, HIGH_SUFFIX)
        )
        true = exact.loc[codes, labels].sum().to_numpy()
        covered.append((low <= true) & (true <= high))
    return np.array(proper), np.array(independent), np.array(covered)


def test_margins_of_areas_against_the_truth(country: Path) -> None:
    """Errors over areas off the spine have the stated variance and are covered in 90 %; independence would not do.

    The areas are whole tracts but for one block: nearly all of their error is the tract's, far less than the sum.
    """
    release = open_release(country)
    leaves, tracts = reader_of(release).spine.leaf_level, reader_of(release).spine.levels[2]
    areas = {
        code: leaves.geocodes[leaves.parents == number].tolist()[1:] for number, code in enumerate(tracts.geocodes)
    }
    proper, independent, covered = scores(country, areas)
    n = proper.size
    assert abs((proper**2).mean() - 1) < 4 * np.sqrt(2 / n) * 1.5
    assert covered.mean() > 0.9 - 3 * np.sqrt(0.09 / n) * 1.5
    assert (independent**2).mean() < 0.6, "the power of this test: independent leaves would be told apart"


def test_wrong_questions(country: Path, tmp_path: Path) -> None:
    release = open_release(country)
    leaf = str(reader_of(release).spine.leaf_level.geocodes[0])
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: open_release(tmp_path / "nowhere"), "no such folder"),
        (lambda: release.table("race", level="tract"), "no table 'race'; the tables are sex, detail"),
        (lambda: release.table("detail", level="block"), "is published for county, tract, not for 'block'"),
        (lambda: release.table("sex", level="village"), "no level 'village'; the levels are state, county"),
        (lambda: release.query("colour"), "'colour' in the query 'colour' is not an attribute"),
        (lambda: release.query("sex").at("village"), "no level 'village'"),
        (lambda: release.query("sex").where(colour="red"), "'colour' is no attribute or recode; allowed are age, sex"),
        (lambda: release.query("sex").where(age="baby"), "where: age: found 'baby'; its values are child, adult, old"),
        (lambda: release.query("sex").where(age=[]), "where: age: found no value"),
        (lambda: release.query("sex").where(age="child", grown="grown"), "no value of age is all of these"),
        (lambda: release.query("sex").over([]), "has no geocodes"),
        (lambda: release.query("sex").over({}), "no area is given"),
        (lambda: release.query("sex").over(leaf), "a list of geocodes is needed"),
        (lambda: release.query("sex").over([leaf, "9"]), "1 geocode not in country: '9'"),
        (lambda: release.query("sex").over([leaf, leaf]), "has 1 leaf twice"),
        (lambda: release.query("sex").over([leaf, leaf[:2]]), "has 1 leaf twice"),
    ]
    for ask, told in refusals:
        with pytest.raises(InputError) as caught:
            ask()
        assert told in str(caught.value)
