"""`make reader`: what reads and checks releases of others, in an environment that can make none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project.conftest import Installed, new_environment
from project.constraints import declared
from project.documents import PROJECT

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
    assert failed(reader, *words, cwd=tmp_path) == (0, "")
    status, told = failed(reader, *words, "--signed-by", "agency.sign.pub", cwd=tmp_path)
    assert (status, "report.html" in told) == (1, True), told
    with (mine / "public" / "manifest.json").open("a") as manifest:
        manifest.write(" ")
    status, told = failed(reader, *words, "--signed-by", "agency.sign.pub", cwd=tmp_path)
    assert (status, "it is not laid out as it was written" in told) == (1, True), told

    size = sum(path.stat().st_size for path in reader.folder.rglob("*") if path.is_file() and not path.is_symlink())
    assert size < _MOST * 1e6
