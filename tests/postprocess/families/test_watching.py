"""A long solution says how far it is, to whoever listens; it is the same to the last bit whether anybody does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from postprocess.algebra import Basis
from postprocess.families import progress
from postprocess.families.family import Family
from postprocess.families.precisions import Dense
from postprocess.families.progress import Watch, listening
from postprocess.families.solve import solve_families
from postprocess.families.wide import WideArea, positive_cells
from postprocess.marginal import Marginal


def large_family() -> Family:
    """Three children of 450 cells, each with persons in few of them."""
    rng = np.random.default_rng(3)
    truth = rng.poisson(rng.gamma(0.1, 9.0, 450) * rng.gamma(1.0, 0.3, (3, 1))).astype(np.float64)
    truth[0] += truth.sum(axis=0) == 0
    precision = np.eye(450) / 9.0 + 0.2
    noisy = truth + rng.normal(0, 3.0, truth.shape)
    parent = truth.sum(axis=0)
    return Family(
        "county 1", Dense(precision[None]), noisy @ precision, np.broadcast_to(parent, truth.shape), parent, None, None
    )


def wide_area() -> WideArea:
    rng = np.random.default_rng(5)
    queries = [Marginal("total", (np.zeros(12, int), np.zeros(9, int))), Marginal("all", (np.arange(12), np.arange(9)))]
    basis = Basis.of((12, 9), queries)
    truth = rng.poisson(rng.gamma(0.2, 4.0, 108)).astype(np.float64)
    area = WideArea("state 1", basis, basis.precision([(queries[0], 1.0), (queries[1], 4.0)]), truth, truth + 9.0, ())
    return WideArea(area.name, basis, area.blocks, area.times(truth + rng.normal(0, 2.0, 108)), truth + 99.0, ())


@pytest.fixture
def talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)


@pytest.mark.usefixtures("talkative")
def test_steps_and_rounds_are_told_in_order_and_change_nothing() -> None:
    heard: list[tuple[str, str]] = []
    alone = solve_families([large_family()], "auto")[0]
    with listening(lambda what, where: heard.append((what, where))):
        watched = solve_families([large_family()], "auto")[0]
    assert np.array_equal(alone.x, watched.x)
    assert alone.iterations == watched.iterations
    assert {what for what, _ in heard} == {"county 1"}
    steps = [re.fullmatch(r"step ([\d,]+), (\S+) persons off", where) for _, where in heard]
    found = [(int(step[1]), float(step[2])) for step in steps if step is not None]
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert found[-1][1] < found[0][1]
    rounds = [where for _, where in heard if where.startswith("round")]
    assert len(rounds) == watched.iterations
    assert all(re.fullmatch(r"round \d+, limits that are off: \d+", text) for text in rounds)
    before = len(heard)
    solve_families([large_family()], "auto")
    assert len(heard) == before, "nobody listens after the block"


@pytest.mark.usefixtures("talkative")
def test_the_area_at_the_top_tells_its_steps() -> None:
    heard: list[str] = []
    alone = positive_cells(wide_area())
    with listening(lambda what, where: heard.append(f"{what}: {where}")):
        assert np.array_equal(positive_cells(wide_area()), alone)
    assert heard[0].startswith("state 1: step 1, ")
    assert any(text.startswith("state 1: round 1, ") for text in heard)


def test_a_short_solution_says_nothing_and_a_long_one_not_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, heard, asked = [100.0], list[float](), list[float]()
    monkeypatch.setattr("postprocess.families.progress.time.monotonic", lambda: now[0])

    def where() -> str:
        asked.append(now[0])
        return "here"

    with listening(lambda *_: heard.append(now[0])):
        watch = Watch("family")
        while now[0] < 106.0:
            watch.at(where)
            now[0] += 0.25
    assert heard == asked == [103.0, 104.0, 105.0]
    watch.at(where)
    assert asked == heard
