"""A command in this process, as a user would call it, with a watch for hangs; and what every end has to be like."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from unittest.mock import patch

import typer.main

import flows.cli
from oracles.how_many import seed_of
from pipeline.execution.faults import STATUS

#: Seconds that one input may take.
PATIENCE = 120
_command = typer.main.get_command(flows.cli.app)


class Hangs(BaseException):
    """An input keeps a command busy, or waiting, for too long. No handler of the program's own catches it."""


@contextlib.contextmanager
def watched(seconds: int | None = None) -> Iterator[None]:
    """Raises Hangs if the block takes longer than `PATIENCE`, or the seconds given."""
    patience = PATIENCE if seconds is None else seconds

    def late(_number: int, _frame: FrameType | None) -> None:
        raise Hangs(f"no end after {patience} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(patience)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def spinewise(*words: object) -> tuple[int, str]:
    """The exit status of a command line, and all that it prints; a defect of the program goes through."""
    printed = io.StringIO()
    with (
        watched(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        patch.object(sys, "argv", ["spinewise", *map(str, words)]),
        patch.object(sys, "stdin", io.StringIO()),
        patch.object(flows.cli, "app", _command),
    ):
        status = flows.cli._status()
    return status, printed.getvalue()


def ends_well(status: int, printed: str) -> None:
    """Success, or one of the statuses with a message that is no traceback."""
    assert status in (0, 1, 2, 3), (status, printed)
    assert status != STATUS
    assert "Traceback (most recent call last)" not in printed, printed
    if status:
        assert printed.strip(), status
        if "Error: " in printed:
            message = printed.rsplit("Error: ", 1)[1].strip()
            assert message, printed
            assert message not in ("None", "()"), printed


def for_each_number(kind: str, sizes: dict[str, int], each: Callable[[int], object], first: int | None = None) -> None:
    """Call `each` with so many numbers; a failure names the kind and the number, which give the input again.

    The first number is `first`, or that of `seed_of`.
    """
    first = seed_of(sizes) if first is None else first
    for number in range(first, first + sizes[kind]):
        try:
            each(number)
        except (Exception, Hangs) as error:
            error.add_note(f"{kind}, number {number}")
            raise
