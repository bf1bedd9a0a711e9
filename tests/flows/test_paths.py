"""Paths as users may type them: with a colon, a folder or a pipe in place of a file, the root, and none at all."""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import pytest
from oracles.command_lines import commands
from oracles.watched import spinewise, watched
from project.conftest import PACKAGES
from project.trees import modules
from releases.small import SPEC

from features.registry import installed_features
from geography.errors import SpinewiseError
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import read_small

SECONDS = 10
#: Functions of libraries that take a text for an address if it may be one.
GUESSING = {"ParquetFile", "ParquetWriter", "read_table", "write_table", "read_metadata", "read_parquet", "to_parquet"}
GUESSING |= {"read_file", "to_file", "read_schema", "ParquetDataset"}

PATHS = [
    (words, parameter)
    for words, command in commands()
    for parameter in command.params
    if parameter.type_descriptor.annotation in (Path, list[Path]) or parameter.name in ("source", "households")
]


def line_with(words: tuple[str, ...], parameter: Any, value: str, sound: dict[str, str]) -> list[str]:
    """A command line with everything that is required, and the value for that parameter."""
    (command,) = (command for other, command in commands() if other == words)
    options, arguments = list(words), list[str]()
    for one in command.params:
        if one is not parameter and not one.required:
            continue
        text = value if one is parameter else sound.get(one.name, "x")
        if one.param_type_name == "argument":
            arguments.append(text)
        else:
            options += [one.opts[0], text]
    return [*options, *(["--no-prefect"] if words == ("run",) else []), *(["--", *arguments] if arguments else [])]


@pytest.fixture(params=["pipe", "device"])
def special(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "special"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    return path


def test_every_command_with_a_path_is_tried() -> None:
    assert len(PATHS) > 50
    of_features = {name for feature in installed_features() for name in feature.commands}
    assert {words[0] for words, _ in PATHS} >= {"run", "key", "ledger", *of_features}


def test_an_empty_text_is_no_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any option or argument: one sentence, status 2, before anything is read or written."""
    monkeypatch.chdir(tmp_path)
    for words, parameter in PATHS:
        line = line_with(words, parameter, "", {})
        status, printed = spinewise(*line)
        name = "an argument" if parameter.param_type_name == "argument" else parameter.opts[0]
        assert (status, printed) == (
            2, f"Error: {name}: found an empty text; a value is needed (is a variable of the shell not set?)\n"
        ), line  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_no_library_guesses_what_a_path_is() -> None:
    """Every path that these functions get is absolute, in the whole product."""
    found, wrong = 0, []
    for name, tree in modules(*PACKAGES).items():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            if node.func.attr not in GUESSING or "writer" in ast.unparse(node.func.value).lower():
                continue
            texts = [ast.unparse(argument) for argument in node.args[:2]]
            found += 1
            if not any("local_name(" in text or ".absolute()" in text or text == "sink" for text in texts):
                wrong.append(f"{name}:{node.lineno}: {ast.unparse(node)[:80]}")
    assert found > 15
    assert not wrong, "\n".join(wrong)


def test_no_command_waits_for_a_pipe_or_reads_a_device_without_end(special: Path) -> None:
    """Whatever option or argument it is given for, in the place of a file or a folder."""
    sound = {one.name: "1" for _, command in commands() for one in command.params} | {"layout": "csv"}
    for words, parameter in PATHS:
        if parameter.name in ("source", "households"):  # which may be no paths, but addresses of databases
            continue
        line = line_with(words, parameter, str(special), sound)
        status, printed = spinewise(*line)  # which has a limit of its own
        assert status == 2, line
        assert "is not a file that can be read twice" in printed, line
        assert printed.count(str(special)) == 1, line


FILES_OF_SPEC = [line.partition('"')[2].partition('"')[0] for line in SPEC.splitlines() if line.startswith("file =")]


def test_each_file_that_a_spec_names(special: Path, tmp_path: Path) -> None:
    spec = tmp_path / "release.toml"
    for file in FILES_OF_SPEC:
        spec.write_text(SPEC.replace(f'"{file}"', f'"{special}"'))
        with watched(SECONDS), pytest.raises(SpinewiseError, match="is not a file that can be read twice") as refused:
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
    with watched(SECONDS), pytest.raises(OSError, match="is not a file that can be read twice"):
        read_small(special, 5)
