"""The dependencies are declared, explained, and work together: `pip check` is content with ones that do not."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project import constraints
from project.conftest import PACKAGES, Installed
from project.constraints import declared, installed, pinned
from project.documents import PROJECT
from project.trees import modules

#: Named for their caps alone; other dependencies would bring a newest version that does not work.
_FOR_CAPS = {"fastapi", "highspy"}
#: Used through cvxpy, by name.
_THROUGH_CVXPY = {"clarabel"}
#: What a release is read with; README's two lines need it.
_FOR_READERS = {"pandas"}


def project() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    return table


def runtime() -> dict[str, Requirement]:
    """The run-time dependencies by name."""
    listed = project()["dependencies"]
    assert isinstance(listed, list)
    return {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, listed)}


def of_extras() -> set[str]:
    """What the extras for users bring, which is imported only where it is needed."""
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    listed = [one for name, found in extras.items() if name not in ("test", "lint", "docs") for one in found]
    return {canonicalize_name(Requirement(one).name) for one in listed}


@cache
def imported_distributions() -> set[str]:
    """The distributions that the four packages import from, also inside functions."""
    names = set()
    for node in (node for tree in modules(*PACKAGES).values() for node in ast.walk(tree)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").split(".")[0])
    owners = metadata.packages_distributions()
    others = names - set(sys.stdlib_module_names) - set(PACKAGES)
    return {canonicalize_name(owners.get(module, [module])[0]) for module in others}


def test_everything_imported_is_declared() -> None:
    """What happens to be there, because something else needs it, can be gone tomorrow."""
    assert imported_distributions() - set(runtime()) - of_extras() == set()


def test_everything_declared_is_needed() -> None:
    """A dependency is imported, named for its cap, a solver of cvxpy, or what a release is read with."""
    unused = set(runtime()) - imported_distributions() - _FOR_CAPS - _THROUGH_CVXPY - _FOR_READERS
    assert unused == set(), "remove them, or say here why they stay"


@pytest.mark.parametrize("order", [("ortools.graph.python.min_cost_flow", "highspy"), ("highspy", "ortools.graph")])
def test_both_copies_of_highs(order: tuple[str, str]) -> None:
    """ortools and highspy each bring HiGHS; whichever is imported first, the other can be too."""
    code = f"import {order[0]}, {order[1]}\nfrom ortools.graph.python import min_cost_flow\nimport highspy._core"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
def test_a_release_runs_without_a_network(release: Path, installed: Installed) -> None:
    """A run, with these versions, asks for nothing beyond this machine."""
    assert (release / "releases" / "example" / "public" / "manifest.json").exists()
    assert installed.attempts() == []


@pytest.mark.slow
def test_the_guard_guards(installed: Installed, tmp_path: Path) -> None:
    """An attempt to reach another machine is refused and noted; one to reach this machine is not."""
    code = """
        import socket
        for host in ("192.0.2.1", "example.org", "127.0.0.1"):
            try: socket.create_connection((host, 9), timeout=1)
            except OSError: pass
        """
    noted = tmp_path / "attempts"
    other = Installed(installed.folder, {**installed.variables, "ATTEMPTS": str(noted)})
    other.run("python", "-c", textwrap.dedent(code), cwd=tmp_path)
    assert other.attempts() == ["look up 192.0.2.1", "look up example.org"]


def test_every_dependency_has_a_version_that_is_allowed_in_the_constraints() -> None:
    """What `make setup` installs is stated to the last package, and a line is nothing but a name and a version."""
    found = pinned(constraints.PAGE.read_text("utf-8"))
    assert list(found) == sorted(found)
    lacking = installed().keys() - found.keys()
    assert lacking == set(), "make constraints"
    for one in declared():
        assert one.specifier.contains(found[canonicalize_name(one.name)], prereleases=True), one
