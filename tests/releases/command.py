"""The command line, in a process of its own or in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from features.registry import installed_features
from releases.forked import Forks, needs_start

PROJECT = Path(__file__).resolve().parents[2]


def needs(feature: str) -> pytest.MarkDecorator:
    """Skips a test of the core that also looks at what a feature makes, where the feature's folder is not there."""
    there = feature in {one.name for one in installed_features()}
    return pytest.mark.skipif(not there, reason=f"without features/{feature}")


def feature_module(module: str) -> Any:
    """A module of a feature, by its name; the test of the core that also looks at it is skipped without the feature."""
    return pytest.importorskip(module, reason=f"without {module}")


def environment(**more: str) -> dict[str, str]:
    """This process's, with the project's packages and those of the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")]), **more}


@cache
def forks() -> Forks:
    """The program, loaded once for this process and for those that it forks."""
    return Forks(environment())


def module_in_a_fork(
    *words: object, timeout: float, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a module with arguments in a fork of a process that has imported the program, which saves its start."""
    return forks().run([*map(str, words)], environment(**more), cwd, timeout)


def spinewise(
    *arguments: object, timeout: float = 300, cwd: Path | None = None, fresh: bool = False, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `spinewise` with these arguments; `more` is for the environment.

    In a fork, unless the process is to be a fresh one, or a variable is given that is read at a start.
    """
    more = {"COLUMNS": "120", **more}
    if not fresh and not needs_start(more):
        return module_in_a_fork("flows.cli", *arguments, timeout=timeout, cwd=cwd, **more)
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.run(
        command, env=environment(**more), cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )


def printed(*arguments: object) -> str:
    """What the command prints to stdout, run in this process; raises what it raises."""
    from flows.cli import app

    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout
