"""The command line teaches, starts fast, ends with the status that its help states, and takes any path as a path."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from oracles.command_lines import commands
from oracles.watched import spinewise, watched
from project.conftest import PACKAGES
from project.trees import modules
from releases.command import environment
from releases.small import SPEC

from features.registry import installed_features
from geography.errors import SpinewiseError
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import read_small


def test_help_is_there_before_anything_slow_is_imported() -> None:
    code = (
        "import sys, flows.cli; sys.argv = ['spinewise', '--help']\ntry: flows.cli.main()\nfinally: "
        "sys.stderr.write(str([m for m in ('numpy', 'pandas', 'prefect', 'pydantic') if m in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert "spinewise example demo" in found.stdout
    assert found.stderr == "[]"


def _of(command: tuple[str, ...], *slips: tuple[tuple[str, ...], str]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Slips in the options of one command."""
    return tuple(((*command, *options), told) for options, told in slips)


_GEOGRAPHY = ("--geography", "county,town", "--records", "--attributes", "sex")
_PROOF = ("--expect-records", "36", "--expect-areas", "4")
_OPEN = ("open", "d", "--population", "p")
#: What a user types wrongly, and what is told of it: {town} is a spec, {release} its release, {folder} the current one.
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
    *_of(
        ("ledger",),
        (("show",), "there is none"),
        (_OPEN, "either as --rho or as --epsilon"),
        ((*_OPEN, "--rho", "1", "--epsilon", "1"), "either as --rho or as --epsilon"),
        ((*_OPEN, "--rho", "a lot"), "--rho: found 'a lot'"),
        ((*_OPEN, "--rho", "1", "--neighbours", "all"), "allowed are zcdp, pure, and"),
        ((*_OPEN, "--rho", "1", "--for", "questions"), "found 'questions'; NAME=SHARE is needed"),
    ),
    # Options of another way to verify.
    *_of(
        ("verify", "{release}"),
        (("--records", "--constraints"), "--constraints: found with --records, which does without"),
        (("--records", "--signed-by", "agency.sign.pub"), "--signed-by: found with --records"),
        (("--constraints", "--central", "other"), "--central: found with --constraints"),
        (("--data", "persons.csv"), "--data: found without --records, which it is for"),
        (("--constraints", "--key", "file:key"), "--key: found without --records"),
    ),
    *_of(
        ("query", "{release}"),
        (("sex",), "found no areas; one of --at, --area and --areas is needed"),
        (("sex", "--at", "tract", "--area", "A01"), "found --at and --area"),
        (("sex", "--table", "sex", "--at", "tract"), "one of the two is allowed"),
        (("--table", "sex"), "it requires --at LEVEL"),
        (("--at", "tract"), "found --at and no query"),
        (("sex", "--at", "tract", "--where", "age"), "found 'age'; TERM=VALUE is needed"),
        (("sex", "--at", "tract", "--where", "age=old", "--where", "age=child"), "'age' stands twice"),
        (("sex", "--area", "a=1", "--area", "a=2"), "'a' stands twice"),
        (("sex", "--areas", "nowhere.csv"), "cannot be read"),
        (("sex", "--areas", "{folder}/areas.csv"), "no column 'area'; its columns are name, code"),
        (("age", "--show", "ranks", "--area", "A01"), "--at LEVEL is needed"),
        (("age", "--show", "difference", "--at", "tract"), "by --area or --areas; found --at tract"),
        (("age", "--show", "difference", "--area", "A01"), "by --area or --areas; found 1 of them"),
        (("--show", "shares", "--table", "sex", "--at", "tract"), "--show shares: a query is needed"),
        (("sex", "--show", "household-sizes", "--at", "tract"), "found --show household-sizes and a query"),
        (("--show", "household-sizes"), "--show household-sizes: found no areas; one of --at"),
        (("sex", "--at", "tract", "--tidy"), "--tidy: one row a number is for --format csv, json or markdown"),
    ),
    *_of(
        ("import", "table", "{folder}/table.csv", "--out", "out", *_PROOF),
        (("--households-query", "select 1"), "there is no --households to ask"),
        (("--geography", "county,county", *_GEOGRAPHY[2:]), "--geography: column 'county' stands twice"),
        ((*_GEOGRAPHY, "--areas", "{folder}/areas.csv"), "areas.csv: no column 'county', which --geography names"),
    ),
)


def test_bad_input_is_one_clear_message_and_status_2(
    town_spec: Path, town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "areas.csv").write_text("name,code\nx,1\n")
    (tmp_path / "table.csv").write_text("county,town,sex\n1,11,f\n1,12,m\n2,21,f\n2,22,m\n")
    monkeypatch.setenv("SPINEWISE_LEDGER", str(tmp_path / "ledger.sqlite"))
    monkeypatch.chdir(tmp_path)
    for arguments, message in SLIPS:
        status, printed = spinewise(*(one.format(town=town_spec, release=town, folder=tmp_path) for one in arguments))
        assert (status, printed.split()[0] in ("Error:", "Usage:")) == (2, True), (arguments, printed)
        assert message in " ".join(printed.split()), arguments
        assert printed.count("Error") == 1, arguments
        assert "Traceback" not in printed, arguments
    assert not (tmp_path / "out").exists()


def test_no_secret_is_an_argument_and_no_option_is_of_an_older_form() -> None:
    """What holds of a key holds of all: one option names its source; a result has one option for its form."""
    for name, command in commands():
        options = {option for one in command.params for option in one.opts}
        assert not any(option.endswith(("key-file", "key-fd", "key-command")) for option in options), name
        assert "--format" not in options or options.isdisjoint({"--json", "--csv"}), name


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
