"""The wheel holds the packages and nothing else, and runs where the project is not; `make reader` makes no release."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project.conftest import PACKAGES, Installed, new_environment
from project.constraints import declared
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


_PACKAGES = PROJECT / "reader.txt"
#: With Python's own pip, and after use. MB.
_MOST = 560


def test_the_packages_are_some_of_those_of_a_run() -> None:
    lines = [line for line in _PACKAGES.read_text("utf-8").splitlines() if not line.startswith("#")]
    assert {canonicalize_name(line) for line in lines} < {canonicalize_name(one.name) for one in declared()}
    assert all(not Requirement(line).specifier for line in lines), "versions stand in pyproject.toml"


@pytest.fixture(scope="module")
def reader(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """As `make reader` makes it, with the wheel for the project's folder."""
    folder = tmp_path_factory.mktemp("reader")
    environment = new_environment(folder / "venv", folder / "home")
    subprocess.run([str(environment.bin / "python"), "-m", "ensurepip"], check=True, capture_output=True)
    pip = [sys.executable, "-m", "pip", "--python", str(environment.bin / "python"), "install", "--quiet"]
    listed = ["--requirement", str(_PACKAGES), "--constraint", str(PROJECT / "constraints.txt")]
    for what in (listed, ["--no-deps", str(wheel)]):
        subprocess.run([*pip, "--no-compile", *what], check=True, capture_output=True)
    del environment.variables["PYTHONDONTWRITEBYTECODE"]
    return environment


def failed(reader: Installed, *command: str, cwd: Path) -> tuple[int, str]:
    """Exit status, and what was said."""
    done = subprocess.run(
        [str(reader.bin / "spinewise"), *command],
        cwd=cwd, env=reader.variables, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)  # a download of half a gigabyte
def test_it_queries_checks_hashes_constraints_and_signature(
    reader: Installed, installed: Installed, release: Path, tmp_path: Path
) -> None:
    """Without what makes a release: that is said, with all packages that are missing. It takes half the place."""
    mine = tmp_path / "mine"
    shutil.copytree(release / "releases" / "example" / "public", mine / "public")
    installed.run("spinewise", "key", "sign-new", "agency.sign", "--name", "statistics.example/a", cwd=tmp_path)
    installed.run("spinewise", "sign", "mine", "--sign-key", "file:agency.sign", cwd=tmp_path)

    assert "99001" in reader.run("spinewise", "query", "mine", "race", "--at", "county", cwd=tmp_path)
    said = reader.run("spinewise", "verify", "mine", "--constraints", "--signed-by", "agency.sign.pub", cwd=tmp_path)
    assert "every constraint of the spec holds" in said
    assert "it is signed by statistics.example/a" in said

    for command in (["verify", "mine"], ["run", str(release / "example" / "release.toml")]):
        status, told = failed(reader, *command, cwd=tmp_path)
        assert status == 2
        assert told.count("\n") == 1
        assert told.startswith("Error: this needs packages that are not installed: pip install ")
        assert all(f'"{one}' in told for one in ("cvxpy", "prefect", "ortools", "jinja2"))
        assert '"numpy' not in told

    with (mine / "public" / "report.html").open("a") as page:
        page.write(" ")
    words = ["verify", "mine", "--constraints"]
    for signed in ((), ("--signed-by", "agency.sign.pub")):
        status, told = failed(reader, *words, *signed, cwd=tmp_path)
        assert (status, "report.html" in told) == (1, True), told
    with (mine / "public" / "manifest.json").open("a") as manifest:
        manifest.write(" ")
    status, told = failed(reader, *words, "--signed-by", "agency.sign.pub", cwd=tmp_path)
    assert (status, "it is not laid out as it was written" in told) == (1, True), told

    size = sum(path.stat().st_size for path in reader.folder.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < _MOST * 1e6
