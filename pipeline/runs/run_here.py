"""A run in this process, without an engine: steps are retried and the time is limited according to the settings."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from pipeline.confidential.process import MeasuringProcess
from pipeline.execution.faults import interruption_of, may_be_retried, retry_delays, timed_out
from pipeline.execution.settings import Settings
from pipeline.execution.steps import Notes, Perform, Progress, Step
from pipeline.runs.finished import is_finished
from pipeline.runs.request import CheckedRequest

logger = logging.getLogger("spinewise.flows")


@contextmanager
def measuring_process(checked: CheckedRequest) -> Iterator[MeasuringProcess]:
    """A process of its own for the block, to which tables in the memory of this one are sent.

    The key is read at once, and the names of the records' columns are looked at, so that a mistake is found before
    anything else begins; both there, since a look at the columns leaves records in memory. What the run itself needs is
    imported here while the process imports what it needs.

    Raises:
        InputError: there is no key where the request says that it is, or the records lack a column.
    """
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        if not checked.run.finished.is_file():  # otherwise there may be nothing to do
            import_module("pipeline.runs.run")
            if checked.spec.postprocess.solver == "cvxpy":
                import_module("cvxpy")
        process.identity()
        process.refuse_missing_columns(checked.universes)
        yield process


class _TimeIsUp(BaseException):  # not an Exception, so that no step takes it for a failure of its own
    pass


def run_here(checked: CheckedRequest, progress: Progress, settings: Settings) -> Path:
    """Run a release, or resume one that was interrupted; returns the directory of the release.

    Raises:
        SpinewiseError: as `run_release`.
        TimedOutError: it took longer than the settings allow.
    """
    limit = settings.timeout
    try:
        with _time_limit(limit), measuring_process(checked) as measured:
            if is_finished(checked, measured):
                progress.found()
                return checked.run.root
            from pipeline.runs.run import run_release  # imported while the process starts

            return run_release(checked, progress, retrying(settings), measured)
    except BaseException as error:
        if not isinstance(interruption_of(error), _TimeIsUp):
            raise
    finally:
        progress.close()
    raise timed_out(checked.run.root, limit)  # here, where it is no error of what was interrupted


def retrying(settings: Settings) -> Perform:
    """A performer of steps in this process that retries where that may help, as often and late as the settings say."""
    delays = retry_delays(settings)
    ends = None if settings.timeout is None else time.monotonic() + settings.timeout

    def perform(step: Step) -> Notes | None:
        if ends is not None and time.monotonic() > ends:  # where no signal can interrupt
            raise _TimeIsUp
        for delay in delays:
            try:
                return step.perform()
            except Exception as error:
                if not may_be_retried(error):
                    raise
                # The type alone: the text of an error may show what is in the records.
                logger.warning("%s: %s; retried in %g s", step.name, type(error).__name__, delay)
            time.sleep(delay)
        return step.perform()

    return perform


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Stop the block after the given number of seconds; only the main thread can be stopped within a step."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
