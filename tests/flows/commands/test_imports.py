"""`spinewise import ...` as it is used: the spec's path on stdout, the rest on stderr, nothing left of failures."""

from __future__ import annotations

from pathlib import Path

from oracles.summary_files import made_up_state, write_2020
from typer.testing import CliRunner

from flows.cli import app
from geography.errors import InputError


def test_a_summary_file(tmp_path: Path) -> None:
    """What was read is told, and what is off the spine."""
    folder = write_2020(made_up_state(1, 6), tmp_path / "zz.pl")
    shown = CliRunner().invoke(app, ["import", "pl94171", str(folder), "--out", str(tmp_path / "a")])
    assert (shown.exit_code, shown.stdout) == (0, f"{tmp_path / 'a' / 'release.toml'}\n")
    assert "6 blocks" in shown.stderr
    assert "off the spine: 1 place, 1 American Indian area" in shown.stderr


STATED = ("--geography", "county,town", "--records", "--attributes", "sex")
PROOF = ("--expect-records", "36", "--expect-areas", "4")


def test_a_table(tmp_path: Path) -> None:
    """What was read is told; a second import to the same folder is refused."""
    rows = "".join(f"{c},{c}{t},{'fm'[i % 2]}\n" for c in "12" for t in "12" for i in range(9))
    (tmp_path / "a.csv").write_text(f"county,town,sex\n{rows}")
    arguments = ["import", "table", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out"), *STATED, *PROOF]
    shown = CliRunner().invoke(app, arguments)
    assert (shown.exit_code, shown.stdout) == (0, f"{tmp_path / 'out' / 'release.toml'}\n")
    assert "36 people in 4 areas, as expected" in shown.stderr
    shown = CliRunner().invoke(app, arguments)
    assert isinstance(shown.exception, InputError)
    assert "give one that is new or empty" in str(shown.exception)
