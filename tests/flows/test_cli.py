"""The command line teaches, starts fast, and ends with the exit status that its help states."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from oracles.command_lines import commands
from releases.command import environment, spinewise


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


def test_no_secret_is_an_argument_and_no_option_is_of_an_older_form() -> None:
    """What holds of a key holds of all: one option names its source; a result has one option for its form."""
    for name, command in commands():
        options = {option for one in command.params for option in one.opts}
        assert not any(option.endswith(("key-file", "key-fd", "key-command")) for option in options), name
        assert "--format" not in options or options.isdisjoint({"--json", "--csv"}), name
