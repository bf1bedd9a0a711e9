"""A plan counts what draws cost: by what is drawn of which table at which level, in time and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.cost.model import WORKER_START, cost_of, draw_cost
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def opened(folder: Path, *changes: tuple[str, str]) -> tuple[ReleaseSpec, Spine]:
    spec = load_spec(write_town(folder, *changes))
    public = open_listed(spec, spec.universes())
    return public.spec, public.spine


def drawn(count: int) -> tuple[str, str]:
    return "replicates = 3\nunbiased = true", f"margins = false\ndraws = {count}"


def test_each_draw_costs_the_same_and_none_nothing(tmp_path: Path) -> None:
    costs = [draw_cost(*opened(tmp_path / str(count), drawn(count)), 1) for count in (0, 10, 20)]
    assert costs[0] == (0.0, 0.0)
    assert costs[2][0] == pytest.approx(2 * costs[1][0])
    assert costs[2][1] == costs[1][1] > 0


def test_a_table_at_blocks_costs_more_than_one_at_counties(tmp_path: Path) -> None:
    above = ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county"] }')
    small = ('total = "total"\nsex', 'total = { query = "total", levels = ["county"] }\nsex')
    at_blocks = draw_cost(*opened(tmp_path / "blocks", drawn(10)), 1)
    at_counties = draw_cost(*opened(tmp_path / "counties", drawn(10), above, small), 1)
    assert at_counties[0] < 0.7 * at_blocks[0]


def test_draws_are_part_of_the_cost_of_a_run(tmp_path: Path) -> None:
    with_draws, without = (cost_of(*opened(tmp_path / str(count), drawn(count)), 2) for count in (5000, 0))
    seconds, _ = draw_cost(*opened(tmp_path / "again", drawn(5000)), 2)
    # A town so small has work for other processes only where it draws.
    assert with_draws.core_seconds - without.core_seconds == pytest.approx(seconds + 2 * WORKER_START, abs=1e-9)
    assert with_draws.seconds > without.seconds
    assert with_draws.peak_mb >= without.peak_mb
