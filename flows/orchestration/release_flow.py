"""The Prefect flow of a release: its stages in order, each a task that holds the tasks of its steps.

Tasks take no arguments and return public values at most, so that nothing confidential can reach Prefect's database.
Errors of the steps that see the records are emptied of their text before Prefect sees them, see
`pipeline.confidential.refusals`. The stages are tasks and not flows, since a flow within a flow takes a third of a
second of two processes, and a task a hundredth.
"""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from flows.orchestration.environment import set_up_prefect

set_up_prefect()

from prefect import State, flow, runtime  # noqa: E402
from prefect.states import Completed  # noqa: E402

from flows.orchestration.allowed import check_allowed  # noqa: E402
from flows.orchestration.arrivals import Arrivals, last_released  # noqa: E402
from flows.orchestration.artifacts import ReleaseArtifacts  # noqa: E402
from flows.orchestration.retries import on_crash, on_failure  # noqa: E402
from flows.orchestration.server import server_is_temporary, temporary_server_ends_with_us  # noqa: E402
from flows.orchestration.tasks import SETTINGS, Stages, WorkerCount, perform_as_task, progress_of_run  # noqa: E402
from pipeline.confidential.custody import KeySource, configured_source  # noqa: E402
from pipeline.confidential.signing import signing_key  # noqa: E402
from pipeline.confidential.steps import Measured  # noqa: E402
from pipeline.errors import InputError, SpinewiseError  # noqa: E402
from pipeline.execution.settings import Settings, load_settings  # noqa: E402
from pipeline.execution.steps import Listeners, Silent  # noqa: E402
from pipeline.execution.workers import default_workers  # noqa: E402
from pipeline.runs.finished import is_finished  # noqa: E402
from pipeline.runs.request import Engine, Request, check_request  # noqa: E402
from pipeline.runs.run import release_run  # noqa: E402
from pipeline.runs.run_here import measuring_process  # noqa: E402
from pipeline.signatures.signing_keys import SigningKey  # noqa: E402
from pipeline.signatures.statement import sign_release, signature_of  # noqa: E402
from pipeline.spec.periods import releases_of  # noqa: E402
from pipeline.spec.release_spec import load_spec  # noqa: E402

#: The process that holds the master key, where it was started before the flow began; not a parameter, which Prefect
#: would store.
measured_of_run: ContextVar[Measured | None] = ContextVar("measured_of_run", default=None)


def signer_of(settings: Settings) -> SigningKey | None:
    """The key that the flow signs with; none in a run of the command line, which does it with the key given there."""
    return None if measured_of_run.get() is not None else signing_key(settings)


def name_of_run() -> str:
    """What Prefect's pages call the run: its release's name, which has the period; of several, that of the series."""
    if server_is_temporary():  # nobody sees it
        return "release"
    given = runtime.flow_run.parameters
    spec = Path(given["spec"])
    try:
        if runtime.deployment.id:
            check_allowed(load_settings(), {"spec": spec}, {})
        stated = load_spec(spec)
        return releases_of(stated).get(given.get("period") or "", stated.name)
    except (SpinewiseError, OSError):  # which the run itself will say
        return f"release of {spec}"


@flow(
    name="spinewise release",
    flow_run_name=name_of_run,
    persist_result=False,
    log_prints=False,
    timeout_seconds=SETTINGS.timeout,
    on_failure=[on_failure],
    on_crashed=[on_crash],
)
def release(  # noqa: PLR0913 - a flow has its parameters
    spec: Path,
    out: Path | None = None,
    data: Path | None = None,
    workers: WorkerCount | None = None,
    key_file: Path | None = None,
    scheduler: str | None = None,
    scratch: str | None = None,
    i_know: bool = False,
    period: str | None = None,
    arrival: Path | None = None,
) -> str | State[str]:
    """Run the release that a spec states, or resume it; returns the path of its directory.

    With `arrival`, the releases of a series whose records are there, one after the other, and what is waited for next.

    Args:
        spec: Path of the release spec, a TOML file.
        out: Folder in which the release's directory is made; by default that of the worker's settings.
        data: Records to use instead of the spec's; a file, or a folder.
        workers: Number of processes; by default that of the worker's settings, or all cores.
        key_file: Path of the master key; by default that of the worker's settings, or the run draws and keeps its own.
        scheduler: Address of a Dask scheduler, whose cluster works on the parts of a large spine; else this machine.
        scratch: Folder that this process and all Dask workers can reach; the run's own by default.
        i_know: Run although delta, the budget or the invariants are beyond the usual limits.
        period: Which release of the spec's series; its predecessors are in the same folder.
        arrival: File whose appearance begins the release of a period, which {period} in its path stands for.
    """
    settings = load_settings(out=out, workers=workers)
    if runtime.deployment.id:
        folder = None if scratch is None else Path(scratch)
        read = {"spec": spec, "data": data, "key_file": key_file, "arrival": arrival}
        check_allowed(settings, read, {"out": settings.out, "scratch": folder})
    key = configured_source(spec, settings) if key_file is None else KeySource(key_file)
    request = Request(
        spec=spec,
        out=settings.out,
        data=data,
        workers=default_workers() if settings.workers is None else settings.workers,
        key=key,
        engine=Engine(scheduler, scratch),
        i_know=i_know,
        period=period,
    )
    if arrival is None:
        return _made(request, settings)
    if period is not None:
        raise InputError(f"period: found {period}, and arrival, which releases all periods in their order")
    return _arrived(request, Arrivals(arrival, data), settings)


def _arrived(request: Request, arrivals: Arrivals, settings: Settings) -> State[str]:
    """Release all periods of a series that are due; an end that says what is waited for."""
    spec = load_spec(request.spec)
    signer = signer_of(settings)
    last = last_released(spec, request.out)
    if signer is not None and last is not None and not signature_of(last[1]).exists() and arrivals.is_there(last[0]):
        # A run that was killed before it had signed: made again it is found finished, if it is that run, and signed.
        _made(replace(request, data=arrivals.records_of(last[0]), period=last[0]), settings)
    while (period := arrivals.due(spec, request.out)) is not None:
        records = arrivals.records_of(period)
        if runtime.deployment.id:  # again, as its path may be a link
            check_allowed(settings, {"data": records}, {})
        _made(replace(request, data=records, period=period), settings)
    remark = arrivals.remark(spec, request.out)
    return Completed(message=remark, data=remark)


def _made(request: Request, settings: Settings) -> str:
    """Make a release; the path of its directory."""
    checked = check_request(request)
    signer = signer_of(settings)
    artifacts = ReleaseArtifacts(checked, seen=not server_is_temporary())
    progress = Listeners(progress_of_run.get(Silent()), artifacts)
    begun = measured_of_run.get()
    try:
        with ExitStack() as stack:
            stack.enter_context(temporary_server_ends_with_us())
            measured = begun or stack.enter_context(measuring_process(checked))
            if begun is None and is_finished(checked, measured):
                progress.found()
            else:
                perform = artifacts.noting(perform_as_task)
                run, stage = stack.enter_context(release_run(checked, progress, perform, measured)), Stages()
                for one in run.stages():
                    stage(one.name, one.perform, one.universe)
                run.finish()
        if signer is not None:
            sign_release(checked.run, signer)
        artifacts.finished(checked.run)
        return str(checked.run.root)
    finally:
        progress.close()
