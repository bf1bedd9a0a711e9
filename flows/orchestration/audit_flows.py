"""Audits as Prefect flows: the rerun of a release, and the tests of what is installed.

As in `release_flow`, no flow or task is given or gives back anything confidential: paths go in, and what differs in
public files comes out. What is tested of an installation is the feature `audit`, found by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from flows.orchestration.server import set_up_prefect

set_up_prefect()

from prefect import flow, runtime  # noqa: E402
from prefect.artifacts import create_markdown_artifact  # noqa: E402
from pydantic import Field  # noqa: E402

from features.registry import part_of  # noqa: E402
from flows.orchestration.deployed import check_allowed  # noqa: E402
from flows.orchestration.server import temporary_server_ends_with_us  # noqa: E402
from flows.orchestration.tasks import SETTINGS, WorkerCount, on_crash, on_failure, perform_as_task  # noqa: E402
from pipeline.confidential.custody import KeySource  # noqa: E402
from pipeline.errors import SpinewiseError  # noqa: E402
from pipeline.execution.settings import load_settings  # noqa: E402
from pipeline.execution.steps import Silent  # noqa: E402
from pipeline.published import release_at  # noqa: E402
from pipeline.runs.rerun import Rerun, rerun_here, universes_to_rerun  # noqa: E402


def name_of_rerun() -> str:
    """What Prefect's pages call a rerun: the release's name, which is its directory's."""
    return f"rerun of {release_at(Path(runtime.flow_run.parameters['release'])).root.resolve().name}"


@flow(name="spinewise rerun", flow_run_name=name_of_rerun, persist_result=False, log_prints=False)
def rerun(
    release: Path,
    data: Path | None = None,
    spec: Path | None = None,
    key_file: Path | None = None,
    workers: WorkerCount | None = None,
) -> Rerun:
    """Compute a release again from its records and its key, and compare every public file.

    Args:
        release: Path of its directory.
        data: Records, a file or a folder; by default those that the run read.
        spec: Path of its spec, if the run's restricted/ folder is not there.
        key_file: Path of its key, if the run did not keep it.
        workers: Number of processes; all cores by default.
    """
    if runtime.deployment.id:
        check_allowed(load_settings(), {"data": data, "spec": spec, "key_file": key_file}, {"release": release})
    run = release_at(release)
    universes = universes_to_rerun(run, data, spec)
    source, settings = KeySource(file=key_file), load_settings(workers=workers)
    with temporary_server_ends_with_us():
        return rerun_here(run, universes, source, settings, Silent(), perform_as_task)


@flow(
    name="spinewise audit",
    flow_run_name="audit of the installation",
    persist_result=False,
    log_prints=False,
    timeout_seconds=SETTINGS.timeout,
    on_failure=[on_failure],
    on_crashed=[on_crash],
)
def audit(
    out: Path = Path("audit"),
    quick: bool = False,
    seed: Annotated[int, Field(ge=0, le=10**6)] = 1,
    workers: WorkerCount | None = None,
) -> Any:
    """Test the installed samplers and pipeline, and write the reports; an audit that finds a fault ends as failed.

    Args:
        out: Folder of audit.html and audit.json.
        quick: Half a minute instead of several.
        seed: Of the public test keys; the same seed gives the same findings.
        workers: Number of processes; by default that of the worker's settings, or all cores.
    """
    settings = load_settings(workers=workers)
    if runtime.deployment.id:
        check_allowed(settings, {}, {"out": out})
    count = settings.processes
    feature = part_of("audit", "installed")
    with temporary_server_ends_with_us():
        result, html = feature.audit_to(out, quick=quick, seed=seed, workers=count)
    create_markdown_artifact(feature.audit_page(result, html), "spinewise-audit", "What the audit found.")
    if not result.passed:
        raise AuditError(f"{len(result.failed)} of {len(result.findings)} checks failed; see {html.resolve()}")
    return result


class AuditError(SpinewiseError):
    """An audit has found a fault; the same again would find it again."""

    exit_status = 1
