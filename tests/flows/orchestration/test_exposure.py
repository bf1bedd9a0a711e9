"""A server that others can give orders to: deploy and doctor refuse it, and a request cannot bring a command along."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from releases.command import spinewise
from releases.prefect_server import ask, prefect_server, prefect_variables
from releases.small import QUICK, write_town
from releases.web import answering

from flows.orchestration import probe


def test_a_server_that_listens_to_others_needs_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another address of this machine stands for the network; every address of 127.0.0.0/8 is here."""
    monkeypatch.setattr(probe, "_own_addresses", lambda: ["127.0.0.2"])
    with answering() as (port, _):
        assert probe.open_to_others(f"http://127.0.0.1:{port}/api") == ""
    with answering("0.0.0.0") as (port, _):
        url = f"http://127.0.0.1:{port}/api"
        assert probe.open_to_others(url) == f"{url} does what anybody asks who can reach port {port} of 127.0.0.2"
        monkeypatch.setattr(probe, "_is_loopback", lambda host: host == "localhost")
        assert probe.open_to_others(url) == f"{url} does what anybody asks who can reach 127.0.0.1"
    with answering("0.0.0.0", 401) as (port, _):
        assert probe.open_to_others(f"http://127.0.0.1:{port}/api") == ""


@pytest.mark.slow
def test_a_request_cannot_run_a_command_or_read_elsewhere(tmp_path: Path) -> None:
    """A real server and worker; the request brings a command, an environment and a spec from elsewhere."""
    spec = write_town(tmp_path / "town", *QUICK)
    elsewhere = write_town(tmp_path / "elsewhere", *QUICK)
    ran = tmp_path / "ran"
    home = tmp_path / "home"
    with prefect_server(home) as address:
        variables: dict[str, Any] = {**prefect_variables(home), "PREFECT_API_URL": address}
        out = tmp_path / "out"
        made = spinewise("deploy", spec, "--out", out, "--retries", "0", **variables)
        assert made.returncode == 0, made.stderr
        (deployment,) = ask(f"{address}/deployments/filter", {})
        attacks: list[dict[str, object]] = [
            {
                "job_variables": {
                    "command": f"touch {ran}",
                    "env": {"SPINEWISE_ON_FAILURE_COMMAND": f"touch {ran}", "PYTHONSTARTUP": str(ran)},
                    "working_dir": str(tmp_path),
                }
            },
            {"parameters": {"spec": str(elsewhere)}},
            {"parameters": {"out": str(tmp_path / "wherever")}},
            {"parameters": {}},
        ]
        started = []
        for attack in attacks:
            parameters = deployment["parameters"] | attack.get("parameters", {})
            content = {"state": {"type": "SCHEDULED"}, **attack, "parameters": parameters}
            answer = ask(f"{address}/deployments/{deployment['id']}/create_flow_run", content)
            started.append(answer if isinstance(answer, int) else answer["id"])
        worker = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "spinewise", "--run-once"]
        environment = {**os.environ, **variables, "XDG_CONFIG_HOME": str(tmp_path / "config")}
        states: dict[object, str] = {}
        until = time.monotonic() + 300
        while time.monotonic() < until:
            subprocess.run(worker, env=environment, capture_output=True, timeout=300, check=False)
            runs = ask(f"{address}/flow_runs/filter", {})
            states = {run["id"]: run["state"]["type"] for run in runs}
            if not {"SCHEDULED", "PENDING", "RUNNING"} & set(states.values()):
                break
        told = [one if isinstance(one, int) else states[one] for one in started]
        assert told[-1] == "COMPLETED", told
        assert told[1] == told[2] == "FAILED", told
        assert not ran.exists(), told
        assert not (tmp_path / "wherever").exists()


@pytest.mark.slow
def test_a_server_that_listens_everywhere_is_refused(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "town", *QUICK)
    with prefect_server(tmp_path / "home", host="0.0.0.0") as address:
        variables: dict[str, Any] = {**prefect_variables(tmp_path / "home"), "PREFECT_API_URL": address}
        if not probe._own_addresses():
            pytest.skip("this machine has no address at which others could reach it")
        refused = spinewise("deploy", spec, "--out", tmp_path / "out", **variables)
        assert refused.returncode == 2
        assert "without a password: they could run anything as the worker" in refused.stderr
        seen = spinewise("doctor", **variables)
        assert "PREFECT_SERVER_API_AUTH_STRING" in seen.stdout
        assert seen.returncode != 0
