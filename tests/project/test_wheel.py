"""The wheel holds the four packages with their data and nothing else, and runs where the project is not."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from project.conftest import PACKAGES, new_environment
from project.documents import PROJECT


def test_content(wheel: Path) -> None:
    """Every file of the packages, among them presets, templates and type markers; and no file that is not theirs."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    info = f"{wheel.name.split('-py3')[0]}.dist-info"
    expected = {
        path.relative_to(PROJECT).as_posix()
        for package in PACKAGES
        for path in (PROJECT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith(info)} == expected
    assert {name.removeprefix(info + "/") for name in names if name.startswith(info)} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
        "top_level.txt",
    }
    for package in PACKAGES:
        assert f"{package}/py.typed" in names
    assert "pipeline/spec/presets/pl94-2020-us.toml" in names
    assert "features/example/spec/release.toml" in names
    assert "pipeline/model/texts/languages/es.po" in names


@pytest.mark.slow
def test_empty_environment(wheel: Path, tmp_path: Path) -> None:
    """All that the wheel needs stands in its metadata: it runs with what pip fetches for it alone."""
    environment = new_environment(tmp_path / "venv", tmp_path / "home")
    python = str(environment.bin / "python")
    pip = [sys.executable, "-m", "pip", "--python", python]
    subprocess.run([*pip, "install", "--quiet", str(wheel)], check=True, capture_output=True)
    subprocess.run([*pip, "check"], check=True, capture_output=True)
    environment.run("spinewise", "example", "state", cwd=tmp_path)
    environment.run("spinewise", "run", "state/release.toml", "--out", "out", cwd=tmp_path)
    environment.run("spinewise", "verify", "out/example", cwd=tmp_path)
