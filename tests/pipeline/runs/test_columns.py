"""A column that the records do not have is said at once and openly, before a server starts or anything is written."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from releases.command import spinewise
from releases.small import QUICK, write_town

import spinewise as sw
from pipeline.errors import InputError


@pytest.mark.parametrize(("old", "new"), [('geocode = "block"', 'geocode = "blok"')])
def test_on_the_command_line(tmp_path: Path, old: str, new: str) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    text = spec.read_text("utf-8")
    assert old in text
    spec.write_text(text.replace(old, new), encoding="utf-8")
    done = spinewise("run", spec, "--no-prefect", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "no column 'blok'; the file's columns are " in done.stderr
    assert "restricted" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_of_tables_in_memory(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    records = pd.DataFrame({"block": ["1"], "years": ["0-17"]})
    with pytest.raises(InputError, match=r"no column .*; the table's columns are 'block', 'years'"):
        sw.run(spec, records=records, out=tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()
