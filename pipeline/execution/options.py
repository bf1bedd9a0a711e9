"""The options that several commands share, each stated once; the effect of `--quiet`, `--verbose` and `--json`."""

from __future__ import annotations

import json as library
import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pipeline.execution.steps import Progress

SpecArgument = Annotated[
    Path, typer.Argument(help="The release spec, a TOML file.", metavar="SPEC", show_default=False)
]
ReleaseArgument = Annotated[
    Path, typer.Argument(help="The directory of a release.", metavar="RELEASE_DIR", show_default=False)
]
WorkersOption = Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: all cores]")]
DataOption = Annotated[
    Path | None,
    typer.Option(help="Records to use instead of the spec's: a file, or a folder with files of the same names."),
]
OutOption = Annotated[
    Path | None, typer.Option(help="Folder in which to create the release's directory. [default: releases]")
]
PeriodOption = Annotated[
    str | None,
    typer.Option(metavar="PERIOD", help="Which release of a [series], such as 2031; its predecessors are in OUT."),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        envvar="SPINEWISE_LEDGER",
        help="The ledger: a file, sqlite:///PATH or postgresql://USER@HOST/DATABASE; default: one of the user's own.",
    ),
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="The master key: file:PATH, fd:NUMBER (an open file descriptor) or command:COMMAND (prints it, such as a "
        "query to a vault; run without a shell). [default: the run's own, restricted/key]",
        show_default=False,
    ),
]
SignKeyOption = Annotated[
    str | None,
    typer.Option(
        metavar="SOURCE",
        help="The key to sign with, made by spinewise key sign-new: file:PATH, fd:NUMBER or command:COMMAND.",
    ),
]
SignedByOption = Annotated[
    Path | None, typer.Option(metavar="PUBLIC_KEY_FILE", help="Public key whose signature is required.")
]
CombinedWithOption = Annotated[
    Path | None,
    typer.Option(
        "--release",
        metavar="RELEASE_DIR",
        help="Of a combined answer: the release. [default: where run has put it]",
        show_default=False,
    ),
]
CentralOption = Annotated[
    Path | None,
    typer.Option(
        metavar="RELEASE_DIR",
        help="Of a release from reports that uses counts of a central release: that release, to compare them with it.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@dataclass(frozen=True)
class Output:
    """How much a command prints, and in which form. Results go to stdout, everything else to stderr.

    `--quiet` and `--verbose` are options of the program, before the command: what they say is the context's object.

    Raises:
        InputError: both quiet and verbose output are requested.
    """

    quiet: bool = False
    verbose: bool = False
    json: bool = False

    def __post_init__(self) -> None:
        from pipeline.errors import InputError

        if self.quiet and self.verbose:
            raise InputError("found --quiet and --verbose; one of the two is allowed")
        if self.verbose:
            logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")

    @classmethod
    def of(cls, context: typer.Context, *, json: bool = False) -> Output:
        """That of a command."""
        asked = context.obj
        assert isinstance(asked, cls)
        return replace(asked, json=json)

    def progress(self) -> Progress:
        """Shows the progress of the command, as the options request."""
        from pipeline.execution.console import make_progress
        from pipeline.execution.steps import Silent

        return Silent() if self.quiet else make_progress(lines=self.verbose)

    def remark(self, text: str) -> None:
        """Print something worth knowing that is not an error."""
        from pipeline.execution.console import error_console

        if not self.quiet:
            error_console().print(text)

    def result(self, text: str, content: object) -> None:
        """Print the result, as text or as JSON.

        Args:
            content: JSON.
        """
        typer.echo(library.dumps(content, indent=1, ensure_ascii=False) if self.json else text)
