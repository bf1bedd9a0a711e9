"""Audits as Prefect flows: the rerun of a release, and the tests of what is installed.

As in `flows.release`, no flow or task is given or gives back anything confidential: paths go in, and what differs in
public files comes out. A key that does not come from a file is handed over beside Prefect, in `key_of_rerun`.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from flows.engine import set_up_prefect

set_up_prefect()

from prefect import flow  # noqa: E402

from flows.audit_steps import Tell, audit_installed  # noqa: E402
from flows.custody import KeySource, key_of_release  # noqa: E402
from flows.release import perform_as_task, progress_of_run  # noqa: E402
from flows.rerun import Rerun, rerun_release, universes_to_rerun  # noqa: E402
from flows.steps import Silent  # noqa: E402
from flows.verify import release_at  # noqa: E402
from flows.watching import temporary_server_ends_with_us  # noqa: E402
from flows.workers import default_workers  # noqa: E402
from pipeline.audit.findings import Audit, Finding  # noqa: E402
from pipeline.audit.report import write_audit  # noqa: E402
from pipeline.privacy.keys import MasterKey  # noqa: E402

#: The key, where it was read before the flow began.
key_of_rerun: ContextVar[MasterKey | None] = ContextVar("key_of_rerun", default=None)
#: Who is told of each finding.
listener: ContextVar[Tell | None] = ContextVar("listener", default=None)


@flow(name="spinewise rerun", flow_run_name="rerun of {release}", persist_result=False, log_prints=False)
def rerun(
    release: str,
    data: str | None = None,
    spec: str | None = None,
    key_file: str | None = None,
    workers: int | None = None,
) -> Rerun:
    """Compute a release again from its records and its key, and compare every public file.

    Args:
        release: path of its directory.
        data: records, a file or a folder; by default those that the run read.
        spec: path of its spec, if the run's restricted/ folder is not there.
        key_file: path of its key, if the run did not keep it.
        workers: number of processes; all cores by default.
    """
    run = release_at(Path(release))
    universes = universes_to_rerun(run, None if data is None else Path(data), None if spec is None else Path(spec))
    key = key_of_rerun.get()
    if key is None:
        key = key_of_release(run, KeySource(file=None if key_file is None else Path(key_file)))
    progress = progress_of_run.get(Silent())
    count = default_workers() if workers is None else workers
    try:
        with temporary_server_ends_with_us():
            return rerun_release(run, universes, key, count, progress, perform_as_task)
    finally:
        progress.close()


@flow(name="spinewise audit", persist_result=False, log_prints=False)
def audit(out: str = "audit", quick: bool = False, seed: int = 1, workers: int | None = None) -> Audit:
    """Test the installed samplers and pipeline, and write the reports; a scheduled audit looks at `passed`.

    Args:
        out: folder of audit.html and audit.json.
        quick: half a minute instead of several.
        seed: of the public test keys.
        workers: number of processes; all cores by default.
    """
    tell = listener.get() or _unheard
    count = default_workers() if workers is None else workers
    with temporary_server_ends_with_us():
        found = audit_installed(quick=quick, seed=seed, workers=count, tell=tell)
    write_audit(found, Path(out))
    return found


def _unheard(finding: Finding) -> None:
    """Tell nobody."""
