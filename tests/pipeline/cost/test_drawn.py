"""Memory of joint draws: by what is drawn of which table at which level, in each process."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import write_town

from geography.spine import Spine
from pipeline.cost.memory import memory_of
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def opened(folder: Path, *changes: tuple[str, str]) -> tuple[ReleaseSpec, Spine]:
    spec = load_spec(write_town(folder, *changes))
    public = open_listed(spec, spec.universes())
    return public.spec, public.spine


def drawn(count: int) -> tuple[str, str]:
    return "replicates = 3\nunbiased = true", f"margins = false\ndraws = {count}"


@pytest.fixture(autouse=True)
def _heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number of a draw takes a megabyte, so that draws of a town are most of it."""
    monkeypatch.setattr("postprocess.linear.draws.DRAWN_BYTES", 1e6)
    monkeypatch.setattr("postprocess.linear.draws.PUBLISHED_BYTES", 1e6)


def test_each_process_holds_one_draw_and_without_draws_there_is_none(tmp_path: Path) -> None:
    spec, spine = opened(tmp_path / "10", drawn(10))
    without = memory_of(*opened(tmp_path / "0", drawn(0)), 1).peak_mb
    one, two, four = (memory_of(spec, spine, workers).peak_mb for workers in (1, 2, 4))
    assert one > 2 * without
    assert two - one > 2 * (one - without)
    assert four - two == pytest.approx(two - one)
    assert memory_of(*opened(tmp_path / "more", drawn(20)), 1).peak_mb == one


def test_a_table_at_blocks_takes_more_than_one_at_counties(tmp_path: Path) -> None:
    above = ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county"] }')
    small = ('total = "total"\nsex', 'total = { query = "total", levels = ["county"] }\nsex')
    at_blocks = memory_of(*opened(tmp_path / "blocks", drawn(10)), 1).peak_mb
    at_counties = memory_of(*opened(tmp_path / "counties", drawn(10), above, small), 1).peak_mb
    assert at_counties < 0.7 * at_blocks
