"""The command line teaches, starts fast, and ends with the exit status that its help states."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from flows.cli import app

PROJECT = Path(__file__).resolve().parents[2]


def spinewise(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flows.cli", *map(str, arguments)],
        cwd=PROJECT,
        env={**os.environ, "COLUMNS": "120", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_help_is_fast_and_has_examples() -> None:
    before = os.times()
    shown = spinewise("--help")
    after = os.times()
    # Core seconds, since others are at work too: 0.2 of them; the imports are what is tested below.
    assert after.children_user + after.children_system - before.children_user - before.children_system < 5
    assert shown.returncode == 0
    assert "spinewise example demo" in shown.stdout
    for command in ("run", "verify", "example", "key"):
        assert command in shown.stdout
        text = spinewise(command, "--help").stdout
        assert f"spinewise {command}" in text
        assert "Example:" in text


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


def test_version_and_schema_go_to_stdout() -> None:
    assert spinewise("--version").stdout.startswith("spinewise ")
    assert json.loads(spinewise("validate", "--schema").stdout)["title"] == "Spinewise release spec"


def test_an_example_prints_the_path_of_its_spec(tmp_path: Path) -> None:
    shown = spinewise("example", tmp_path / "demo", "--people", 500, "--seed", 3)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == f"{tmp_path / 'demo' / 'release.toml'}\n"
    again = spinewise("example", tmp_path / "demo")
    assert (again.returncode, again.stdout) == (2, "")
    assert "give one that is new or empty" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "nothing.toml"), "Error: nothing.toml: no such file; a spec in TOML is needed\n"),
        (("run", "{town}", "--data", "nowhere"), "Error: --data nowhere: no such file or folder\n"),
        (("run", "{town}", "--key", "file:nowhere"), "one key is allowed, remove one of the two"),
        (("run", "{town}", "--workers", "0"), "Input should be greater than or equal to 1"),
        (("run",), "Missing argument"),
        (
            ("compare", "town"),
            "Error: Missing argument 'SECOND'. Needed are FIRST and SECOND, in this order; town was taken as FIRST\n",
        ),
        (("compare", "--json"), "Error: Missing argument 'FIRST'. Needed are FIRST and SECOND, in this order\n"),
        (("validate", "--json"), "Missing argument 'SPEC'"),
        (("verify", "{folder}"), "no finished release is here"),
        (("walk",), "No such command 'walk'"),
    ],
)
def test_bad_input_is_one_clear_message_and_status_2(
    town_spec: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    shown = spinewise(*(part.format(town=town_spec, folder=tmp_path) for part in arguments))
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert message in shown.stderr
    assert "Traceback" not in shown.stderr
