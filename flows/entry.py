"""Where the command `spinewise` begins: Ctrl-C ends it without a word while it is still being imported."""

from __future__ import annotations

import signal
from importlib import import_module


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("flows.cli").main()


if __name__ == "__main__":
    main()
