"""Seconds that are foretold of made-up releases are within 1.5 times of what runs took, and no run took more memory.

Nor did any take less than a third of what a plan says at most. Most runs fitted no constant. The spines and specs are
those of `benchmarks/bench_scale.py` and `releases.plan_shapes`; nobody is made up.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases import plan_shapes
from releases.synthetic_spine import leaf_codes

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.cost import model, size
from pipeline.cost.model import Cost, cost_of
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: Megabytes and core seconds of runs with two workers, but of the shapes whose benchmark takes one.
ENGLAND = {128: (746, 16), 32: (1_160, 28), 8: (3_168, 75), 1: (2_736, 324)}
DHC = {100: (1_558, 17), 10: (1_621, 31), 1: (1_820, 110)}
DHC_POSITIVE = {100: (1_574, 18), 10: (1_607, 52), 1: (3_267, 667)}
SHAPES = {
    "four-cells": (201, 2.5),
    "two-levels": (207, 2.6),
    "many-leaves": (342, 4.0),
    "many-leaves-margins": (293, 4.2),
    "six-levels": (249, 4.8),
    "ages": (276, 3.5),
    "ages-large": (2_904, 35.3),
    "ages-report": (544, 7.9),
    "ages-sexes": (235, 4.2),
    "redistricting": (476, 5.7),
    "redistricting-margins": (386, 9.4),
    "most-cells": (239, 2.8),
    "eleven-queries": (264, 6.2),
    "few-tables": (395, 5.0),
    "draws": (227, 2.6),
}
#: Megabytes of runs by which bytes of an array were chosen; of 25,000 leaves and 256 cells a user's, with the engine.
BOUNDED = {
    "leaves-25000": 1_500,
    "leaves-6000": 499,
    "even-64": 299,
    "pl-60": 263,
    "narrow-20000": 301,
    "margins-64": 415,
    "fan": 506,
    "one-level": 229,
    "ages-300": 255,
    "microdata": 233,
    "homes-150": 420,
    "draws-800": 220,
}
#: Megabytes and seconds of all 7,458,086 blocks of 2020 with two workers, in parts.
NATION = 5_936, 2_141


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


def _within(cost: Cost, megabytes: float, core_seconds: float, most: float = 1.5) -> bool:
    return _bounds(cost, megabytes) and 1 / most < cost.core_seconds / core_seconds < most


def _bounds(cost: Cost, megabytes: float) -> bool:
    """Whether a run took no more memory than the plan says, and no less than a third of it."""
    return cost.peak_mb / 3 <= megabytes <= cost.peak_mb


@pytest.mark.parametrize("share", ENGLAND)
def test_shares_of_england(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few constants were fitted on 1/128; with a fault, that squares of cells take ten times as long, it shows."""
    spec, spine = _england(share)
    assert _within(cost_of(spec, spine, 2, engine=False), *ENGLAND[share])
    monkeypatch.setattr(model, "PER_WIDE_SQUARE", 10 * model.PER_WIDE_SQUARE)
    assert not _within(cost_of(spec, spine, 2, engine=False), *ENGLAND[share])


@pytest.mark.parametrize("share", DHC)
def test_more_than_a_million_cells(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All constants of such schemas were fitted on these three; without what counts cells and families it shows."""
    spec, spine = _dhc(share, "dhc-persons-county")
    assert _within(cost_of(spec, spine, 2, engine=False), *DHC[share])
    monkeypatch.setattr(size, "CELLS_AT_TOP" if share > 1 else "SQUARES_OF_SUMS", 0)
    assert not _within(cost_of(spec, spine, 2, engine=False), *DHC[share])


@pytest.mark.parametrize("share", DHC_POSITIVE)
def test_detail_where_the_area_above_is_positive(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants were fitted on these three; with a fault, without what is drawn or what families take, it shows."""
    spec, spine = _dhc(share, "dhc-persons-positive")
    assert _within(cost_of(spec, spine, 2, engine=False), *DHC_POSITIVE[share])
    monkeypatch.setattr(size, "CELLS_AT_TOP" if share == 100 else "SQUARES_OF_WIDE", 0)
    assert not _within(cost_of(spec, spine, 2, engine=False), *DHC_POSITIVE[share])


@pytest.mark.parametrize("name", SHAPES)
def test_made_up_shapes(name: str) -> None:
    one = next(one for one in plan_shapes.SHAPES if one.name == name)
    codes = leaf_codes(one.shape.geounits, np.random.default_rng([1, 1]))
    spec, spine = _read(plan_shapes.shape_text(one), codes)
    assert _within(cost_of(spec, spine, one.workers, engine=False), *SHAPES[name])


@pytest.mark.parametrize("name", BOUNDED)
def test_no_run_takes_more_memory_than_its_plan_says(name: str) -> None:
    """Of 25,000 leaves, margins, households and a family of 1,500 children a plan said 0.4 to 0.6 of it before."""
    cost = _cost_of_bounded(name, engine=name == "leaves-25000")
    assert _bounds(cost, BOUNDED[name]), cost.peak_mb


def _cost_of_bounded(name: str, *, engine: bool = False) -> Cost:
    one = next(one for one in plan_shapes.BOUNDED if one.name == name)
    codes = leaf_codes(one.shape.geounits, np.random.default_rng([1, 1]))
    return cost_of(*_read(plan_shapes.shape_text(one), codes), one.workers, engine=engine)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fan", "margins-64"])
def test_a_run_takes_no_more_memory_than_its_plan_says(name: str, tmp_path: Path) -> None:
    """The same of a run that is made now."""
    one = next(one for one in plan_shapes.BOUNDED if one.name == name)
    used = import_module("measured_run").measured_run(
        plan_shapes.write_shape(tmp_path, one), tmp_path / "out", one.workers
    )
    assert _bounds(_cost_of_bounded(name), used.peak_mb), used


@pytest.mark.slow
def test_the_nation_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its records take while they are counted was fitted on it; if twice as much stayed, it shows."""
    bench = import_module("bench_national")
    file = bench.DATA / "us_2020_block_spine_exTXDC.parquet"
    if not file.is_file():
        pytest.skip("the blocks of 2020 are not in ../shared/data")
    codes = "1" + pd.read_parquet(file, columns=["block"])["block"].astype(str).str.zfill(15)
    spec, spine = _read(bench.spec_2020(), codes)
    cost = cost_of(spec, spine, 2, engine=False)
    assert cost.parts == 242
    megabytes, seconds = NATION
    assert _bounds(cost, megabytes)
    assert 1 / 1.5 < cost.seconds / seconds < 1.5
    monkeypatch.setattr(model, "CUT_GEOUNIT_BYTES", 2 * model.CUT_COUNTED_BYTES)
    assert not _bounds(cost_of(spec, spine, 2, engine=False), megabytes)
