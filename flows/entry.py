"""Where the command `spinewise` begins: Ctrl-C ends it without a word while it is still being imported."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from importlib import import_module

from pipeline.execution.machine_faults import fault_of


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        begin = import_module("flows.cli").main
    except (ImportError, OSError, MemoryError, RuntimeError, SystemError) as error:
        if (fault := fault_of(error)) is None:
            raise
        with suppress(OSError):
            sys.stderr.write(f"Error: {fault[0]}\n")
        sys.exit(fault[1])
    begin()


if __name__ == "__main__":
    main()
