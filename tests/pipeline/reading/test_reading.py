"""What a release says through the reader: tables, sums of any cells, margins that hold, and what is exact."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.changed import not_refused
from releases.command import printed
from releases.small import DETAIL_EVERYWHERE, DETAIL_IN_COUNTIES, QUICK, run, write_town

from pipeline.errors import InputError
from pipeline.reading.release import Release, open_release, reader_of
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


@pytest.fixture(scope="module")
def coarse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the town whose detail is not measured below counties."""
    spec = write_town(tmp_path_factory.mktemp("coarse"), *QUICK, DETAIL_IN_COUNTIES, DETAIL_EVERYWHERE)
    return run(spec, tmp_path_factory.mktemp("released"))


class Dense:
    """Every measurement and every exact fact as a row over (leaf, cell)."""

    def __init__(self, root: Path) -> None:
        self.release = open_release(root)
        spine, universe = reader_of(self.release).spine, reader_of(self.release).universe
        self.shape = (spine.n_leaves, universe.schema.n_cells)
        facts = [self.row(self._leaf(leaf), cell) for leaf in range(self.shape[0])
                 for cell in np.eye(self.shape[1], dtype=bool)[universe.structural_zeros]]  # fmt: skip
        for level, query in universe.invariants:
            facts += self.rows(level, query.cell_answer)
        bound = universe.bounds[0]
        facilities = pd.read_parquet(reader_of(self.release).files.constraint(0)).set_index("geocode")
        for leaf, code in enumerate(spine.leaf_level.geocodes):
            for column, label in zip(sorted(bound.columns), facilities.columns, strict=True):
                if facilities.loc[code, label] == 0:
                    # Nobody in the group: with counts not below 0, nobody in any of its cells.
                    empty = np.eye(self.shape[1], dtype=bool)[bound.query.cell_answer == column]
                    facts += [self.row(self._leaf(leaf), cell) for cell in empty]
        self.facts = np.array(facts)
        measured = [
            row for level in universe.strategy.levels for one in level.queries
            for row in self.rows(level.level, one.query.cell_answer)
        ]  # fmt: skip
        self.measured = np.array(measured)

    def _leaf(self, leaf: int) -> np.ndarray:
        return np.arange(self.shape[0]) == leaf

    def leaves(self, level: str) -> list[np.ndarray]:
        ancestors = reader_of(self.release).spine.leaf_ancestors(reader_of(self.release).index_of(level))
        return [ancestors == row for row in range(ancestors.max() + 1)]

    def row(self, leaves: np.ndarray, cells: np.ndarray) -> np.ndarray:
        return np.outer(leaves, cells).ravel().astype(float)

    def rows(self, level: str, answer: np.ndarray) -> list[np.ndarray]:
        return [self.row(one, answer == a) for one in self.leaves(level) for a in range(answer.max() + 1)]

    def exact(self, level: str, answer: np.ndarray) -> np.ndarray:
        """`(n, size)`: whether the facts alone fix the answer."""
        wanted = np.array(self.rows(level, answer))
        return _in_span(self.facts, wanted).reshape(-1, answer.max() + 1)

    def determined(self, level: str, answer: np.ndarray) -> np.ndarray:
        """`(n, size)`: whether the facts and what is measured of these leaves alone give the answer."""
        found = []
        for leaves in self.leaves(level):
            outside = self.measured.reshape(-1, *self.shape)[:, ~leaves].any(axis=(1, 2))
            wanted = np.array([self.row(leaves, answer == a) for a in range(answer.max() + 1)])
            found.append(_in_span(np.concatenate([self.facts, self.measured[~outside]]), wanted))
        return np.array(found)


