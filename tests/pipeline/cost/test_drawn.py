"""Memory of joint draws: by what is drawn of which table at which level, in each process."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import write_town

from pipeline.cost.memory import memory_of
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import load_spec


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
