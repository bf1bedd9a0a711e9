"""Where the command `spinewise` begins: Ctrl-C ends it without a word while it is still being imported."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from flows.cli import main as run

    run()


if __name__ == "__main__":
    main()
