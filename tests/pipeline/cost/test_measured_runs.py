"""What is foretold of made-up releases is within 1.5 times of what runs of them took, most of which fitted no constant.

The spines and specs are those of `benchmarks/bench_england.py`, `bench_dhc.py` and `plan_shapes.py`; nobody is made up.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.cost import model, size
from pipeline.cost.model import Cost, cost_of
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: Megabytes and core seconds of runs with two workers, but of the shapes whose benchmark takes one.
ENGLAND = {128: (500, 26), 32: (1_000, 41), 8: (3_900, 96)}
DHC = {100: (1_558, 17), 10: (1_621, 31), 1: (2_132, 107)}
SHAPES = {
    "four-cells": (219, 6.9),
    "two-levels": (229, 7.0),
    "many-leaves": (341, 9.9),
    "many-leaves-margins": (541, 17.4),
    "six-levels": (457, 20.8),
    "ages": (306, 11.2),
    "ages-report": (652, 23.3),
    "redistricting": (488, 15.7),
    "redistricting-margins": (409, 24.8),
    "most-cells": (235, 9.6),
}


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")


def _england(share: int) -> tuple[ReleaseSpec, Spine]:
    bench = import_module("bench_england")
    codes = bench.leaves_of(share, np.random.default_rng([share, 19]))
    return _read(bench.spec_text(share, margins=True), codes)


def _dhc(share: int) -> tuple[ReleaseSpec, Spine]:
    bench = import_module("bench_dhc")
    return _read(bench.spec_text(share), bench.leaves_of(share))


def _read(text: str, codes: Any) -> tuple[ReleaseSpec, Spine]:
    spec = parse_spec(text)
    assert isinstance(spec.geography.levels, dict)
    return spec, spine_from_prefixes(codes.tolist(), spec.geography.levels)


def _within(cost: Cost, megabytes: float, core_seconds: float, most: float = 1.5) -> bool:
    pairs = ((cost.peak_mb, megabytes), (cost.core_seconds, core_seconds))
    return all(1 / most < foretold / used < most for foretold, used in pairs)


@pytest.mark.parametrize("share", ENGLAND)
def test_shares_of_england(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few constants were fitted on 1/128; with a fault, that squares of cells take ten times as long, it shows."""
    spec, spine = _england(share)
    assert _within(cost_of(spec, spine, 2, engine=False), *ENGLAND[share])
    monkeypatch.setattr(model, "PER_SQUARE", 10 * model.PER_SQUARE)
    assert not _within(cost_of(spec, spine, 2, engine=False), *ENGLAND[share])


@pytest.mark.parametrize("share", DHC)
def test_more_than_a_million_cells(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All constants of such schemas were fitted on these three; without what counts cells and families it shows."""
    spec, spine = _dhc(share)
    assert _within(cost_of(spec, spine, 2, engine=False), *DHC[share])
    monkeypatch.setattr(size, "CELLS_AT_TOP" if share > 1 else "SQUARES_OF_SUMS", 0)
    assert not _within(cost_of(spec, spine, 2, engine=False), *DHC[share])


@pytest.mark.parametrize("name", SHAPES)
def test_made_up_shapes(name: str) -> None:
    shapes = import_module("plan_shapes")
    one = next(one for one in shapes.SHAPES if one.name == name)
    codes = import_module("synthetic_spine").leaf_codes(one.shape.geounits, np.random.default_rng([1, 1]))
    spec, spine = _read(shapes.shape_text(one), codes)
    assert _within(cost_of(spec, spine, one.workers, engine=False), *SHAPES[name])
