"""The command line, in a process of its own or in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from features.registry import installed_features

PROJECT = Path(__file__).resolve().parents[2]


def needs(feature: str) -> pytest.MarkDecorator:
    """Skips a test of the core that also looks at what a feature makes, where the feature's folder is not there."""
    there = feature in {one.name for one in installed_features()}
    return pytest.mark.skipif(not there, reason=f"without features/{feature}")


def environment(**more: str) -> dict[str, str]:
    """This process's, with the project's packages and those of the tests."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), str(PROJECT / "tests")]), **more}


def spinewise(
    *arguments: object, timeout: float = 300, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run `spinewise` with these arguments; `more` is for the environment."""
    command = [sys.executable, "-m", "flows.cli", *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment(**{"COLUMNS": "120", **more}),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def printed(*arguments: object) -> str:
    """What the command prints to stdout, run in this process; raises what it raises."""
    from flows.cli import app

    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout
