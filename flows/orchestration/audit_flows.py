"""The audit of what is installed, as a Prefect flow; what is tested is the feature `audit`, found by name."""

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
from flows.orchestration.tasks import SETTINGS, WorkerCount, on_crash, on_failure  # noqa: E402
from pipeline.errors import SpinewiseError  # noqa: E402
from pipeline.execution.settings import load_settings  # noqa: E402


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
    result, html = feature.audit_to(out, quick=quick, seed=seed, workers=count)
    create_markdown_artifact(feature.audit_page(result, html), "spinewise-audit", "What the audit found.")
    if not result.passed:
        raise AuditError(f"{len(result.failed)} of {len(result.findings)} checks failed; see {html.resolve()}")
    return result


class AuditError(SpinewiseError):
    """An audit has found a fault; the same again would find it again."""

    exit_status = 1
