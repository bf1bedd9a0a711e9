"""What may pass is tried again; who runs it is told; pages show public values alone, under the release's name."""

from __future__ import annotations

import json
import logging
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pandas as pd
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed, Failed
from releases.command import needs, spinewise
from releases.small import QUICK, request_of, write_town
from releases.web import answering

import flows.orchestration.release_flow
import flows.orchestration.tasks
from flows.orchestration.release_flow import ReleaseArtifacts
from flows.orchestration.tasks import on_crash, on_failure, tries_before
from pipeline.errors import BudgetRefusedError, InputError, RecordsError, RefusedError, ReleaseError
from pipeline.execution.faults import may_be_retried
from pipeline.execution.settings import Settings, load_settings
from pipeline.execution.steps import Listeners, perform_here
from pipeline.execution.workers import WorkerError
from pipeline.privacy.ledger.events import LedgerError
from pipeline.runs.run import run_release
from postprocess.errors import InfeasibleError, SolverError

PASSING = (
    *(ReleaseError("no space left"), WorkerError("killed"), LedgerError("locked"), OSError("stale")),
    RefusedError("tabulate", Path("x"), 1),
)


FINAL = (
    *(InputError("wrong"), RecordsError("wrong"), InfeasibleError("wrong"), BudgetRefusedError("nothing left")),
    *(RefusedError("tabulate", Path("x"), 2), SolverError("did not converge"), ValueError("a defect")),
    KeyboardInterrupt(),
)


def test_what_may_pass_is_tried_again_and_what_is_final_is_not() -> None:
    assert [error for error in PASSING if not may_be_retried(error)] == []
    assert [error for error in FINAL if may_be_retried(error)] == []


class Named:
    name = "spinewise release"


def run_of(*tags: str, deployment: UUID | None = None) -> FlowRun:
    return FlowRun(
        flow_id=uuid4(),
        name="release of x",
        deployment_id=deployment or uuid4(),
        tags=list(tags),
        parameters={"spec": "x"},
    )


def test_the_operator_is_told_by_command_and_webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINEWISE_ON_FAILURE_COMMAND", f"tee '{tmp_path / 'told'}'")
    run = run_of("retry:1")
    with answering(status=204) as (port, told):
        monkeypatch.setenv("SPINEWISE_ON_FAILURE_WEBHOOK", f"http://127.0.0.1:{port}/hook")
        on_failure(Named, run, Failed(message="tabulate: stopped"))  # type: ignore[arg-type]
    assert json.loads((tmp_path / "told").read_text()) == told[0]
    assert told[0] | {"event": "spinewise run failed", "state": "Failed", "message": "tabulate: stopped"} == told[0]
    assert (told[0]["run_id"], told[0]["parameters"], told[0]["tries"]) == (str(run.id), {"spec": "x"}, 2)
    run.deployment_id = None
    (tmp_path / "told").unlink()
    on_failure(Named, run, Failed())  # type: ignore[arg-type]
    assert not (tmp_path / "told").exists(), "of a run by hand nobody is told"


def test_a_hook_that_fails_hides_nothing_and_shows_no_address(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SPINEWISE_ON_FAILURE_WEBHOOK", "http://127.0.0.1:9/SECRETPATH")
    monkeypatch.setenv("SPINEWISE_ON_FAILURE_COMMAND", "no-such-program SECRETWORD")
    on_failure(Named, run_of(), Failed())  # type: ignore[arg-type]
    assert "on_failure_command failed: FileNotFoundError" in caplog.text
    assert "on_failure_webhook failed: URLError" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_lost_process_is_followed_by_as_many_runs_as_there_are_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[dict[str, Any]] = []
    told: list[FlowRun] = []

    class Client:
        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: object) -> None: ...

        def create_flow_run_from_deployment(self, deployment: UUID, **given: Any) -> None:
            created.append({"deployment": deployment, **given})

    def note(_flow: str, run: FlowRun, _state: object, _settings: Settings) -> None:
        told.append(run)

    monkeypatch.setattr("prefect.client.orchestration.get_client", lambda **_: Client())
    monkeypatch.setattr(flows.orchestration.tasks, "tell_operator", note)
    monkeypatch.setenv("SPINEWISE_RETRIES", "2")
    run = run_of("nightly")
    for tries in (1, 2):
        on_crash(Named, run, Crashed())  # type: ignore[arg-type]
        again = created[-1]
        assert again["deployment"] == run.deployment_id
        assert again["parameters"] == {"spec": "x"}
        assert again["tags"] == ["nightly", f"retry:{tries}"]
        run = run_of(*again["tags"])
        assert tries_before(run) == tries
    assert told == []
    on_crash(Named, run, Crashed())  # type: ignore[arg-type]
    assert len(created) == 2
    assert told == [run]


