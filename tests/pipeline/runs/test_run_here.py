"""A run without an engine: retries, the limit of time and the command line are those of the Prefect way."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from releases.small import QUICK, public_bytes, request_of, run, write_town

from pipeline.errors import RecordsError
from pipeline.execution.progress import Silent
from pipeline.execution.retries import TimedOutError
from pipeline.execution.settings import load_settings
from pipeline.execution.steps import Notes, Step
from pipeline.execution.workers import WorkerError
from pipeline.runs.run_here import retrying, run_here
from postprocess.errors import SolverError


class Failing:
    """A step's work that fails a number of times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    def __call__(self) -> Notes | None:
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        return {"tries": self.tries}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that are waited, without waiting."""
    seconds: list[float] = []
    monkeypatch.setattr("pipeline.runs.run_here.time.sleep", seconds.append)
    return seconds


def test_what_may_pass_is_retried(waits: list[float], caplog: pytest.LogCaptureFixture) -> None:
    work = Failing(WorkerError("planted text"), times=2)
    assert retrying(load_settings(retries=3, retry_delay=4))(Step("estimate", work, level="block")) == {"tries": 3}
    assert waits == [4, 8]
    assert "estimate block: WorkerError; retried in 4 s" in caplog.text
    assert "planted" not in caplog.text


@pytest.mark.parametrize(
    ("error", "retries", "tries"),
    [(RecordsError("wrong"), 3, 1), (SolverError("no"), 3, 1), (OSError("busy"), 2, 3), (OSError("busy"), 0, 1)],
)
def test_what_is_final_is_not(error: Exception, retries: int, tries: int, waits: list[float]) -> None:
    work = Failing(error, times=9)
    with pytest.raises(type(error)):
        retrying(load_settings(retries=retries))(Step("estimate", work))
    assert work.tries == tries
    assert len(waits) == tries - 1


def _in_a_thread(function: Callable[[], object]) -> BaseException | None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            function()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join(60)
    return raised[0] if raised else None


@pytest.mark.slow
def test_the_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the main thread within a step, elsewhere between two; the run is resumed after it."""
    checked = request_of(write_town(tmp_path / "town", *QUICK), tmp_path / "out")
    before = signal.getsignal(signal.SIGALRM)
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.confidential.parts.tabulate_universe", lambda *_: time.sleep(600))
        began = time.monotonic()
        with pytest.raises(TimedOutError, match=r"out/town: stopped after 0.2 s, the setting timeout; the same"):
            run_here(checked, Silent(), load_settings(timeout=0.2))
        assert time.monotonic() - began < 120
    assert signal.getsignal(signal.SIGALRM) is before
    assert isinstance(_in_a_thread(lambda: run_here(checked, Silent(), load_settings(timeout=0.05))), TimedOutError)
    resumed = run_here(checked, Silent(), load_settings())
    assert public_bytes(resumed) == public_bytes(run(checked.request.spec, tmp_path / "other"))


@pytest.mark.slow
@pytest.mark.parametrize("after", [ValueError("a half-written file"), OSError("a half-written file")])
def test_an_error_of_what_was_interrupted_is_the_end_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: Exception
) -> None:
    """What closes a file that is half written may raise an error in place of the interruption; it is not retried."""
    tries: list[float] = []

    def write(*_: object, **__: object) -> None:
        tries.append(time.monotonic())
        signal.setitimer(signal.ITIMER_REAL, 0.1)  # the time is over now, however long it took to come here
        try:
            time.sleep(600)
        finally:
            raise after

    monkeypatch.setattr("pipeline.execution.batch_store.np.savez", write)
    checked = request_of(write_town(tmp_path / "town", *QUICK), tmp_path / "out")
    with pytest.raises(TimedOutError, match=r"out/town: stopped after 900 s, the setting timeout; the same"):
        run_here(checked, Silent(), load_settings(timeout=900, retries=5, retry_delay=9))
    assert len(tries) == 1
