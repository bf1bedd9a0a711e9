"""A wheel of the project, an environment it is installed in, and a small release that was made there."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from project.documents import PROJECT
from releases.county import keep_county

PACKAGES = ("geography", "postprocess", "pipeline", "features", "flows", "spinewise", "auditor")
#: The county of the example that the small release is of; its five are of very different size.
COUNTY = "99001"


#: Put where Python looks for it at its start, also in processes that Prefect starts: no way out but to this machine.
_NO_NETWORK = """
import os, socket

def _local(host):
    return host in (None, "", b"", "localhost", b"localhost", "0.0.0.0", "::") or str(host).startswith(("127.", "::1"))

def _refuse(what):
    with open(os.environ["ATTEMPTS"], "a") as file:
        file.write(what + "\\n")
    raise OSError("no network: " + what)

def _guard(name):
    original = getattr(socket.socket, name)
    def guarded(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _local(address[0]):
            _refuse(f"{name} {address[0]}")
        return original(self, address)
    setattr(socket.socket, name, guarded)

_guard("connect")
_guard("connect_ex")
_lookup = socket.getaddrinfo

def _getaddrinfo(host, *rest, **named):
    return _lookup(host, *rest, **named) if _local(host) else _refuse(f"look up {host}")

socket.getaddrinfo = _getaddrinfo
"""


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel in it: its folder, and the environment variables to run in."""

    folder: Path
    variables: dict[str, str]

    def attempts(self) -> list[str]:
        """What programs of the environment wanted of the network, in vain."""
        noted = Path(self.variables["ATTEMPTS"])
        return noted.read_text().splitlines() if noted.exists() else []

    @property
    def bin(self) -> Path:
        return self.folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, cwd: Path) -> str:
        """Run a program of the environment from the folder `cwd`; what it printed."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, so that nothing that an earlier build has left gets into it."""
    source = tmp_path_factory.mktemp("source")
    for name in PACKAGES:
        shutil.copytree(PROJECT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, source)
    # Folders of the project that must not get in.
    for name in ("tests", "docs", "examples", "benchmarks"):
        (source / name).mkdir()
        (source / name / "stray.py").write_text("")
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built


def clean_variables(home: Path) -> dict[str, str]:
    """Variables that do not lead Python back to the project: a home of its own, and no network."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PREFECT_"))
    }
    return {
        **kept,
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(home),
        "ATTEMPTS": str(home / "attempts"),
    }


def new_environment(folder: Path, home: Path) -> Installed:
    """An empty environment, without pip."""
    venv.create(folder, with_pip=False)
    home.mkdir()
    (home / "sitecustomize.py").write_text(_NO_NETWORK)
    return Installed(folder, clean_variables(home))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in an environment of its own, which borrows the libraries of this one."""
    folder = tmp_path_factory.mktemp("installed")
    environment = new_environment(folder / "venv", folder / "home")
    python = str(environment.bin / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    # Only now: pip would take what it sees there for its own. Paths in a .pth file bring no .pth files of theirs, so
    # that an editable install of the project is not seen.
    (own,) = (environment.folder / "lib").glob("python*/site-packages")
    (own / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return environment


@pytest.fixture(scope="session")
def example(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `example/`, as `spinewise example` writes it."""
    folder = tmp_path_factory.mktemp("elsewhere")
    installed.run("spinewise", "example", "example", cwd=folder)
    return folder


@pytest.fixture(scope="session")
def release(installed: Installed, example: Path) -> Path:
    """The same folder with `releases/example`, the release of one county of it."""
    keep_county(example / "example", COUNTY)
    printed = installed.run("spinewise", "run", "example/release.toml", "--out", "releases", cwd=example)
    assert printed.rstrip().endswith("releases/example"), printed
    return example
