"""Numbers of the report without a browser: margins in figures, factors of covariances, and the memory they take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from releases.drawn import drawn_table, parts_of

from features.report.moments import Reported
from features.report.table_numbers import MarginSummary
from features.report.workers import table_moments, tables_by_level
from geography.spine import Spine
from pipeline.cost import memory
from pipeline.cost.memory import memory_of
from pipeline.estimation.expectation import Expectation
from pipeline.inputs.geography import read_spine
from pipeline.release.area_sizes import TENFOLD
from pipeline.release.reliability import UNKNOWN, classes_of, tenths
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.linear.pairs import rows_of


@pytest.mark.parametrize("step", [7, 1000])
def test_margins_by_brute_force(step: int) -> None:
    whole = drawn_table(400, 5, seed=2)
    assert whole.margins is not None
    summary = MarginSummary()
    for part in parts_of(whole, step):
        summary.add(part)
    margins = tenths(whole.margins)
    sizes = whole.counts.sum(axis=1)
    for found in [*summary.by_size(), summary.all()]:
        low = 0 if found.size < 0 else TENFOLD[found.size]
        high = math.inf if found.size < 0 or found.size + 1 == len(TENFOLD) else TENFOLD[found.size + 1]
        rows = (sizes >= low) & (sizes < high)
        known = np.sort(margins[rows][margins[rows] != UNKNOWN]) / 10
        assert (found.areas, found.numbers) == (rows.sum(), len(known))
        for quantile, value in ((0.1, found.low), (0.5, found.median), (0.9, found.high)):
            if len(known):
                exact = known[math.ceil(quantile * len(known) - 1e-9) - 1]
                assert value is not None
                assert exact * 0.99 - 1e-9 <= value <= exact + 1e-9
        some = whole.counts[rows] > 0
        classes = np.bincount(classes_of(whole.counts[rows], margins[rows])[some], minlength=3)
        assert found.shares == tuple(classes.tolist())


AGES = [f'"{age}"' for age in range(12)]


ALL = '["county", "tract", "block"]'


SPEC = """
name = "ages"
{zeros}
privacy = {{ rho = "2" }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ county = 1, tract = 4, block = 7 }} }}
schema.attributes = {{ age = [{ages}] }}
schema.recodes.halves = {{ attribute = "age", groups = {{ low = [{low}], high = [{high}] }} }}
strategy.queries = {{ total = "1/4", halves = "1/4", detailed = "1/2" }}
strategy.levels = {{ county = "1/3", tract = "1/3", block = "1/3" }}
publish = {{ {publish} }}
[tables]
"""


def stated(
    folder: Path, tables: Mapping[str, str], tracts: int = 4, *, publish: str = "replicates = 4", zeros: str = ""
) -> tuple[ReleaseSpec, Spine]:
    """A spec of ages and halves of them, on tracts of 1, 2, 3 ... blocks; none is like another."""
    folder.mkdir(exist_ok=True)
    codes = [f"1{tract:03d}{block:03d}" for tract in range(tracts) for block in range(tract + 1)]
    (folder / "blocks.csv").write_text("block\n" + "\n".join(codes) + "\n")
    low, high = ", ".join(AGES[:6]), ", ".join(AGES[6:])
    text = SPEC.format(ages=", ".join(AGES), low=low, high=high, publish=publish, zeros=zeros)
    lines = [f'{name} = {{ query = "{name}", levels = {levels} }}\n' for name, levels in tables.items()]
    (folder / "spec.toml").write_text(text + "".join(lines))
    spec = load_spec(folder / "spec.toml")
    return spec, read_spine(spec.geography)


def reported(spec: ReleaseSpec, spine: Spine) -> Reported:
    (universe,) = spec.universes()
    return Reported.of(universe, spine, margins=spec.publish.margins)


def test_factors_are_those_that_the_report_works_out(tmp_path: Path) -> None:
    spec, spine = stated(tmp_path, {"total": ALL, "halves": '["tract"]', "detailed": '["county", "block"]'}, 5)
    (universe,) = spec.universes()
    expectation = Expectation.of(universe, spine, [], "full")
    planned = expectation.planned()
    sizes = []
    for level, table in tables_by_level(universe, spine):
        moments = table_moments(expectation, planned, level, table)
        shape = (len(rows_of(expectation.basis, table.query)), expectation.basis.n_asymmetric)
        assert moments.shared.shape[-2:] == shape or not moments.shared.size
        sizes.append(moments.shared.size + moments.nested.size)
    assert reported(spec, spine).widest == max(sizes)


def test_the_report_is_part_of_the_memory_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other steps where it takes little, after them where it takes much: then the larger of the two counts.

    Here it takes more memory than all else.
    """
    monkeypatch.setattr("features.report.moments.HELD_BYTES", 1e6)
    spec, spine = stated(tmp_path, {"detailed": ALL}, 12)
    found = reported(spec, spine)
    beside = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_AHEAD", 0)
    after = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_HELD", 0)
    processes = memory.MAIN_MB + memory.ENGINE_MB + 2 * memory.WORKER_MB
    assert after.peak_mb == pytest.approx(processes + found.bytes / 1e6, rel=1e-3)  # and the histograms
    assert memory_of(spec, spine, 2).peak_mb < after.peak_mb < beside.peak_mb < 1.1 * after.peak_mb
