"""A run fits into the memory that there is, or is refused with the figures; draws take their share of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from releases.small import QUICK, run, write_town

import pipeline.cost.memory
from geography.spine import Spine
from pipeline.cost.memory import ENGINE_MB, MAIN_MB, WORKER_MB, check_memory, fitting, memory_of
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec

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


@pytest.mark.usefixtures("heavy")
def test_margins_of_a_small_spine_need_it_whole_so_that_fewer_workers_help(tmp_path: Path) -> None:
    spec, spine = opened(write_town(tmp_path))
    wanted, least = memory_of(spec, spine, 2), memory_of(spec, spine, 1, most_cells=8, part_cells=8)
    assert wanted.margins_mb > least.margins_mb > 0
    between = fitting(spec, spine, 2, int(0.5 * (wanted.peak_mb + least.peak_mb) * 1e6))
    assert between.fits
    assert (between.memory.workers, between.memory.parts) != (between.requested.workers, between.requested.parts)
    way = fitting(spec, spine, 2, int(0.9 * least.peak_mb * 1e6))
    with pytest.raises(InputError) as caught:
        check_memory(spec, way)
    figures = [float(one) for one in re.findall(r"([0-9.]+) GB", str(caught.value))]
    expected = [way.memory.peak_mb, way.memory.margins_mb, 0.9 * least.peak_mb, way.bare]
    assert figures == pytest.approx([one / 1000 for one in expected], abs=0.06)
    assert way.bare < way.memory.peak_mb
    assert "margins = false" in str(caught.value)


def test_a_refused_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    monkeypatch.setenv("SPINEWISE_MEMORY", "0.05")
    with pytest.raises(InputError, match=r"town: the run can take up to .* and 0\.1 GB|0\.0 GB are available"):
        run(spec, tmp_path / "out")
    assert not (tmp_path / "out" / "town").exists()


def memory(folder: Path, draws: int, workers: int, *changes: tuple[str, str]) -> float:
    drawn = ("replicates = 3\nunbiased = true", f"margins = false\ndraws = {draws}")
    spec = load_spec(write_town(folder, drawn, *changes))
    public = open_listed(spec, spec.universes())
    return memory_of(public.spec, public.spine, workers).peak_mb


def test_each_process_holds_one_draw_of_the_tables_that_are_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every number of a draw takes a megabyte, so that draws of a town are most of it."""
    monkeypatch.setattr("postprocess.linear.draws.DRAWN_BYTES", 1e6)
    monkeypatch.setattr("postprocess.linear.draws.PUBLISHED_BYTES", 1e6)
    without = memory(tmp_path, 0, 1)
    one, two, four = (memory(tmp_path, 10, workers) for workers in (1, 2, 4))
    assert one > 2 * without
    assert two - one > 2 * (one - without)
    assert four - two == pytest.approx(two - one)
    assert memory(tmp_path, 20, 1) == one
    detail = ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county"] }')
    total = ('total = "total"\nsex', 'total = { query = "total", levels = ["county"] }\nsex')
    assert memory(tmp_path, 10, 1, detail, total) < 0.7 * one
