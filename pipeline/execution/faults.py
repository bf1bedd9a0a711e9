"""How work ends before it is done: faults of the machine and the shell as a line; Ctrl-C; what is tried again after it.

Ctrl-C gives one line and status 130 within two seconds, whatever the run is doing; workers print nothing. A terminal
sends the signal to every process of the foreground group. Processes that work for a run are started with the signal
blocked, which they inherit; the run itself ends them.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final

from geography.errors import SpinewiseError
from postprocess.errors import SolverError

if TYPE_CHECKING:
    from pipeline.execution.settings import Settings

#: What files that a user names can be, through no fault of the program.
_OF_FILES = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ELOOP: "the symbolic links lead round in a circle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "is a folder",
    errno.ENOENT: "does not exist",
    errno.EINVAL: "the name cannot be that of a file",
}
#: What can be wrong with the output, which has no name.
_OF_OUTPUT = (errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


NO_MEMORY: Final = "not enough memory; run the same again with fewer --workers, or where there is more of it"
#: What the loader of libraries, and those that start threads, say where memory is short.
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "bad_alloc", "Unable to allocate")
#: The address space that a run needs with one thread, in bytes, and for each more what the two copies of OpenBLAS map,
#: which have one for each processor, up to a most. OpenBLAS asks for its part while it is loaded; where it does not get
#: it, it asks again without end, so a limit that is too low is told before. Measured with two threads: 640 MB when a
#: run has loaded its libraries, 740 MB in the process of measurements; the smallest run ends from 1,000 MB on.
_LIBRARIES = 920 << 20
_LIBRARIES_OF_A_THREAD = 84 << 20
_MOST_THREADS = 64
#: How far back from an error its causes are looked at.
_DEPTH = 8


def open_standard_streams() -> None:
    """Give a command that was started without output one that refuses what is written, and not a file of its own."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # takes the least number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def fault_of(error: BaseException) -> tuple[str, int] | None:
    """The message and the exit status for an error that is not the program's; None for one that is."""
    if (limit := limit_of(error)) is not None:
        return limit, 1
    if isinstance(error, RecursionError):
        return "something given is nested too deep", 2
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):
        return f"{str(error)[len('Symlink loop from ') :]}: {_OF_FILES[errno.ELOOP]}", 2
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return "a file name with a NUL character was given; no file can have it", 2
    if not isinstance(error, OSError):
        return None
    if error.filename is None:
        return (f"cannot write the output: {error.strerror}", 1) if error.errno in _OF_OUTPUT else None
    reason = _OF_FILES.get(error.errno or 0)
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    return (f"{name}: {reason}", 2) if reason else (f"{name}: {error.strerror}", 1)


def limit_of(error: BaseException) -> str | None:
    """The limit of the machine that an error, or one behind it, tells of: memory, open files, processes."""
    seen: BaseException | None = error
    for _ in range(_DEPTH):
        if seen is None:
            return None
        text = str(seen)
        number = seen.errno if isinstance(seen, OSError) else None
        if isinstance(seen, MemoryError) or number == errno.ENOMEM or any(part in text for part in _NO_MEMORY):
            return NO_MEMORY
        if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in text:
            most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"too many open files: at most {most} can be; run the same again where more are allowed (ulimit -n)"
        if "Resource temporarily unavailable" in text or "can't start new thread" in text:
            return "no further process or thread can be started: memory is short, or more are not allowed (ulimit -u)"
        seen = seen.__cause__ or seen.__context__
    return None


def limit_below_libraries() -> str | None:
    """The message where the limit on a process's address space is one in which the libraries cannot be loaded."""
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    processors = os.cpu_count() or 1
    need = _LIBRARIES + (min(processors, _MOST_THREADS) - 1) * _LIBRARIES_OF_A_THREAD
    if most == resource.RLIM_INFINITY or most >= need:
        return None
    return (
        f"not enough memory: a process may have {most >> 20:,} MB (ulimit -v), and {need >> 20:,} MB are needed with "
        f"{processors} processors; run the same again where more is allowed"
    )


def flush_output() -> str | None:
    """Write what waits to be written; what went wrong, if anything did."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python tries again when it ends, and prints an error.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return None if error.errno == errno.EPIPE else f"cannot write the output: {error.strerror}"
    except ValueError:
        return None
    return None


#: Status of a program that was stopped by Ctrl-C.
STATUS = 130
#: Seconds that a run has to put things in order. Then it ends as if killed; it can be resumed after that too.
_PATIENCE = 0.8

_ending = threading.Event()
_announced = threading.Lock()
_message = "stopped"


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes that are started in the block do not get Ctrl-C; for this one it waits until the block ends."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def interruption_of(error: BaseException) -> BaseException | None:
    """What interrupted the work in which an error arose: Ctrl-C, an end, a limit of time; None where nothing did.

    An interruption is raised between any two steps of Python, and what closes a half-written file after it may raise
    an error of its own in its place.
    """
    seen: BaseException | None = error
    while seen is not None:
        if not isinstance(seen, Exception):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def tell_nothing_more() -> None:
    """The work was interrupted: what else goes wrong from here on, in destructors and threads, is for want of it."""
    sys.unraisablehook = lambda _: None
    threading.excepthook = lambda _: None


def stopping_loses_nothing() -> None:
    """Add to the message of an interrupt that the same command resumes the work."""
    global _message
    _message = "stopped; the same command resumes"


def say_stopped() -> None:
    """Print on stderr that the command was stopped; once, however often this is called."""
    if _announced.acquire(blocking=False):
        with suppress(OSError):
            # Past sys.stderr, which a bar may hold. The bar may stand in this line, and the cursor may be hidden.
            text = f"\r\x1b[2K\x1b[?25h{_message}\n" if os.isatty(2) else f"{_message}\n"
            os.write(2, text.encode())


def end_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt once, and ends this process soon, whatever becomes of that.

    The main thread sees a signal between two steps of Python alone, and may be in a long computation; so a thread of
    its own waits for it too.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell, or under nohup
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGINT, _interrupt)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(reading,), daemon=True, name="interrupts").start()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    if _ending.is_set():
        return
    _ending.set()
    tell_nothing_more()
    raise KeyboardInterrupt


def _wait(reading: int) -> None:
    while signal.SIGINT not in os.read(reading, 64):
        pass
    threading.Event().wait(_PATIENCE)
    say_stopped()
    os._exit(STATUS)


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
