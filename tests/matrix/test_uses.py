"""What is done with a finished case: all its numbers are those of the release."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from releases.command import spinewise

from auditor.answers.audit import is_answer
from auditor.check.release import check_release
from matrix.case import KEY, Case
from matrix.shown import SHOWN, export_has_the_numbers
from matrix.table import USES, cells
from pipeline.execution.steps import Silent
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.updates import update_release
from pipeline.runs.verify import verify_release

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("case", "column"), cells(USES))
def test_what_it_is_used_for(case: Case, column: str, folder_of: Callable[[Case], Path], tmp_path: Path) -> None:
    folder = folder_of(case)
    root = folder / case.published[-1]
    if is_answer(root) and column not in ("verify --records", "audit"):
        pytest.skip("an answer is no release")
    if column == "query":
        _queried(root)
    elif column == "correct its texts":
        _corrected(root, tmp_path)
    else:
        _commanded(case, column, folder, tmp_path)


def _commanded(case: Case, column: str, folder: Path, tmp_path: Path) -> None:
    """The command ends well, or is refused for the reason that the case states."""
    command, *options = column.split()
    needs_key = column in ("verify --records", "audit") and (folder / KEY).exists()
    key = ["--key", f"file:{folder / KEY}"] if needs_key else []
    out = ["--out", tmp_path / "out"] if command in ("export", "audit") else []
    words = (command, folder / case.published[-1], *options, *key, *out)
    ledger, state = str(folder / "ledger.sqlite"), str(folder / "state")
    done = spinewise(*words, cwd=folder, timeout=600, SPINEWISE_LEDGER=ledger, SPINEWISE_STATE=state)
    reason = case.without.get(column, case.without.get(command, ""))
    assert done.returncode == (2 if reason else 0), done.stdout + done.stderr
    assert reason in " ".join(done.stderr.split())
    if command == "export" and not reason:
        layout, root = options[-1], folder / case.published[-1]
        assert (export_has_the_numbers(layout, tmp_path / "out", root) >= 2) == (layout in SHOWN), layout


def _queried(root: Path) -> None:
    """Each published table is what a query by its name gives."""
    release = open_release(root)
    manifest = json.loads((root / "public" / "manifest.json").read_bytes())
    queries = {name: table["query"] for name, table in manifest["spec"].get("tables", [])}
    for path in sorted((root / "public" / "tables").rglob("*.parquet")):
        table = pq.read_table(path).to_pandas().set_index("geocode")
        asked = release.query(queries[path.parent.name]).at(path.stem).reindex(table.index)
        for name in table.columns:
            if name in asked.columns and table[name].dtype.kind in "iuf":
                np.testing.assert_array_equal(asked[name].to_numpy(), table[name].to_numpy(), err_msg=f"{path}: {name}")


def _corrected(root: Path, tmp_path: Path) -> None:
    """A version with another title follows from public files, and is found whole."""
    texts = tmp_path / "texts.toml"
    texts.write_text('[report]\ntitle = "Corrected"\n', "utf-8")
    new = update_release(root, (), tmp_path / "new", 1, Silent(), texts=texts).root
    assert verify_release(RunDirectory(new), 1, Silent()) == []
    assert check_release(new) == []
