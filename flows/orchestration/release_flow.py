"""The Prefect flow of a release: its stages in order, each a task that holds the tasks of its steps.

Tasks take no arguments and return public values at most, so that nothing confidential can reach Prefect's database.
Errors of the steps that see the records are emptied of their text before Prefect sees them, see
`pipeline.confidential.refusals`. The stages are tasks and not flows, since a flow within a flow takes a third of a
second of two processes, and a task a hundredth.

On Prefect's pages a run shows its progress and tables of public values: the plan, the budget, what the solvers report,
sizes and times. Nothing there is given a count.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.orchestration.server import set_up_prefect
from flows.orchestration.tasks import on_crash, on_failure

set_up_prefect()

from prefect import State, flow, runtime  # noqa: E402
from prefect.artifacts import (  # noqa: E402
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_run_logger  # noqa: E402
from prefect.states import Completed  # noqa: E402

from flows.orchestration.deployed import (  # noqa: E402
    Arrivals,
    check_allowed,
    last_released,
)
from flows.orchestration.server import server_is_temporary, temporary_server_ends_with_us  # noqa: E402
from flows.orchestration.tasks import SETTINGS, Stages, WorkerCount, perform_as_task, progress_of_run  # noqa: E402
from pipeline.confidential.custody import (  # noqa: E402
    KeySource,
    configured_source,
    signing_key,
)
from pipeline.confidential.process import RecordHolder  # noqa: E402
from pipeline.errors import InputError, SpinewiseError  # noqa: E402
from pipeline.execution.settings import Settings, load_settings, memory_now  # noqa: E402
from pipeline.execution.steps import (  # noqa: E402
    FOUND,
    CountedWork,
    Listeners,
    Notes,
    Perform,
    Silent,
    Step,
    shown_time,
)
from pipeline.model.exact import decimal_text  # noqa: E402
from pipeline.model.universe import promised  # noqa: E402
from pipeline.release.layout import RunDirectory  # noqa: E402
from pipeline.release.manifest import read_manifest  # noqa: E402
from pipeline.release.privacy_statement import drawn_of  # noqa: E402
from pipeline.runs.finished import is_finished  # noqa: E402
from pipeline.runs.from_measurements import received_release  # noqa: E402
from pipeline.runs.request import CheckedRequest, Engine, Request, check_request  # noqa: E402
from pipeline.runs.run import release_run  # noqa: E402
from pipeline.runs.run_here import measuring_process  # noqa: E402
from pipeline.signatures.signing_keys import SigningKey  # noqa: E402
from pipeline.signatures.statement import sign_release, signature_of  # noqa: E402
from pipeline.spec.periods import releases_of  # noqa: E402
from pipeline.spec.release_spec import load_spec  # noqa: E402

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.logging.loggers import LoggingAdapter

#: The process that holds the master key, where it was started before the flow began; not a parameter, which Prefect
#: would store.
measured_of_run: ContextVar[RecordHolder | None] = ContextVar("measured_of_run", default=None)


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
        workers=settings.processes,
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
    if not promised(checked.universes):
        return str(received_release(checked.spec, request.out, request.workers, Silent()))
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


#: Seconds between two updates of the progress.
_OFTEN = 2.0

Row = dict[str, object]


class ReleaseArtifacts(CountedWork):
    """A progress that makes artifacts of the flow run, under keys that begin with the release's name.

    A server that cannot be reached does not stop a run: from the first failure on no more artifacts are made.

    Args:
        seen: whether anybody can look at the server; if not, no artifacts are made.
    """

    def __init__(self, checked: CheckedRequest, *, seen: bool = True) -> None:
        super().__init__()
        self._checked = checked
        self._name = re.sub(r"[^a-z0-9]+", "-", checked.spec.name.lower()).strip("-") or "release"
        self._progress: UUID | None = None
        self._updated_at = 0.0
        self._solver: list[Row] = []
        self._times: list[Row] = []
        self._reachable = seen
        self._log: LoggingAdapter | logging.Logger = get_run_logger()

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Take note of all steps, before the first."""
        super().begin(steps)
        self._log.info("%s: begins in %s, %d steps", self._checked.spec.name, self._checked.run.root, len(steps))
        self._table("plan", plan_rows(steps), "The steps of the run, in order.")
        self._table("budget", budget_rows(self._checked), "How the privacy-loss budget is spent.")
        self._progress = self._make(create_progress_artifact, 0.0, f"{self._name}-progress", "The run begins.")

    def start(self, step: Step) -> None:
        """A step begins."""
        super().start(step)
        self._update(step.name)

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        super().advance(geounits)
        if self.step is not None and time.monotonic() - self._updated_at >= _OFTEN:
            done = self.geounits_done
            self._update(f"{self.step.name}: {done}" if done else self.step.name)

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""
        super().finish(step, seconds)
        memory = memory_now()
        self._times.append(
            {
                "step": step.name,
                "geounits": step.geounits,
                "seconds": "done before" if seconds is None else round(seconds, 2),
                "memory, MB": round(memory / 1e6),
            }
        )
        took = "done before" if seconds is None else f"{seconds:.2f} s"
        self._log.info("%s: %d geounits, %s, memory %.0f MB", step.name, step.geounits, took, memory / 1e6)

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""
        self._log.info("%s: %s", self._checked.spec.name, FOUND)

    def close(self) -> None:
        """Nothing more is reported."""
        self._table("times", self._times, "How long each step took, and the memory at its end.")

    def noting(self, perform: Perform) -> Perform:
        """`perform`, which also adds the notes of a step's solvers to their table."""

        def performed(step: Step) -> Notes | None:
            notes = perform(step)
            if notes:
                self._solver.append({"step": step.name, **{name: _as_text(value) for name, value in notes.items()}})
            return notes

        return performed

    def finished(self, run: RunDirectory) -> None:
        """The release is whole: what the solvers did, the sizes of the files, and where everything is."""
        manifest = read_manifest(run.manifest)
        sizes: list[Row] = [{"file": name, "bytes": file.bytes} for name, file in sorted(manifest.files.items())]
        self._table("solver", self._solver, "What the solvers did, with the largest residuals.")
        self._table("sizes", sizes, "The public files.")
        total = sum(file.bytes for file in manifest.files.values())
        took = shown_time(time.monotonic() - self._began)
        self._log.info("%s: done in %s, %d public files, %.1f MB", manifest.release, took, len(sizes), total / 1e6)
        if self._progress is not None:
            self._make(update_progress_artifact, self._progress, 100.0, "The release is done.")
        page = result_page(run, manifest.release, manifest.status, len(sizes), total, took)
        self._make(create_markdown_artifact, page, f"{self._name}-release", "The release, and where it is.")

    def _update(self, text: str) -> None:
        self._updated_at = time.monotonic()
        left = self.seconds_left
        rest = "" if left is None else f", about {shown_time(left)} left"
        text = f"{text}{rest}, memory {memory_now() / 1e6:.0f} MB"
        if self._progress is not None:
            self._make(update_progress_artifact, self._progress, round(100 * self.share, 1), text)

    def _table(self, name: str, rows: list[Row], text: str) -> None:
        if rows:
            self._make(create_table_artifact, rows, f"{self._name}-{name}", text)

    def _make(self, function: Callable[..., Any], *arguments: object) -> Any:
        if not self._reachable:
            return None
        try:
            return function(*arguments)
        except Exception as error:  # whatever Prefect's client raises: the run is worth more than its artifacts
            self._reachable = False
            self._log.warning(
                "Prefect's server takes no artifacts (%s); the run continues without", type(error).__name__
            )
            return None


