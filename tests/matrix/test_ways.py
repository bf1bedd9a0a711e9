"""However a case is made, it holds what is stored of it: workers, an engine, parts, kills, other rows and files."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from releases.command import PROJECT, forks

from matrix.case import Case, Command
from matrix.content import differences, is_form
from matrix.store import held_by, stored
from matrix.table import WAYS, cells

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("case", "column"), cells(WAYS))
def test_no_number_shows_how_it_was_made(case: Case, column: str, tmp_path: Path) -> None:
    case.write(tmp_path)
    changed = replace(case, commands=tuple(_changed(command, column) for command in case.commands))
    as_parquet = column.endswith("Parquet")
    if "records" in column:
        for path in files_of_records(tmp_path, case):
            frame = pd.read_csv(path, dtype=str, keep_default_na=False)
            if not as_parquet:
                frame.sample(frac=1, random_state=1).to_csv(path, index=False)
            else:
                frame.to_parquet(path.with_suffix(".parquet"), index=False)
                path.unlink()
                for spec in tmp_path.rglob("*.toml"):
                    text = spec.read_text("utf-8").replace(f'"{path.name}"', f'"{path.stem}.parquet"')
                    spec.write_text(text, "utf-8")
    kills = changed.make(tmp_path, PROJECT, forks(), WAYS[column])
    assert (kills >= 3) == (column == "killed again and again" and column not in case.without)
    told = differences(stored(case.name), held_by(case, tmp_path))
    # The names of files stand in the manifest.
    assert [line for line in told if not (as_parquet and is_form(line.partition(": was ")[0]))] == []


def _changed(command: Command, column: str) -> Command:
    words = list(command)
    if "--workers" in words and "workers" in column:
        words[words.index("--workers") + 1] = "2" if column.startswith("two") else "4"
    if column.startswith("Prefect"):
        words = [word for word in words if word != "--no-prefect"]
    if column.endswith("Parquet"):
        words = [re.sub(r"(?<=\w)\.csv$", ".parquet", word) for word in words]
    return tuple(words)


def files_of_records(folder: Path, case: Case) -> list[Path]:
    """The CSV files that an input of a spec in the folder names, or the command line."""
    named = {word for command in case.commands for word in command if word.endswith(".csv")}
    for spec in folder.rglob("*.toml"):
        stated = tomllib.loads(spec.read_text("utf-8"))
        named |= {one["input"]["file"] for one in (stated, *stated.get("companions", {}).values()) if "input" in one}
    return [path for path in sorted(folder.rglob("*.csv")) if path.name in named]
