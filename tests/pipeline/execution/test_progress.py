"""Work is added up by steps; what was done before counts for nothing in the time that is left."""

from __future__ import annotations

import math

import pytest

from pipeline.execution.progress import Counted, Silent, Together, listener_of, shown_time
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


def test_nothing_is_said_of_the_time_before_a_hundredth_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: now)
    count = Counted()
    count.begin((Step("count", lambda: None, geounits=1000, effort=1.0),))
    count.start(Step("count", lambda: None, geounits=1000, effort=1.0))
    now = 5.0
    count.advance(9)
    assert count.seconds_left is None
    count.advance(11)
    assert count.seconds_left == pytest.approx(5 * 980 / 20)


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


def test_together_passes_everything_on_in_order() -> None:
    class Heard(Silent):
        def __init__(self) -> None:
            self.calls: list[tuple[object, ...]] = []

        def begin(self, steps: tuple[Step, ...]) -> None:
            self.calls.append(("begin", len(steps)))

        def start(self, step: Step) -> None:
            self.calls.append(("start", step.name))

        def advance(self, geounits: int) -> None:
            self.calls.append(("advance", geounits))

        def finish(self, step: Step, *, skipped: bool = False) -> None:
            self.calls.append(("finish", step.name, skipped))

        def close(self) -> None:
            self.calls.append(("close",))

    heard = [Heard(), Heard()]
    together = Together(*heard)
    together.begin(STEPS)
    together.start(STEPS[0])
    together.advance(3)
    together.finish(STEPS[0], skipped=True)
    together.close()
    expected = [("begin", 3), ("start", "count"), ("advance", 3), ("finish", "count", True), ("close",)]
    assert [listener.calls for listener in heard] == [expected, expected]


@pytest.mark.parametrize(("seconds", "text"), [(42, "42 s"), (99.6, "100 s"), (720, "12 min"), (12600, "3.5 h")])
def test_times_are_shown_in_their_unit(seconds: float, text: str) -> None:
    assert shown_time(seconds) == text


class Telling(Silent):
    """Takes note of what it is told within a step."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def within(self, what: str, where: str) -> None:
        self.heard.append((what, where))


def test_what_is_told_within_a_step_goes_to_those_who_show_it() -> None:
    telling = Telling()
    assert listener_of(Silent()) is None
    listener = listener_of(Together(Silent(), telling))
    assert listener is not None
    listener("family", "step 7")
    assert telling.heard == [("family", "step 7")]