def plan_rows(steps: tuple[Step, ...]) -> list[Row]:
    """The steps of a run, with how many geounits each goes through and its part of the work."""
    total = sum(step.work for step in steps) or 1.0
    return [
        {
            "step": step.name,
            "stage": step.stage,
            "universe": step.universe or "main",
            "level": step.level,
            "geounits": step.geounits,
            "part of the work": f"{step.work / total:.1%}",
        }
        for step in steps
    ]


def budget_rows(checked: CheckedRequest) -> list[Row]:
    """Every measurement with its share of the budget and its noise."""
    rows: list[Row] = []
    for universe in checked.universes:
        rows += [
            {
                "universe": universe.name or "main",
                "budget": f"{universe.framework} {universe.budget}",
                "level": drawn.level,
                "query": drawn.query,
                "share": str(drawn.cost / universe.budget),
                "mechanism": drawn.mechanism.mechanism,
                "scale": decimal_text(drawn.mechanism.scale),
            }
            for drawn in drawn_of(universe)
        ]
    return rows


def result_page(run: RunDirectory, name: str, status: str, files: int, size: int, took: str) -> str:
    """Markdown that shows where a release is, and what to do with it."""
    page = run.report if run.report.is_file() else run.manifest
    what = "The report" if page == run.report else "The manifest"
    return (
        f"# Release {name}\n\n{status}; {files} public files, {size / 1e6:.1f} MB, in {took}.\n\n"
        f"- [{what}]({page.resolve().as_uri()}): `{page.resolve()}`\n"
        f"- May be published: `{run.public.resolve()}`\n"
        f"- Must not: `{run.restricted.resolve()}`\n\n"
        f"Check it with `spinewise verify {run.root.resolve()}`.\n"
    )


def _as_text(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {number}" for name, number in value.items())
    return value
