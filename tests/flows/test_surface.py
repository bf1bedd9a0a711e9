"""The surface of the command line: how many names, commands and options there are to learn, and that each is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from releases.command import spinewise

from flows.cli import app

#: Names after `spinewise`; commands; options, counted for each command, without --help.
MOST = (20, 32, 190)
#: Options that several commands share and must mean the same, word by word.
SHARED = ("--json", "--sign-key", "--period")


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each command below a group, and the group itself, by its words."""
    yield name, group
    for each, below in getattr(group, "commands", {}).items():
        yield from commands(below, f"{name} {each}".strip())


def test_there_is_no_more_to_learn() -> None:
    group: Any = typer.main.get_command(app)
    found = dict(commands(group))
    options = [
        one
        for command in found.values()
        for one in command.params
        if one.param_type_name == "option" and "--help" not in one.opts
    ]
    leaves = [name for name, command in found.items() if not hasattr(command, "commands")]
    counted = (len(group.commands), len(leaves), len(options))
    assert all(number <= most for number, most in zip(counted, MOST, strict=True)), counted
    for name in SHARED:
        assert len({one.help for one in options if name in one.opts}) == 1, name


def test_no_secret_is_an_argument_and_no_option_is_of_an_older_form() -> None:
    """What holds of a key holds of all: one option names its source; a result has one option for its form."""
    for name, command in commands(typer.main.get_command(app)):
        options = {option for one in command.params for option in one.opts}
        assert not any(option.endswith(("key-file", "key-fd", "key-command")) for option in options), name
        assert "--format" not in options or options.isdisjoint({"--json", "--csv"}), name


@pytest.mark.parametrize(
    ("words", "after"),
    [("run spec.toml --quiet", " --quiet"), ("key new k -v", " -v"), ("ledger show --ledger=x", " ledger --ledger=x")],
)
def test_an_option_after_the_command_is_told_its_place(words: str, after: str) -> None:
    done = spinewise(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: {words.split()[-1]} stands before the command: ")
    assert done.stderr.endswith(f"{after} ...\n")
