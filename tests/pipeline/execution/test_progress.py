"""Work is added up by steps; what was done before counts for nothing in the time that is left."""

from __future__ import annotations

import math

import pytest

from pipeline.execution.progress import Counted
from pipeline.execution.steps import Step

STEPS = (
    Step("count", lambda: None, geounits=10, effort=1.0),
    Step("estimate", lambda: None, geounits=20, effort=2.0),
    Step("write", lambda: None, geounits=50, effort=1.0),
)


def test_share_follows_geounits_times_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: 100.0)
    count = Counted()
    count.begin(STEPS)
    assert (count.share, count.seconds_left) == (0.0, None)
    count.start(STEPS[0])
    count.advance(4)
    assert count.share == pytest.approx(4 / 100)
    assert count.geounits_done == "4 of 10 geounits"
    count.advance(400)
    assert count.share == pytest.approx(10 / 100), "a step is never more than done"
    count.finish()
    count.start(STEPS[1])
    count.advance(5)
    assert count.share == pytest.approx((10 + 2 * 5) / 100)
    count.finish(skipped=True)
    assert count.share == pytest.approx(10 / 60), "the whole is smaller by the step that was done before"
    count.start(STEPS[2])
    count.finish()
    assert count.share == 1.0


def test_time_left_is_at_the_pace_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: now[0])
    count = Counted()
    count.begin(STEPS)
    count.start(STEPS[0])
    now[0] = 130.0
    count.finish()
    assert count.seconds_left == pytest.approx(30 * 90 / 10)


def test_a_step_that_reports_nothing_is_seen_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the pace so far, always forward, and never to its end before it says so."""
    now = [0.0]
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: now[0])
    count = Counted()
    count.begin(STEPS)
    count.start(STEPS[0])
    now[0] = 5.0
    count.finish()  # 10 units of work in 5 s
    count.start(STEPS[1])
    shares = []
    for second in range(6, 600):
        now[0] = float(second)
        shares.append(count.share)
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx((10 + 40 * (1 - math.exp(-2 / 40))) / 100)
    assert shares[-1] <= 50 / 100
    assert shares[-1] > 49 / 100
    count.advance(1)
    assert count.share >= shares[-1], "a bar does not go back"
    count.finish()
    assert count.share == pytest.approx(50 / 100)
