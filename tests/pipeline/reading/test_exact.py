"""What is called exact, and what has no margin at all, beside dense linear algebra on every cell of every leaf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.command import printed
from releases.small import DETAIL_EVERYWHERE, DETAIL_IN_COUNTIES, QUICK, run, write_town

from pipeline.reading.release import Release, open_release, reader_of


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
