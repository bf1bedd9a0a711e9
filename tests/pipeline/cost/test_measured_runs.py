"""No run took more memory than its plan says, and none less than half of it: of made-up releases, and of a nation.

The spines and specs are those of `benchmarks/bench_scale.py` and `releases.plan_shapes`; nobody is made up.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.plan_shapes import BOUNDED, shape_text, write_shape
from releases.plan_shapes import SHAPES as MADE_UP

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.cost import memory, size
from pipeline.cost.memory import Memory, memory_of
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: Megabytes of runs with two workers.
ENGLAND = {128: 746, 32: 1_160, 8: 3_168, 1: 2_736}
DHC = {100: 1_558, 10: 1_621, 1: 1_820}
DHC_POSITIVE = {100: 1_574, 10: 1_607, 1: 3_267}
#: Megabytes of runs, and the processes that they had: most were over before they started others.
SHAPES = {
    "four-cells": (201, 1),
    "many-leaves": (342, 1),
    "ages-large": (2_904, 2),
    "ages-report": (544, 2),
    "redistricting": (476, 2),
    "most-cells": (239, 1),
    "few-tables": (395, 2),
    "leaves-6000": (499, 2),
    "narrow-20000": (301, 1),
    "margins-64": (415, 2),
    "fan": (506, 1),
    "microdata": (233, 1),
    "homes-150": (420, 2),
    "draws-800": (220, 1),
}
#: Shapes whose spine takes long to make.
LARGE = ("many-leaves", "ages-large", "narrow-20000", "leaves-6000")
#: Megabytes of a user's run of 25,000 leaves and 256 cells, with the engine.
WITH_ENGINE = 1_500
#: Megabytes of all 7,458,086 blocks of 2020 with two workers, in parts; and the persons that live there.
NATION, PERSONS = 5_936, 302_000_000


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")


def _england(share: int) -> tuple[ReleaseSpec, Spine]:
    bench = import_module("bench_scale")
    codes = bench.england_leaves(share, np.random.default_rng([share, 19]))
    return _read(bench.england_spec(share, margins=True), codes)


def _dhc(share: int, strategy: str) -> tuple[ReleaseSpec, Spine]:
    bench = import_module("bench_scale")
    return _read(bench.dhc_spec(share, strategy), bench.dhc_leaves(share))


def _read(text: str, codes: Any) -> tuple[ReleaseSpec, Spine]:
    spec = parse_spec(text)
    assert isinstance(spec.geography.levels, dict)
    return spec, spine_from_prefixes(codes.tolist(), spec.geography.levels)


def _bounds(memory: Memory, megabytes: float) -> bool:
    """Whether a run took no more memory than the plan says, and no less than half of it."""
    return memory.peak_mb / 2 <= megabytes <= memory.peak_mb


@pytest.mark.parametrize("share", [128, 32, *(pytest.param(share, marks=pytest.mark.slow) for share in (8, 1))])
def test_shares_of_england(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small share is mostly processes, the whole histograms and matrices: without these it shows."""
    spec, spine = _england(share)
    assert _bounds(memory_of(spec, spine, 2, engine=False), ENGLAND[share])
    for name in {128: ("MAIN_MB", "WORKER_MB"), 1: ("FILLED_BYTES", "ONLY_MATRIX_BYTES")}.get(share, ()):
        monkeypatch.setattr(memory, name, 0.0)
    assert share in (32, 8) or not _bounds(memory_of(spec, spine, 2, engine=False), ENGLAND[share])


@pytest.mark.parametrize("share", [100, 10, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("strategy", "used"), [("dhc-persons-county", DHC), ("dhc-persons-positive", DHC_POSITIVE)])
def test_more_than_a_million_cells(
    strategy: str, used: dict[int, int], share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the cells at the top it shows."""
    spec, spine = _dhc(share, strategy)
    assert _bounds(memory_of(spec, spine, 2, engine=False), used[share])
    monkeypatch.setattr(size, "CELLS_AT_TOP", 0)
    assert not _bounds(memory_of(spec, spine, 2, engine=False), used[share])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LARGE else ()) for name in SHAPES]
)
def test_made_up_shapes(name: str) -> None:
    """With as many processes as the run had; more are more."""
    megabytes, processes = SHAPES[name]
    assert _bounds(_memory_of_shape(name, processes), megabytes)
    assert _memory_of_shape(name, 2).peak_mb >= megabytes


@pytest.mark.slow
def test_a_run_with_the_engine() -> None:
    assert _bounds(_memory_of_shape("leaves-25000", 2, engine=True), WITH_ENGINE)


def _memory_of_shape(name: str, processes: int, *, engine: bool = False) -> Memory:
    one = next(one for one in (*MADE_UP, *BOUNDED) if one.name == name)
    return memory_of(*_read(shape_text(one), one.codes), processes, engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fan", "margins-64"])
def test_a_run_that_is_made_now(name: str, tmp_path: Path) -> None:
    one = next(one for one in BOUNDED if one.name == name)
    """No more than the plan says; some systems take pages back that are not looked at, and then far less is seen."""
    used = import_module("measured_run").measured_run(write_shape(tmp_path, one), tmp_path / "out", one.workers)
    most = _memory_of_shape(name, one.workers).peak_mb
    assert most / 4 <= used.peak_mb <= most, used


@pytest.mark.slow
def test_the_nation_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its records take while they are counted was fitted on it; if twice as much stayed, it shows."""
    bench = import_module("bench_national")
    file = bench.DATA / "us_2020_block_spine_exTXDC.parquet"
    if not file.is_file():
        pytest.skip("the blocks of 2020 are not in ../shared/data")
    codes = "1" + pd.read_parquet(file, columns=["block"])["block"].astype(str).str.zfill(15)
    spec, spine = _read(bench.spec_2020().replace("[privacy]", f"[privacy]\npopulation = {PERSONS}"), codes)
    found = memory_of(spec, spine, 2, engine=False)
    assert found.parts == 242
    assert _bounds(found, NATION)
    monkeypatch.setattr(memory, "CUT_GEOUNIT_BYTES", 2 * memory.CUT_COUNTED_BYTES)
    assert not _bounds(memory_of(spec, spine, 2, engine=False), NATION)
