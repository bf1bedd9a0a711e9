"""Work is added up by steps; what was done before counts for nothing in the time that is left."""

from __future__ import annotations

import pytest

from pipeline.execution.progress import Counted, Silent, Together, shown_time
from pipeline.execution.steps import Step

STEPS = (
    Step("count", lambda: None, geounits=10, effort=1.0),
    Step("estimate", lambda: None, geounits=20, effort=2.0),
    Step("write", lambda: None, geounits=50, effort=1.0),
)


def test_share_follows_geounits_times_effort() -> None:
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
    clock = iter([100.0, 100.0, 130.0])
    monkeypatch.setattr("pipeline.execution.progress.time.monotonic", lambda: next(clock))
    count = Counted()
    count.begin(STEPS)
    count.start(STEPS[0])
    count.finish()
    assert count.seconds_left == pytest.approx(30 * 90 / 10)


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