def _in_span(rows: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    basis = directions[sizes > 1e-9 * sizes[0]]
    return np.asarray(np.linalg.norm(wanted - wanted @ basis.T @ basis, axis=1) < 1e-7)


@pytest.fixture(scope="module")
def dense(coarse: Path) -> Dense:
    return Dense(coarse)


def _tables(release: Release) -> Iterator[tuple[str, str, np.ndarray]]:
    for table in reader_of(release).universe.tables:
        for level in table.levels:
            yield table.name, level, table.query.cell_answer


@pytest.mark.slow
def test_undetermined_numbers_have_no_margin(dense: Dense) -> None:
    """A margin is empty just where neither measurements of the area nor exact facts give the number."""
    empty = 0
    for name, level, answer in _tables(dense.release):
        frame = dense.release.table(name, level)
        margins = frame[[column for column in frame.columns if column.endswith(":moe90")]].to_numpy(float)
        assert np.array_equal(np.isnan(margins), ~dense.determined(level, answer)), (name, level)
        empty += int(np.isnan(margins).sum())
    assert empty > 100
    block = dense.release.query("age").at("block")
    margins = block[[c for c in block.columns if c.endswith(":moe90")]].to_numpy(float)
    age = dense.release.query("age").query.cell_answer
    assert np.array_equal(np.isnan(margins[:, :-1]), ~dense.determined("block", age))


def test_exact_is_what_the_facts_fix(dense: Dense, coarse: Path) -> None:
    """In tables, in queries and on the command line."""
    certain = 0
    for name, level, answer in _tables(dense.release):
        expected = dense.exact(level, answer)
        assert np.array_equal(dense.release.exact_table(name, level).to_numpy(), expected), (name, level)
        frame = dense.release.table(name, level)
        margins = frame[[column for column in frame.columns if column.endswith(":moe90")]].to_numpy(float)
        assert (margins[expected] == 0).all()
        certain += int(expected.sum())
    assert certain > 100
    question = dense.release.query("age * quarters")
    expected = dense.exact("block", question.query.cell_answer)
    found = question.exact_at("block")
    assert np.array_equal(found.drop(columns="sum").to_numpy(), expected)
    leaves = {code: [code] for code in reader_of(dense.release).spine.leaf_level.geocodes.tolist()}
    assert np.array_equal(question.exact_over(leaves).to_numpy(), found.to_numpy())
    numbers = printed("query", coarse, "age*quarters", "--at", "block").split("In brackets")[0]
    assert numbers.count(" exact") == int(found.to_numpy().sum()) > 0


@pytest.mark.slow
def test_what_is_not_exact_has_an_interval(tmp_path: Path) -> None:
    """No simulated run errs with so large a budget; even so, just the facts are exact, and all else has a width."""
    root = run(write_town(tmp_path, *QUICK, ('rho = "2"', 'rho = "200"')), tmp_path)
    release = open_release(root)
    frame = release.table("sex", "tract")
    margins = frame[[column for column in frame.columns if column.endswith(":moe90")]].to_numpy(float)
    exact = int(release.exact_table("sex", "tract").to_numpy().sum())
    assert exact < margins.size
    assert (margins[release.exact_table("sex", "tract").to_numpy()] == 0).all()
    assert (margins[~release.exact_table("sex", "tract").to_numpy()] == 1).all()
    numbers, legend = printed("query", root, "--table", "sex", "--at", "tract").split("In brackets")
    assert numbers.count(" exact") == exact
    assert numbers.count(" to ") == margins.size - exact
    assert "Only numbers marked exact are certain" in legend


def test_a_number_has_one_margin(dense: Dense) -> None:
    """As a table's number, as a sum, as an answer of another query, and as an area of one's own."""
    release = dense.release
    table = release.table("total", "tract")
    as_sum = release.query("sex").at("tract")
    assert as_sum["sum"].tolist() == table["total"].tolist()
    assert as_sum["sum:moe90"].tolist() == table["total:moe90"].tolist()
    blocks = reader_of(release).spine.leaf_level.geocodes
    areas = {code: [str(block) for block in blocks if block.startswith(code)] for code in table.index}
    assert release.query("total").over(areas)["total:moe90"].tolist() == table["total:moe90"].tolist()
    sex = release.table("sex", "county")
    women = release.query("grown").where(sex=["f"]).at("county")
    assert women["young:moe90"].tolist() == sex["young * f:moe90"].tolist()
