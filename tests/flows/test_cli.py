"""The command line teaches, starts fast, and ends with the exit status that its help states."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from oracles.command_lines import commands
from oracles.watched import spinewise
from releases.command import environment


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
