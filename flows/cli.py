"""The command `spinewise`. The module of a command is imported when it is asked for, those of all for the help."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup

from features.registry import installed_features
from geography.errors import InputError, SpinewiseError
from pipeline.execution.faults import (
    STATUS,
    end_on_interrupt,
    fault_of,
    flush_output,
    interruption_of,
    open_standard_streams,
    say_stopped,
    tell_nothing_more,
)
from pipeline.execution.options import Output
from pipeline.execution.threads import limit_threads

_HELP = """From confidential census-style records to a protected release.

The counts are differentially private, non-negative whole numbers, and the areas of every level add up exactly to their
parents. The noisy measurements that the counts were computed from are published with them.

To begin with an example:

    spinewise example demo                               a synthetic state

    spinewise run demo/release.toml                      its release

    spinewise query releases/example total --at county   people by county

    spinewise verify releases/example                    is it unchanged?

Exit status: 0 success, 1 failure, 2 invalid input, 3 not enough budget, 130 interrupted.
"""


#: The headings under which help lists the commands, and their order; those that are not named stand in the last.
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Make a release": ("run", "plan", "validate", "import", "example"),
    "Use one": ("query", "compare", "export", "fitness"),
    "Trust one": ("verify", "audit", "sign", "ledger", "key"),
    "Operate": ("deploy", "worker"),
    "More": ("ask", "update", "series"),
}
#: The commands of the core, and their modules in `flows.commands`.
_CORE: Final = {
    "run": "run",
    "validate": "validate",
    "query": "query",
    "update": "update",
    "compare": "compare",
    "verify": "verify",
    "deploy": "deploy",
    "worker": "deploy",
    "key": "key",
    "sign": "key",
    "ledger": "ledger",
}


class _Command(TyperCommand):
    """A command whose files are looked at before anything is done: no pipe is waited for, and no device read.

    Where one of several arguments is missing, the message says which are needed, and what stands for the others; of an
    option of the program or of a group it says where that stands.
    """

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; typer.BadParameter or InputError where they do not fit."""
        own = {option for one in self.params for option in one.opts}
        above = context.parent
        while above is not None:
            options = {option for one in above.command.params for option in one.opts} - own
            if before := [word for word in args if word.partition("=")[0] in options]:
                raise InputError(f"{before[0]} stands before the command: {above.command_path} {before[0]} ...")
            above = above.parent
        try:
            return super().parse_args(context, args)
        except typer.BadParameter as error:
            needed = [one for one in self.params if isinstance(one, TyperArgument) and one.required]
            if error.message or error.param not in needed or len(needed) < 2:
                raise
            given = {str(one.metavar or one.name): context.params.get(one.name or "") for one in needed}
            taken = [f"{value} was taken as {name}" for name, value in given.items() if value is not None]
            error.message = "; ".join([f"Needed are {' and '.join(given)}, in this order", *taken])
            raise

    def invoke(self, context: Any) -> Any:
        """Refuse paths that are neither regular files nor folders; then run the command."""
        from pipeline.storage.paths import check_not_special

        for parameter in self.params:
            given = context.params.get(parameter.name or "")
            for path in given if isinstance(given, list | tuple) else [given]:
                if isinstance(path, Path):
                    option = parameter.opts[-1]
                    check_not_special(path, f"{option} " if option.startswith("-") else "")
        return super().invoke(context)


def _check_files_of(group: typer.Typer) -> None:
    """Have every command of a group, and of the groups in it, look at the files that it is given."""
    for command in group.registered_commands:
        command.cls = _Command
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _check_files_of(inner.typer_instance)


class _Commands(Mapping[str, Any]):
    """The commands by name, those of features that are installed too; each is made when it is asked for."""

    def __init__(self) -> None:
        features = {name: module for one in installed_features() for name, module in one.commands.items()}
        self._modules = {name: f"flows.commands.{module}" for name, module in _CORE.items()} | features
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            own = typer.Typer(rich_markup_mode=None)
            import_module(self._modules[name]).add_to(own)
            _check_files_of(own)
            self._made[name] = typer.main.get_group(own).commands[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


class _Group(TyperGroup):
    """The commands, listed under headings."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        commands: Any = _Commands()  # of which typer only reads
        self.commands = commands

    def format_commands(self, context: Any, formatter: Any) -> None:
        """Write the list of commands, as help shows it."""
        shown = {
            name: command
            for name in self.list_commands(context)
            if (command := self.get_command(context, name)) is not None and not command.hidden
        }
        longest = max(map(len, shown))
        named = {name for group in GROUPS.values() for name in group}
        for heading, group in GROUPS.items():
            rest = [name for name in shown if name not in named] if heading == "More" else []
            rows = [
                (name.ljust(longest), shown[name].get_short_help_str(formatter.width - longest - 6))
                for name in (*group, *rest)
                if name in shown
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


app = typer.Typer(
    name="spinewise",
    cls=_Group,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from pipeline.release.software import software

        typer.echo(f"spinewise {software().version}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - what is called back for it ends the program
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result and errors: no progress, no remarks.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print a line for each step, with its time and memory, and the log.")
    ] = False,
) -> None:
    """Options before any command."""
    context.obj = Output(quiet, verbose)


def _end(number: int, _: object) -> NoReturn:
    """End on a signal as at the end of the program, so that workers and a temporary server end too."""
    tell_nothing_more()
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; ends the process with the exit status."""
    limit_threads()
    open_standard_streams()
    signal.signal(signal.SIGTERM, _end)
    status = _status()
    if (problem := flush_output()) is not None:
        status = _report(problem, status or 1)
    sys.exit(status)


def _status() -> int:
    """Run the command line, report any error, and return the exit status. A defect of the program is raised."""
    try:
        end_on_interrupt()  # an interrupt may come before this has ended
        _check_empty(sys.argv[1:])
        app()
    except SystemExit as end:
        if end.code in (STATUS, 128 + signal.SIGTERM):  # typer makes the first of an interrupt; both say nothing
            say_stopped()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        say_stopped()
        return STATUS
    except Exception as error:
        if (interruption := interruption_of(error)) is not None:
            say_stopped()
            code = interruption.code if isinstance(interruption, SystemExit) else STATUS
            return code if isinstance(code, int) else STATUS
        if isinstance(error, SpinewiseError):
            from pipeline.execution.console import tell_error

            with suppress(OSError):
                tell_error(error)
            return error.exit_status
        from pipeline.missing import missing_packages

        if (missing := missing_packages(error)) is not None:
            return _report(missing, 2)
        if (fault := fault_of(error)) is None:
            raise
        return _report(*fault)
    return 0


def _check_empty(words: Sequence[str]) -> None:
    """InputError where an argument is an empty text, as a variable that is not set gives: a path of "" would be "."."""
    for before, word in zip(["", *words], words, strict=False):
        is_option = word.startswith("--") and word.endswith("=") and word.count("=") == 1
        if word and not is_option:
            continue
        option = word[:-1] if is_option else before if before.startswith("-") and before.strip("-") else "an argument"
        raise InputError(f"{option}: found an empty text; a value is needed (is a variable of the shell not set?)")


def _report(problem: str, status: int) -> int:
    with suppress(OSError):
        sys.stderr.write(f"Error: {problem}\n")
        sys.stderr.flush()
    return status


if __name__ == "__main__":
    main()
