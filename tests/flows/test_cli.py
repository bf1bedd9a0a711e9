"""The command line teaches, starts fast, and ends with the exit status that its help states."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from releases.command import environment, spinewise

from flows.cli import app


def test_every_command_and_group_stands_alone_with_an_example() -> None:
    """Each help says what the command does and shows a call of it, with options that it has."""
    waiting: list[tuple[str, Any]] = [("spinewise", typer.main.get_command(app))]
    seen = 0
    while waiting:
        name, command = waiting.pop()
        below = getattr(command, "commands", {})
        waiting += [(f"{name} {each}", found) for each, found in below.items() if not found.hidden]
        told = command.help or ""
        lines = [line.strip() for line in told.splitlines() if line.strip().startswith(name)]
        assert lines, f"{name}: no example"
        if not below:
            known = {option for parameter in command.params for option in parameter.opts}
            for line in lines:
                used = {word for word in shlex.split(line)[1:] if word.startswith("--")}
                assert used <= known, f"{name}: {line}"
        seen += 1
    assert seen > 15


def test_help_is_there_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, flows.cli; sys.argv = ['spinewise', '--help']\ntry: flows.cli.main()\nfinally: "
        "sys.stderr.write(str([m for m in ('numpy', 'pandas', 'prefect', 'pydantic') if m in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "spinewise example demo" in found.stdout
    assert found.stderr == "[]"


#: What a user types wrongly, and what is told of it.
SLIPS = (
    (("run", "nothing.toml"), "Error: nothing.toml: no such file"),
    (("run", "{town}", "--data", "nowhere"), "--data nowhere: no such file or folder"),
    (("run", "{town}", "--key", "file:nowhere"), "one key is allowed, remove one of the two"),
    (("run", "{town}", "--workers", "0"), "Input should be greater than or equal to 1"),
    (("run",), "Missing argument"),
    (("compare", "town"), "Needed are FIRST and SECOND, in this order; town was taken as FIRST"),
    (("compare", "--json"), "Missing argument 'FIRST'. Needed are FIRST and SECOND, in this order"),
    (("validate", "--json"), "Missing argument 'SPEC'"),
    (("verify", "{folder}"), "no finished release is here"),
    (("key", "sign-new", "{folder}", "--name", "a.example/b"), "is a folder; give a new file"),
    (("walk",), "No such command 'walk'"),
    (("run", "spec.toml", "--quiet"), "--quiet stands before the command: "),
    (("key", "new", "k", "-v"), "-v stands before the command: "),
    (("ledger", "show", "--ledger=x"), "--ledger=x stands before the command: "),
)


def test_bad_input_is_one_clear_message_and_status_2(town_spec: Path, tmp_path: Path) -> None:
    for arguments, message in SLIPS:
        shown = spinewise(*(part.format(town=town_spec, folder=tmp_path) for part in arguments), cwd=tmp_path)
        assert (shown.returncode, shown.stdout) == (2, ""), arguments
        assert message in " ".join(shown.stderr.split()), arguments
        assert "Traceback" not in shown.stderr


def commands(group: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Each command below a group, and the group itself, by its words."""
    yield name, group
    for each, below in getattr(group, "commands", {}).items():
        yield from commands(below, f"{name} {each}".strip())


def test_no_secret_is_an_argument_and_no_option_is_of_an_older_form() -> None:
    """What holds of a key holds of all: one option names its source; a result has one option for its form."""
    for name, command in commands(typer.main.get_command(app)):
        options = {option for one in command.params for option in one.opts}
        assert not any(option.endswith(("key-file", "key-fd", "key-command")) for option in options), name
        assert "--format" not in options or options.isdisjoint({"--json", "--csv"}), name


#: Begins the command, and tells at its first words which libraries have been loaded by then.
_BEGIN = """
import sys
written = sys.stderr.write
def write(text):
    written(text)
    loaded = [name for name in ("numpy", "typer", "pydantic", "pyarrow", "flows.cli") if name in sys.modules]
    written("".join(f"[{name}]" for name in loaded))
    sys.stderr.flush()
    sys.exit()
sys.stderr.write = write
from flows.entry import main
main()
"""


def said(*words: str, terminal: bool) -> str:
    """What the command writes to stderr first, with the libraries that had been loaded."""
    if terminal:
        ours, theirs = pty.openpty()
    else:
        ours, theirs = os.pipe()
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _BEGIN, *words],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, theirs, 2)],
    )
    os.close(theirs)
    found = b""
    try:
        while more := os.read(ours, 1000):
            found += more
    except OSError:  # the terminal was closed at its other end
        pass
    os.waitpid(process, 0)
    os.close(ours)
    return found.decode()


def test_a_run_says_on_a_terminal_that_it_starts_before_any_library_is_loaded() -> None:
    assert said("run", "spec.toml", terminal=True) == "starting\r"


def test_elsewhere_the_first_words_are_those_of_the_command() -> None:
    """Here the message of a file that is not there, for which libraries were needed."""
    for words, terminal in (("run nothing.toml", False), ("--quiet run nothing.toml", True), ("verify nothing", True)):
        found = said(*words.split(), terminal=terminal)
        assert ("starting" in found, "[typer]" in found) == (False, True), words
