"""Where the command `spinewise` begins: a run says that it starts, and Ctrl-C ends it without a word while it loads."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from pipeline.execution.faults import fault_of, limit_below_libraries
from pipeline.execution.threads import spare_garbage_collection


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    _say_starting(sys.argv[1:])
    spare_garbage_collection()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    if (limit := limit_below_libraries()) is not None:
        _stop(limit, 1)
    try:
        begin = import_module("flows.cli").main
    except (ImportError, OSError, MemoryError, RuntimeError, SystemError) as error:
        if (fault := fault_of(error)) is None:
            raise
        _stop(*fault)
    begin()


def _say_starting(words: Sequence[str]) -> None:
    """Have something on the terminal while a run imports libraries; whatever comes next stands in its place."""
    if words[:1] == ["run"] and not {"-h", "--help"} & set(words):
        with suppress(AttributeError, OSError, ValueError):  # there may be no stderr
            if sys.stderr.isatty():
                sys.stderr.write("starting\r")
                sys.stderr.flush()


def _stop(message: str, status: int) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"Error: {message}\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
