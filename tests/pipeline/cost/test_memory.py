"""A run fits into the memory that there is, or is refused with the figures; none took more than its plan says.

The spines and specs of measured runs are those of `benchmarks/bench_scale.py` and `releases.plan_shapes`.
"""

from __future__ import annotations

import resource
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from releases.command import needs, spinewise
from releases.plan_shapes import BOUNDED, shape_text, write_shape
from releases.plan_shapes import SHAPES as MADE_UP
from releases.small import QUICK, run, write_town

import pipeline.cost.memory
from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.cost import memory, size
from pipeline.cost.limits import check_possible
from pipeline.cost.memory import ENGINE_MB, MAIN_MB, WORKER_MB, Memory, fitting, memory_of
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec

BARE = ("replicates = 3\nunbiased = true", "margins = false")


def opened(path: Path) -> tuple[ReleaseSpec, Spine]:
    spec = load_spec(path)
    return spec, read_spine(spec.geography)


@pytest.fixture(name="heavy")
def _heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell and geounit takes a megabyte, so that a town is as heavy as a country."""
    for name in ("GEOUNIT_BYTES", "MEASURED_BYTES", "FILLED_BYTES", "ABOVE_BYTES"):
        monkeypatch.setattr(pipeline.cost.memory, name, 1e6)
    monkeypatch.setattr("pipeline.cost.memory.LEAST_PART_CELLS", 8)


@pytest.mark.usefixtures("heavy")
def test_a_cut_spine_takes_what_its_largest_part_takes(tmp_path: Path) -> None:
    spec, spine = opened(write_town(tmp_path, BARE))
    whole, cut = memory_of(spec, spine, 1), memory_of(spec, spine, 1, most_cells=1, part_cells=1)
    fixed = MAIN_MB + ENGINE_MB
    assert (whole.parts, cut.parts) == (1, 6)
    assert cut.peak_mb - fixed - WORKER_MB < 0.5 * (whole.peak_mb - fixed)


@pytest.mark.usefixtures("heavy")
def test_less_memory_means_parts_then_fewer_workers_then_a_refusal(tmp_path: Path) -> None:
    spec, spine = opened(write_town(tmp_path, BARE))
    wanted = memory_of(spec, spine, 3)
    seen = []
    for share in (1.01, 0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.2):
        way = fitting(spec, spine, 3, int(share * wanted.peak_mb * 1e6))
        assert way.fits == (way.memory.peak_mb <= share * wanted.peak_mb)
        seen.append((way.fits, way.memory.parts > 1, way.memory.workers))
    assert seen[0] == (True, False, 3)
    assert (True, True, 2) in seen
    assert seen[-1] == (False, True, 1)
    assert sorted(seen, key=lambda one: (not one[0], one[1], -one[2])) == seen


def test_a_refused_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    monkeypatch.setenv("SPINEWISE_MEMORY", "0.05")
    with pytest.raises(InputError, match=r"town: the run can take up to .* and 0\.1 GB|0\.0 GB are available"):
        run(spec, tmp_path / "out")
    assert not (tmp_path / "out" / "town").exists()


#: CPU seconds, on any machine that is not many times slower than the ones that this was made on.
SECONDS = 60.0


def write_binary(folder: Path, attributes: int) -> Path:
    """A spec of so many attributes of two values, each of which is measured by itself."""
    names = [f"a{number}" for number in range(attributes)]
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{c}{t}{b}\n" for c in "12" for t in "12" for b in "123"))
    (folder / "persons.csv").write_text(",".join(["block", *names]) + "\n")
    spec = folder / "spec.toml"
    spec.write_text(
        'name = "binary"\n[privacy]\nrho = "2"\n[geography]\nfile = "blocks.csv"\ncolumn = "block"\n'
        "levels = { county = 1, tract = 2, block = 3 }\n[schema.attributes]\n"
        + "".join(f'{name} = ["no", "yes"]\n' for name in names)
        + "[strategy.queries]\n"
        + "".join(f'{name} = "1/{attributes}"\n' for name in names)
        + '[strategy.levels]\ncounty = "1/2"\ntract = "1/4"\nblock = "1/4"\n[tables]\n'
        + "".join(f'{name} = {{ query = "{name}", levels = ["county", "block"] }}\n' for name in names)
        + '[input]\nfile = "persons.csv"\nform = "microdata"\ngeocode = "block"\n'
    )
    return spec


@needs("plan")
def test_what_no_machine_can_solve_is_refused_at_once_and_alike(tmp_path: Path) -> None:
    """`run` said after 41 CPU seconds that 4,222,137 GB of memory would help."""
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "out"
    opened = spinewise(
        "ledger", "open", "persons", "--population", "binary", "--rho", "4", SPINEWISE_LEDGER=str(ledger)
    )
    assert opened.returncode == 0, opened.stderr
    path = write_binary(tmp_path, 24)
    path.write_text(path.read_text().replace("[privacy]", '[privacy]\ndataset = "persons"'))
    events, before = ledger.read_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in (("plan", path), ("run", path, "--out", out, "--no-prefect"), ("run", path, "--out", out)):
        refused = spinewise(*command, SPINEWISE_LEDGER=str(ledger))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "found 16,777,216 possible cells" in " ".join(refused.stderr.split())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3 * SECONDS / 2
    assert not out.exists()
    assert ledger.read_bytes() == events


def test_structural_zeros_are_no_possible_cells(tmp_path: Path) -> None:
    path = write_binary(tmp_path, 20)
    with pytest.raises(InputError, match=r"found 1,048,576 possible cells"):
        check_possible(*_own(path))
    zeros = 'structural_zeros = [ { a0 = "yes", a1 = "yes" } ]\n'
    path.write_text(path.read_text().replace("[privacy]", zeros + "[privacy]"))
    check_possible(*_own(path))


def _own(path: Path) -> tuple[ReleaseSpec, Universe]:
    spec = load_spec(path)
    return spec, spec.universes()[0]


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
