"""R reads what is exported; skipped where R is not installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from features.exports.release import export_release
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory

#: As docs/formats.md has it.
READ = 'tracts <- read.csv("%s", colClasses = c(geocode = "character"), check.names = FALSE)'


def test_r_reads_a_table_with_its_intervals(surveyed: Path, tmp_path: Path) -> None:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("R is not installed: Rscript is not on the PATH")
    out = export_release(open_finished(surveyed, check_hashes=True), "csv", tmp_path / "csv")
    path = out / "residence" / "tract.csv"
    script = READ % path.as_posix() + '; cat(sum(tracts$household), sum(tracts[["household:low90"]]), tracts$geocode)'
    found = subprocess.run([rscript, "-e", script], capture_output=True, text=True, check=True).stdout.split()
    stored = pd.read_parquet(RunDirectory(surveyed).main.table("residence", "tract"))
    assert [int(float(one)) for one in found[:2]] == [stored["household"].sum(), stored["household:low90"].sum()]
    assert found[2:] == stored["geocode"].tolist()
