"""A deployment stores paths and numbers; orders of others are refused, and bring no command along."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from releases.command import PROJECT, spinewise
from releases.prefect_server import ask, prefect_server, prefect_variables
from releases.small import QUICK, write_town
from releases.web import answering

from flows.orchestration import probe
from flows.orchestration.deployed import DEPLOYED, check_allowed, deployed_folders
from flows.orchestration.deployments import DeploymentPlan, check_cron, job_template, queue_of
from pipeline.errors import InputError
from pipeline.execution.settings import Settings, load_settings


def test_specs_of_one_dataset_share_a_queue() -> None:
    one = queue_of(["persons", "units"], Path("/srv/one"))
    assert one == queue_of(["units", "persons", "units"], Path("/srv/other")) == "dataset persons and units"
    assert queue_of([], Path("/srv/one")) == "directory :srv:one" != queue_of([], Path("/srv/other"))


def test_a_schedule_that_cannot_be_understood_is_told() -> None:
    for cron, timezone in (("every day", "UTC"), ("0 2 * * *", "Atlantis")):
        with pytest.raises(InputError, match=r"--cron: found .* five fields"):
            check_cron(cron, timezone)


def test_a_deployment_says_of_its_environment_how_often_runs_are_retried_and_nothing_else() -> None:
    plan = DeploymentPlan("x", {}, "q", retries=3, retry_delay=1.5, timeout=60)
    assert plan.variables() == {"retries": "3", "retry_delay": "1.5", "timeout": "60"}
    template = job_template(["/srv/a", "/srv/a"], ["/srv/out"])
    text = json.dumps(template)
    assert set(re.findall(r"{{ (.*?) }}", text)) == {"name", "retries", "retry_delay", "timeout"}
    assert not {"command", "working_dir"} & template["job_configuration"].keys()
    assert template["variables"]["additionalProperties"] is False
    # SQLite refuses a write at once while another is under way; Prefect's client waits 2, 4, 8 ... seconds in between.
    again = int(template["job_configuration"]["env"]["PREFECT_CLIENT_MAX_RETRIES"])
    assert sum(2**number for number in range(1, again + 1)) > 240
    assert deployed_folders(template["job_configuration"]["env"][DEPLOYED]) == {
        "specs": ["/srv/a"], "outputs": ["/srv/out"],
    }  # fmt: skip


def test_a_deployed_run_follows_paths_below_the_folders_allowed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc")
    monkeypatch.delenv(DEPLOYED, raising=False)
    with pytest.raises(InputError, match="a deployed run may use what is below no folder at all"):
        check_allowed(load_settings(), {"spec": tmp_path / "in" / "a.toml"}, {})
    monkeypatch.setenv(DEPLOYED, json.dumps({"specs": [str(tmp_path / "in")], "outputs": [str(tmp_path / "out")]}))
    check_allowed(load_settings(), {"spec": tmp_path / "in" / "a.toml", "data": None}, {"out": tmp_path / "out"})
    for wrong in ("/etc/passwd", tmp_path / "in" / ".." / "x", tmp_path / "in" / "link" / "passwd", tmp_path / "in2"):
        with pytest.raises(InputError, match=r"spec: found .*; the setting allowed_specs of the worker's machine"):
            check_allowed(load_settings(), {"spec": Path(wrong)}, {})
        with pytest.raises(InputError, match="out: found"):
            check_allowed(load_settings(), {}, {"out": Path(wrong)})
    with pytest.raises(InputError, match="spec: found"):  # the worker's own settings are the stronger
        check_allowed(load_settings(allowed_specs=(tmp_path / "other",)), {"spec": tmp_path / "in" / "a.toml"}, {})


def test_prefect_yaml_states_deployments_that_there_can_be() -> None:
    """Entrypoints lead to flows, parameters fit their forms, and variables are settings."""
    import yaml
    from prefect.flows import Flow, load_flow_from_entrypoint

    stated = yaml.safe_load((PROJECT / "prefect.yaml").read_text("utf-8"))
    assert {one["name"] for one in stated["deployments"]} == {"example", "installed"}
    for one in stated["deployments"]:
        flow: Flow[..., Any] = load_flow_from_entrypoint(one["entrypoint"])
        flow.validate_parameters(one["parameters"])
        assert "spinewise" in one["tags"]
        assert one["concurrency_limit"] == 1
        for schedule in one["schedules"]:
            check_cron(schedule["cron"], schedule["timezone"])
        own = one["work_pool"]["job_variables"]
        assert own.keys() <= set(Settings.model_fields) & job_template([], [])["variables"]["properties"].keys()
        assert all(isinstance(value, str) for value in own.values())


def test_a_server_that_listens_to_others_needs_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another address of this machine stands for the network; every address of 127.0.0.0/8 is here."""
    monkeypatch.setattr(probe, "_own_addresses", lambda: ["127.0.0.2"])
    with answering() as (port, _):
        assert probe.open_to_others(f"http://127.0.0.1:{port}/api") == ""
    with answering("0.0.0.0") as (port, _):
        url = f"http://127.0.0.1:{port}/api"
        assert probe.open_to_others(url) == f"{url} does what anybody asks who can reach port {port} of 127.0.0.2"
        monkeypatch.setattr(probe, "is_loopback", lambda host: host == "localhost")
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