@pytest.mark.slow
def test_a_step_that_may_pass_is_performed_again_and_a_final_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the engine, with its own server."""
    from prefect import flow
    from prefect.testing.utilities import prefect_test_harness

    import flows.orchestration.tasks
    from pipeline.execution.steps import Step

    monkeypatch.setattr(flows.orchestration.tasks, "SETTINGS", load_settings(retries=2, retry_delay=0.01))
    tried: list[str] = []

    def fail(times: int, error: Exception) -> None:
        tried.append(str(error))
        if tried.count(str(error)) <= times:
            raise error

    def perform(times: int, error: Exception) -> None:
        @flow(name="one")
        def one() -> None:
            flows.orchestration.tasks.perform_as_task(Step("measure", lambda: fail(times, error)))

        one()

    with prefect_test_harness(server_startup_timeout=120):
        perform(2, ReleaseError("passes"))
        with pytest.raises(ReleaseError):
            perform(9, ReleaseError("stays"))
        with pytest.raises(InputError):
            perform(9, InputError("final"))
    assert [tried.count(text) for text in ("passes", "stays", "final")] == [3, 3, 1]


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_stopped_and_can_be_gone_on_with(tmp_path: Path) -> None:
    spec = write_town(tmp_path / "in", ("replicates = 3", "replicates = 5000"))
    variables: dict[str, Any] = {"PREFECT_HOME": str(tmp_path / "home"), "SPINEWISE_TIMEOUT": "8"}
    shown = spinewise("run", spec, "--out", tmp_path, "--workers", 1, **variables)
    assert shown.returncode == 1
    root = tmp_path / "town"
    told = f"{root}: stopped after 8 s, the setting timeout; the same command resumes it"
    assert shown.stderr.splitlines()[-1] == f"Error: {told}"
    assert "Traceback" not in shown.stderr
    assert not (root / "public" / "manifest.json").exists()
    assert "run stops: CancelledError" in (root / "restricted" / "run.log").read_text()


class Pages:
    """In the place of Prefect's client: keeps what is made, or is away."""

    def __init__(self) -> None:
        self.away = False
        self.calls = 0
        self.made: dict[str, Any] = {}
        self.progress: list[tuple[float, str]] = []

    def make(self, content: object, key: str, description: str) -> UUID:
        self.calls += 1
        if self.away:
            raise ConnectionError("away")
        assert description
        self.made[key] = content
        return uuid4()

    def update(self, _: UUID, progress: float, text: str) -> None:
        self.progress.append((progress, text))


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    found = Pages()
    monkeypatch.setattr(flows.orchestration.release_flow, "_OFTEN", 0.0)
    for name in ("create_table_artifact", "create_progress_artifact", "create_markdown_artifact"):
        monkeypatch.setattr(flows.orchestration.release_flow, name, found.make)
    monkeypatch.setattr(flows.orchestration.release_flow, "update_progress_artifact", found.update)
    monkeypatch.setattr(
        flows.orchestration.release_flow, "get_run_logger", lambda: logging.getLogger("spinewise.tests")
    )
    return found


def released(spec: Path, out: Path) -> Path:
    """A run that tells the pages; its directory."""
    checked = request_of(spec, out)
    artifacts = ReleaseArtifacts(checked)
    root = run_release(checked, Listeners(artifacts), artifacts.noting(perform_here))
    artifacts.finished(checked.run)
    artifacts.close()
    return root


@needs("report")
def test_artifacts_have_public_values_alone(tmp_path: Path, pages: Pages, caplog: pytest.LogCaptureFixture) -> None:
    """The count of one cell, a number that stands for nothing else, is in none of them, and in no line of the log."""
    spec = write_town(tmp_path / "in", *QUICK)
    planted = 7_340_033
    units = pd.read_csv(tmp_path / "in" / "units.csv", dtype=str)
    units.loc[(units["block"] == "A0101") & (units.iloc[:, 1] == "vacant"), "count"] = str(planted)
    assert (units["count"] == str(planted)).sum() == 1
    units.to_csv(tmp_path / "in" / "units.csv", index=False)
    with caplog.at_level(logging.DEBUG):
        root = released(spec, tmp_path / "out")
    names = {"plan", "budget", "solver", "sizes", "times", "progress", "release"}
    assert set(pages.made) == {f"town-{name}" for name in names}
    shown = json.dumps([pages.made, pages.progress]) + caplog.text
    assert str(planted) not in shown
    assert f"{planted:,}" not in shown
    truth = pd.read_parquet(root / "restricted" / "companions" / "units" / "histograms" / "county.parquet")["count"]
    assert truth.max() > planted
    assert not [count for count in truth if count > 1000 and str(count) in shown]
    assert [row["bytes"] for row in pages.made["town-sizes"]] == [
        (root / "public" / row["file"]).stat().st_size for row in pages.made["town-sizes"]
    ]
    assert {row["step"] for row in pages.made["town-solver"]} >= {"estimate block", "estimate units block"}
    assert "NOT FOR RELEASE" in pages.made["town-release"]
    assert (root / "public" / "report.html").as_uri() in pages.made["town-release"]
    assert "estimate block: 23 geounits, " in caplog.text
    shares: dict[str, Fraction] = {}
    for row in pages.made["town-budget"]:
        shares[row["universe"]] = shares.get(row["universe"], Fraction(0)) + Fraction(row["share"])
    assert shares == {"main": 1, "units": 1}
    told = [share for share, _ in pages.progress]
    assert (told, told[-1]) == (sorted(told), 100)
    # A server that is away stops nothing, and is not asked again.
    pages.away, asked = True, pages.calls
    assert released(spec, tmp_path / "out") == root
    assert pages.calls == asked + 1
    assert "takes no artifacts (ConnectionError)" in caplog.text
