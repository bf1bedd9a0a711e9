"""Where the command `spinewise` begins: Ctrl-C ends it without a word while it is still being imported."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

from pipeline.execution.machine_faults import fault_of, limit_below_libraries


def main() -> None:
    """Run the command line; ends the process with the exit status."""
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


def _stop(message: str, status: int) -> NoReturn:
    with suppress(OSError):
        sys.stderr.write(f"Error: {message}\n")
    sys.exit(status)


if __name__ == "__main__":
    main()
