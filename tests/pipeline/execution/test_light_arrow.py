"""A run of the command line imports no pandas in any of its processes, and who imports it later has all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from releases.small import QUICK, write_town

#: The directory of a package that tells who imports it.
TELLING = """
import os, sys
with open(os.environ["TOLD"], "a") as file:
    file.write(" ".join(sys.argv) + chr(10))
raise ModuleNotFoundError("pandas is not looked for", name="pandas")
"""

LATER = """
from pipeline.execution.light_arrow import spare_pandas
spare_pandas()
import sys
import numpy as np
import pyarrow as pa
assert pa.array(np.arange(3)).to_numpy().sum() == 3
assert pa.table({"a": ["x", None]}).column("a").to_pylist() == ["x", None]
assert "pandas" not in sys.modules
import pandas as pd
frame = pa.table({"a": [1, None]}).to_pandas()
assert frame["a"].isna().sum() == 1
assert pa.Table.from_pandas(frame).column("a").null_count == 1
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
"""


def environment(*folders: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *sys.path])}


@pytest.mark.slow
def test_no_process_of_a_run_looks_for_pandas(tmp_path: Path) -> None:
    (tmp_path / "first" / "pandas").mkdir(parents=True)
    (tmp_path / "first" / "pandas" / "__init__.py").write_text(TELLING)
    spec = write_town(tmp_path / "in", *QUICK)
    command = [sys.executable, "-m", "flows.entry", "run", str(spec), "--out", str(tmp_path / "out"), "--no-prefect"]
    told = {"TOLD": str(tmp_path / "told"), "HOME": str(tmp_path)}
    done = subprocess.run(
        command, env=environment(tmp_path / "first") | told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "told").exists(), (tmp_path / "told").read_text()
    asked = subprocess.run(
        [sys.executable, "-c", "import pyarrow as pa; pa.array([0])"],
        env=environment(tmp_path / "first") | told,
        check=False,
    )
    assert asked.returncode == 0
    assert (tmp_path / "told").exists(), "pyarrow no longer looks for pandas: `spare_pandas` can go"


def test_who_imports_pandas_later_has_all_of_it() -> None:
    subprocess.run([sys.executable, "-c", LATER], env=environment(), check=True)
