"""What is retried after a failure, how long after it, and what a run that took too long ends with."""

from __future__ import annotations

from geography.errors import SpinewiseError
from pipeline.execution.interrupts import interruption_of
from pipeline.execution.settings import Settings
from postprocess.errors import SolverError

_LONGEST_DELAY = 3600.0


class TimedOutError(SpinewiseError):
    """A run was stopped since it took longer than the setting `timeout` allows."""


def may_be_retried(error: BaseException) -> bool:
    """Whether the same step may do better the next time.

    A full disk, short memory, a lost worker or a busy ledger may pass. What is wrong with the input, a refused budget
    and a refusal of the records (exit status 2 and 3) is final; so is a solve that did not converge, since it is the
    same each time, and a defect of the program. What arose since the work was interrupted is no failure of a step.
    """
    if interruption_of(error) is not None:
        return False
    if isinstance(error, SpinewiseError):
        return error.exit_status == 1 and not isinstance(error, SolverError)
    return isinstance(error, OSError | MemoryError)


def retry_delays(settings: Settings) -> list[float]:
    """Seconds before each retry: doubled from one to the next."""
    return [min(_LONGEST_DELAY, settings.retry_delay * 2**number) for number in range(settings.retries)]


def timed_out(root: object, timeout: float | None) -> TimedOutError:
    """The error of a run whose time is up."""
    return TimedOutError(f"{root}: stopped after {timeout:g} s, the setting timeout; the same command resumes it")
