"""No command waits for a pipe or reads a device without end: every option, argument and key of a spec is tried."""

from __future__ import annotations

import os
import signal
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from releases.small import SPEC

from flows.cli import app
from geography.errors import SpinewiseError
from pipeline.spec.release_spec import load_spec
from pipeline.storage.small_files import read_small

SECONDS = 10


def commands(group: typer.Typer, *names: str) -> Iterator[tuple[tuple[str, ...], typing.Any]]:
    """Name and function of each command."""
    for command in group.registered_commands:
        assert command.callback is not None
        yield (*names, command.name or command.callback.__name__), command.callback
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance, *names, str(inner.name or inner.typer_instance.info.name))


def paths_of(function: typing.Any) -> list[str]:
    return [name for name, kind in typing.get_type_hints(function).items() if "Path" in str(kind)]


CASES = [(names, name) for names, function in commands(app) for name in paths_of(function)]

ROOT = typer.main.get_command(app)


@contextmanager
def limited() -> Iterator[None]:
    """The block may take ten seconds."""

    def late(*_: object) -> None:
        raise AssertionError(f"no answer in {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["pipe", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "special"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def test_each_path_that_a_command_takes(special: Path) -> None:
    assert len(CASES) > 60
    for names, name in CASES:
        command = ROOT
        for part in names:
            command = command.commands[part]  # type: ignore[attr-defined]
        words: list[str] = []
        for parameter in command.params:
            value = str(special) if parameter.name == name else {"layout": "csv"}.get(str(parameter.name), "1")
            if parameter.name != name and not parameter.required:
                continue
            option = parameter.opts[-1]
            words += [option, value] if option.startswith("-") else [value]
        with limited(), pytest.raises(SpinewiseError, match="is not a file that can be read twice") as refused:
            command.main(words, standalone_mode=False)
        assert (refused.value.exit_status, str(refused.value).count(str(special))) == (2, 1), words


FILES_OF_SPEC = [line.partition('"')[2].partition('"')[0] for line in SPEC.splitlines() if line.startswith("file =")]


def test_each_file_that_a_spec_names(special: Path, tmp_path: Path) -> None:
    spec = tmp_path / "release.toml"
    for file in FILES_OF_SPEC:
        spec.write_text(SPEC.replace(f'"{file}"', f'"{special}"'))
        with limited(), pytest.raises(SpinewiseError, match="which is not a file that can be read twice") as refused:
            load_spec(spec)
        assert refused.value.exit_status == 2, file


def test_a_small_file_is_read_whole_or_refused(tmp_path: Path, special: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(b"12345")
    link = tmp_path / "link"
    link.symlink_to(small)
    assert read_small(small, 5) == read_small(link, 5) == b"12345"
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_small(small, 4)
    with small.open("r+b") as file:
        file.truncate(1 << 40)  # a terabyte that takes no space
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_small(small, 4)
    with limited(), pytest.raises(OSError, match="is not a file that can be read twice"):
        read_small(special, 5)
