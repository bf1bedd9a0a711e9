"""What is confidential is neither committed by mistake nor written to somebody else's folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from releases.small import QUICK, run, write_town

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import InputError
from pipeline.release.run_directory import open_run


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_takes_nothing_confidential(tmp_path: Path) -> None:
    """`git add -A` in a folder with a release, an import and what a run that was stopped has left."""
    run(write_town(tmp_path / "town", *QUICK), tmp_path / "planned")
    with open_run(tmp_path / "stopped" / "town", {"spec": "x"}) as stopped:
        (stopped.restricted / "histograms").mkdir()
        (stopped.restricted / "histograms" / "block.parquet").write_bytes(b"counts")
    frame = pd.DataFrame({"county": ["a", "b"] * 30, "sex": ["f", "f", "m"] * 19 + ["rare"] * 3})
    frame.assign(town=frame["county"] + "1").to_excel(tmp_path / "p.xlsx", index=False)
    stated = {"geography": "county,town", "attributes": "sex", "expect_records": 60, "expect_areas": 2}
    import_table(Statement(str(tmp_path / "p.xlsx"), records=True, **stated), tmp_path / "in")  # type: ignore[arg-type]
    assert "rare" in (tmp_path / "in" / "values.txt").read_text()
    (tmp_path / "p.xlsx").unlink()
    shutil.rmtree(tmp_path / "town")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    taken = subprocess.run([*git, "ls-files"], check=True, capture_output=True, text=True).stdout.split()
    assert [name for name in taken if "restricted" in name] == []
    assert {name for name in taken if name.startswith("in/")} == {
        "in/.gitignore",
        "in/areas.parquet",
        "in/import.toml",
        "in/release.toml",
    }
    assert "planned/town/public/manifest.json" in taken


def test_a_run_that_was_stopped_early_is_still_taken_over(tmp_path: Path) -> None:
    for identity in ({"a": "1"}, {"a": "1"}, {"a": "2"}):
        with open_run(tmp_path / "r", identity) as opened:
            assert (opened.restricted / ".gitignore").read_text() == "*\n"
    (opened.restricted / ".gitignore").write_text("")
    with open_run(tmp_path / "r", {"a": "2"}) as opened:
        assert (opened.restricted / ".gitignore").read_text() == "*\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a folder to somebody else")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    os.chown(tmp_path / "r", 12345, 12345)
    with (
        pytest.raises(InputError, match=r"r belongs to user 12345 and not to user 0, who runs this"),
        open_run(tmp_path / "r", {"a": "1"}),
    ):
        pass
    assert list((tmp_path / "r").iterdir()) == []
