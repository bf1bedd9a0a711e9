"""The release as a Prefect flow: a task for each step, tens of them in a run.

Tasks take no arguments and give back public values at most, so that nothing confidential can reach Prefect's database.
Errors of the steps that see the records are emptied of their text before Prefect sees them, see `flows.refusals`.
"""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path

from flows.engine import set_up_prefect
from flows.threads import limit_threads

limit_threads()
set_up_prefect()

from prefect import Task, flow  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402

from flows.request import Engine, Request, check_request  # noqa: E402
from flows.run import run_release  # noqa: E402
from flows.steps import Notes, Progress, Silent, Step  # noqa: E402
from flows.watching import temporary_server_ends_with_us  # noqa: E402
from flows.workers import default_workers  # noqa: E402
from pipeline.privacy.keys import MasterKey  # noqa: E402

#: Who is told how far the run is; not a parameter, which Prefect would store.
progress_of_run: ContextVar[Progress] = ContextVar("progress_of_run")
#: The master key, where it was read before the flow began; not a parameter either.
key_of_run: ContextVar[MasterKey | None] = ContextVar("key_of_run", default=None)


@flow(name="spinewise release", flow_run_name="release of {spec}", persist_result=False, log_prints=False)
def release(
    spec: str,
    out: str = "releases",
    data: str | None = None,
    workers: int | None = None,
    key_file: str | None = None,
    engine: str = "local",
    scheduler: str | None = None,
    scratch: str | None = None,
) -> str:
    """Run the release that a spec states, or go on with it; returns the path of its directory.

    Args:
        spec: path of the spec file.
        out: folder in which the release's directory is made.
        data: records to use instead of the spec's; a file, or a folder.
        workers: number of processes; all cores by default.
        key_file: path of the master key; the run draws and keeps its own by default.
        engine: "local" or "dask": who works on the parts of a large spine.
        scheduler: address of the Dask scheduler.
        scratch: folder that this process and all Dask workers can reach; the run's own by default.
    """
    request = Request(
        spec=Path(spec),
        out=Path(out),
        data=None if data is None else Path(data),
        workers=default_workers() if workers is None else workers,
        key_file=None if key_file is None else Path(key_file),
        key=key_of_run.get(),
        engine=Engine(engine, scheduler, scratch),
    )
    progress = progress_of_run.get(Silent())
    try:
        with temporary_server_ends_with_us():
            return str(run_release(check_request(request), progress, perform_as_task))
    finally:
        progress.close()


def perform_as_task(step: Step) -> Notes | None:
    """Perform a step as a task of the flow that runs."""
    return Task(
        fn=step.perform, name=step.stage, task_run_name=step.name, cache_policy=NO_CACHE, persist_result=False
    )()
