"""Ctrl-C: one line and status 130 within two seconds, whatever the run is doing; workers print nothing.

A terminal sends the signal to every process of the foreground group. Processes that work for a run are started with
the signal blocked, which they inherit; the run itself ends them.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

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
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
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
    if threading.current_thread() is not threading.main_thread() or not hasattr(os, "set_blocking"):
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
