"""The command `spinewise`. Each group of commands is a module of `flows.commands`, imported when it is needed."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, NoReturn

import typer

from flows.commands import (
    audit,
    check,
    compare,
    deploy,
    doctor,
    estimate,
    example,
    export,
    imports,
    key,
    ledger,
    plan,
    query,
    rerun,
    run,
    schema,
    spine,
    validate,
    verify,
)
from flows.execution.interrupts import STATUS, end_on_interrupt, say_stopped
from flows.execution.threads import limit_threads
from geography.errors import SpinewiseError

_HELP = """From confidential census-style records to a protected release.

Counts for every area of a hierarchy, differentially private, whole, not negative, and adding up exactly from every
area to its parent, with the noisy measurements that they were computed from.

Begin with an example:

    spinewise example demo                      a synthetic state, ready to run

    spinewise run demo/release.toml             the release, in releases/example

    spinewise verify releases/example           compute it again from its noisy measurements, and compare

Exit status: 0 done, 1 failure, 2 something given is wrong, 3 refused for lack of budget.
"""

app = typer.Typer(
    name="spinewise",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for module in (
    run,
    plan,
    validate,
    query,
    compare,
    verify,
    check,
    rerun,
    audit,
    deploy,
    doctor,
    key,
    example,
    schema,
    spine,
    export,
    estimate,
):
    module.add_to(app)
app.add_typer(ledger.app)
app.add_typer(imports.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        from pipeline.release.manifest import software

        typer.echo(f"spinewise {software().version}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Options before any command."""


def _end(number: int, _: object) -> NoReturn:
    """End on a signal as at the end of the program, so that workers and a temporary server end too."""
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    limit_threads()
    signal.signal(signal.SIGTERM, _end)
    end_on_interrupt()
    try:
        app()
    except SpinewiseError as error:
        from flows.console import tell_error

        tell_error(error)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        say_stopped()
        sys.exit(STATUS)


if __name__ == "__main__":
    main()
