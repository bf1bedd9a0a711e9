"""The dependencies are declared, explained, and work together: `pip check` is content with ones that do not."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from project.conftest import PACKAGES
from project.documents import PROJECT

_PAGE = PROJECT / "docs" / "dependencies.md"
#: Named for their caps alone; other dependencies would bring a newest version that does not work.
_FOR_CAPS = {"fastapi", "sqlalchemy", "highspy"}
#: Used through cvxpy, by name.
_THROUGH_CVXPY = {"scs", "clarabel"}
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


def imported_distributions() -> set[str]:
    """The distributions that the four packages import from, also inside functions."""
    modules = set()
    for package in PACKAGES:
        for path in (PROJECT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom):
                    modules.add((node.module or "").split(".")[0])
    owners = metadata.packages_distributions()
    others = modules - set(sys.stdlib_module_names) - set(PACKAGES)
    return {canonicalize_name(owners.get(module, [module])[0]) for module in others}


def test_everything_imported_is_declared() -> None:
    """What happens to be there, because something else needs it, can be gone tomorrow."""
    assert imported_distributions() - set(runtime()) == set()


def test_everything_declared_is_needed() -> None:
    """A dependency is imported, named for its cap, a solver of cvxpy, or what a release is read with."""
    unused = set(runtime()) - imported_distributions() - _FOR_CAPS - _THROUGH_CVXPY - _FOR_READERS
    assert unused == set(), "remove them, or say here why they stay"


def test_every_dependency_has_a_reason() -> None:
    """docs/dependencies.md has a row for each run-time dependency, and for nothing else."""
    section = _PAGE.read_text("utf-8").split("## At run time")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| (\S+) \| (.+) \|$", section, re.MULTILINE))
    rows.pop("package")
    assert {canonicalize_name(name) for name in rows} == set(runtime())
    assert all(len(reason) > 20 for reason in rows.values())


def test_every_cap_is_explained() -> None:
    """A version that is not allowed is a promise to look at it again; the page says when."""
    section = _PAGE.read_text("utf-8").split("## The caps, and why")[1].split("\n## ")[0]
    for name, requirement in runtime().items():
        for one in requirement.specifier:
            if one.operator in ("<", "<=", "==", "!=", "~="):
                assert re.search(
                    rf"^- \*\*{name}[^*]*{one.operator} ?{re.escape(one.version)}", section, re.MULTILINE
                ), f"{name} {one}"


def test_installed_versions_are_allowed() -> None:
    """These tests were not run with something else than what is declared."""
    for name, requirement in runtime().items():
        assert requirement.specifier.contains(metadata.version(name), prereleases=True), name


@pytest.mark.parametrize("order", [("ortools.graph.python.min_cost_flow", "highspy"), ("highspy", "ortools.graph")])
def test_both_copies_of_highs(order: tuple[str, str]) -> None:
    """ortools and highspy each bring HiGHS; whichever is imported first, the other can be too."""
    code = f"import {order[0]}, {order[1]}\nfrom ortools.graph.python import min_cost_flow\nimport highspy._core"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def prefect_variables(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        **kept,
        "PREFECT_HOME": str(home),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }


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

_FLOW = """
from prefect import flow, task

@task
def double(x):
    return 2 * x

@flow
def doubled(n):
    return sum(double.map(range(n)).result())

assert doubled(5) == 20
"""


def test_a_flow_runs_without_a_network(tmp_path: Path) -> None:
    """Prefect's own server starts and runs a flow, and neither asks for anything beyond this machine."""
    attempts = tmp_path / "attempts"
    (tmp_path / "sitecustomize.py").write_text(_NO_NETWORK)
    (tmp_path / "flow.py").write_text(_FLOW)
    variables = {**prefect_variables(tmp_path / "home"), "PYTHONPATH": str(tmp_path), "ATTEMPTS": str(attempts)}
    probe = "import socket\ntry: socket.create_connection(('192.0.2.1', 80), timeout=1)\nexcept OSError: pass"
    subprocess.run([sys.executable, "-c", probe], env=variables, check=True)
    assert attempts.read_text() == "connect 192.0.2.1\n" or "192.0.2.1" in attempts.read_text(), "the guard guards"
    attempts.unlink()
    done = subprocess.run(
        [sys.executable, "flow.py"],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not attempts.exists(), attempts.read_text()


@contextlib.contextmanager
def prefect_server(home: Path) -> Iterator[str]:
    """A server on this machine; the address of its interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {**prefect_variables(home), "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    home.mkdir()
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            address = f"http://127.0.0.1:{port}/api"
            until = time.monotonic() + 120
            while not answers(f"{address}/health"):
                assert server.poll() is None, (home / "server.log").read_text()
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.5)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


@pytest.mark.slow
def test_a_schedule_is_run(tmp_path: Path) -> None:
    """A cron deployment gets runs that the server itself has scheduled: with sqlalchemy 2.1 it silently does not."""
    (tmp_path / "scheduled.py").write_text(
        textwrap.dedent(
            """
            from prefect import flow

            @flow
            def nightly():
                pass

            if __name__ == "__main__":
                nightly.to_deployment(name="nightly", cron="*/10 * * * *").apply()
            """
        )
    )
    with prefect_server(tmp_path / "home") as address:
        variables = {**prefect_variables(tmp_path / "home"), "PREFECT_API_URL": address}
        subprocess.run([sys.executable, "scheduled.py"], cwd=tmp_path, env=variables, check=True, timeout=120)
        until = time.monotonic() + 60
        while not (runs := scheduled_runs(address)):
            assert time.monotonic() < until, "nothing was scheduled; see the log for: Can't evaluate bulk DML statement"
            time.sleep(1)
    assert all(run["auto_scheduled"] for run in runs)


def scheduled_runs(address: str) -> list[dict[str, object]]:
    query = json.dumps({"flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}}}).encode()
    request = urllib.request.Request(
        f"{address}/flow_runs/filter", data=query, headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        found: list[dict[str, object]] = json.loads(response.read())
    return found
