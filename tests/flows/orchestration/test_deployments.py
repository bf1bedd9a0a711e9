"""A deployment stores paths and numbers, one dataset has one queue, and a slip is told before a server is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from releases.command import PROJECT, needs, spinewise
from releases.series_town import write_series_town
from releases.small import write_town

from flows.orchestration.allowed import DEPLOYED, check_allowed, deployed_folders
from flows.orchestration.deployments import Plan, check_cron, job_template, queue_of
from pipeline.errors import InputError
from pipeline.execution.settings import Settings, load_settings


def test_specs_of_one_dataset_share_a_queue() -> None:
    one = queue_of(["persons", "units"], Path("/srv/one"))
    assert one == queue_of(["units", "persons", "units"], Path("/srv/other")) == "dataset persons and units"
    assert queue_of([], Path("/srv/one")) == "directory :srv:one" != queue_of([], Path("/srv/other"))


def test_a_deployment_says_of_its_environment_how_often_runs_are_retried_and_nothing_else() -> None:
    plan = Plan("x", {}, "q", retries=3, retry_delay=1.5, timeout=60)
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


@needs("years")
def test_runs_are_called_as_their_releases_and_not_by_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.orchestration import release_flow

    monkeypatch.setenv(DEPLOYED, json.dumps({"specs": [str(tmp_path)], "outputs": []}))

    def name_of(spec: Path, **given: object) -> str:
        run = SimpleNamespace(parameters={"spec": str(spec), **given})
        runtime = SimpleNamespace(flow_run=run, deployment=SimpleNamespace(id="a deployment"))
        monkeypatch.setattr(release_flow, "runtime", runtime)
        return release_flow.name_of_run()

    series = write_series_town(tmp_path / "series")
    assert name_of(write_town(tmp_path / "town"), period=None) == "town"
    assert name_of(series, period="2032") == "padron-2032"
    assert name_of(series, period=None, arrival="persons-{period}.csv") == "padron"
    # What the run itself refuses is no reason to fail before it has said why.
    assert name_of(tmp_path / "missing.toml") == f"release of {tmp_path / 'missing.toml'}"
    monkeypatch.setenv(DEPLOYED, "{}")
    assert name_of(series) == f"release of {series}"
    assert release_flow.release.flow_run_name is release_flow.name_of_run


@pytest.mark.slow
def test_a_server_is_needed_and_either_a_spec_or_the_audit(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in")
    home: dict[str, Any] = {"PREFECT_HOME": str(tmp_path / "home"), "PREFECT_API_URL": ""}
    shown = spinewise("deploy", spec, **home)
    assert shown.returncode == 2
    assert "PREFECT_API_URL: missing; it names the Prefect server" in shown.stderr
    for arguments in ([], [spec, "--audit"]):
        shown = spinewise("deploy", *arguments, **home)
        assert shown.returncode == 2
        assert shown.stderr == "Error: deploy: give either a spec or --audit\n"
    away = spinewise("deploy", spec, **{**home, "PREFECT_API_URL": "http://127.0.0.1:9/api"})
    assert away.returncode == 1
    assert away.stderr.startswith("Error: Prefect's server at http://127.0.0.1:9/api/ cannot be used: ")
    assert "Traceback" not in away.stderr


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
