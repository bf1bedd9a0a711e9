"""`spinewise run`: a release, from records to published files."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.execution.options import (
    DataOption,
    JsonOption,
    KeyOption,
    LedgerOption,
    OutOption,
    Output,
    PeriodOption,
    SignKeyOption,
    SpecArgument,
    WorkersOption,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pipeline.confidential.process import RecordHolder
    from pipeline.execution.steps import Progress
    from pipeline.runs.request import CheckedRequest


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", short_help="Run a release from its spec.")(run)


def run(
    context: typer.Context,
    spec: SpecArgument,
    out: OutOption = None,
    data: DataOption = None,
    period: PeriodOption = None,
    workers: WorkersOption = None,
    key: KeyOption = None,
    sign_key: SignKeyOption = None,
    ledger: LedgerOption = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Have a Dask cluster compute the parts of a large spine: its scheduler, such as tls://10.0.0.5:8786.",
        ),
    ] = None,
    scratch: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Folder that this machine and all Dask workers can reach: a path, s3://... or gs://... "
            "[default: the release's directory]",
        ),
    ] = None,
    measurements: Annotated[
        Path | None,
        typer.Option(
            metavar="NMF_DIR",
            help="Compute it instead from noisy measurements made with other software; no records, no key.",
        ),
    ] = None,
    no_prefect: Annotated[
        bool, typer.Option("--no-prefect", help="Run without Prefect: starts faster, and is recorded on no server.")
    ] = False,
    i_know: Annotated[
        bool,
        typer.Option(
            "--i-know",
            help="Run although delta, the budget or the invariants are beyond the usual limits; the release says so.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Run a release, and print its directory.

    The release is written to OUT/<name>: public/ may be published, restricted/ must not. The same command resumes an
    interrupted run, does nothing if the run is finished, and refuses to continue a directory that belongs to other
    records or another spec.

    The privacy losses of releases of the same records add up. After the run, one line states their sum so far: from the
    ledger or, if nothing was charged, from the releases of the same file in the same folder.

    --measurements: NMF_DIR has a Parquet file (or a folder of them) for each level, with the columns geocode,
    query_name, query_shape, value and variance: the layout in which the Census Bureau published its measurements of
    2020, and which spinewise export --format nmf writes. Companions are in companions/NAME. Rows with variance 0 are
    invariants. Every query of the spec must be present for every area, with the variance that follows from the spec's
    budget. The manifest states that the noise was not drawn by Spinewise.

    Example:

        spinewise run examples/rhode_island.toml --out /srv/releases --workers 4

        spinewise run examples/rhode_island.toml --measurements measurements --out estimated
    """
    from pipeline.execution.threads import spare_pandas

    spare_pandas()
    output = Output.of(context, json=json)
    if measurements is not None:
        from pipeline.runs.from_measurements import estimate_release

        _run_without_records(context, "--measurements", partial(estimate_release, measurements), output)
        return
    from flows.orchestration.server import temporary_server
    from pipeline.execution.faults import stopping_loses_nothing
    from pipeline.execution.settings import load_settings
    from pipeline.model.universe import promised
    from pipeline.release.layout import RunDirectory
    from pipeline.spec.periods import at_period
    from pipeline.spec.release_spec import load_spec

    settings = load_settings(out=out, workers=workers)
    parsed = at_period(load_spec(spec), period, settings.out)  # mistakes are reported before a server is started
    if not promised(parsed.universes()):
        from pipeline.runs.from_measurements import received_release

        _run_without_records(context, "numbers that others published", received_release, output)
        return
    if ledger is not None:
        os.environ["SPINEWISE_LEDGER"] = ledger
    stopping_loses_nothing()
    found = RunDirectory(settings.out / parsed.name).finished.is_file()  # there may be nothing to do
    if not no_prefect and not found:
        # It starts while the rest is imported and records are read.
        context.with_resource(temporary_server())
    from pipeline.confidential.custody import configured_source, given_source, signing_key
    from pipeline.execution.console import remarks_of_end
    from pipeline.release.manifest import read_manifest
    from pipeline.runs.finished import added_up
    from pipeline.runs.request import Engine, Request, check_ledger_is_used, check_request
    from pipeline.signatures.statement import sign_release

    source = configured_source(spec, settings) if key is None else given_source(key)
    signer = signing_key(settings, sign_key)
    way = Engine(scheduler, scratch)
    request = Request(spec, settings.out, data, settings.processes, source, way, i_know, period)
    checked = check_request(request)  # before an engine is started
    stated = context.get_parameter_source("ledger")
    asked_for = stated is not None and stated.name == "COMMANDLINE"
    if ledger is not None and (odd := check_ledger_is_used(checked.universes, asked_for=asked_for)):
        output.remark(f"Warning: {odd}")
    if no_prefect:
        from pipeline.runs.run_here import run_here

        run_here(checked, output.progress(), settings)
    else:
        _run_with_prefect(checked, settings.timeout, output.progress(), temporary_server if found else nullcontext)
    if signer is not None:
        sign_release(checked.run, signer)
    remarks = remarks_of_end(checked.run)
    for remark in (*remarks, promise := read_manifest(checked.run.manifest).promise):
        output.remark(remark)
    if not output.quiet and (sum_of_losses := added_up(checked.run)):
        output.remark(sum_of_losses)
    root = checked.run.root
    output.result(
        str(root), {"release": checked.spec.name, "directory": str(root), "remarks": remarks, "promise": promise}
    )


def _run_without_records(
    context: typer.Context, what: str, released: Callable[[Path, Path, int, Progress], Path], output: Output
) -> None:
    """Compute a release from other software's measurements, or from numbers that others published.

    The options of records and keys are refused; `what` names in a message what does without.
    """
    from pipeline.errors import InputError
    from pipeline.execution.settings import load_settings

    allowed = ("spec", "out", "workers", "measurements", "json")
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name not in allowed and source is not None and source.name == "COMMANDLINE":
            raise InputError(f"{parameter.opts[-1]}: found with {what}, which does without; leave one of them out")
    given = context.params
    settings = load_settings(out=given["out"], workers=given["workers"])
    progress = output.progress()
    try:
        root = released(given["spec"], settings.out, settings.processes, progress)
    finally:
        progress.close()
    output.result(str(root), {"release": root.name, "directory": str(root)})


def _run_with_prefect(
    checked: CheckedRequest,
    timeout: float | None,
    progress: Progress,
    server: Callable[[], AbstractContextManager[None]],
) -> None:
    """Run the release as a Prefect flow; progress and the process that holds the key are handed over beside it."""
    from pipeline.runs.finished import is_finished
    from pipeline.runs.run_here import measuring_process

    with measuring_process(checked) as measured:  # before the engine is imported and asked for anything
        if is_finished(checked, measured):
            progress.found()
            return
        with server():
            _run_flow(checked, timeout, progress, measured)


def _run_flow(checked: CheckedRequest, timeout: float | None, progress: Progress, measured: RecordHolder) -> None:
    """Run the flow in this process."""
    from flows.orchestration.release_flow import measured_of_run, release
    from flows.orchestration.tasks import is_time_up, progress_of_run
    from pipeline.execution.faults import tell_nothing_more, timed_out

    request = checked.request
    tokens = progress_of_run.set(progress), measured_of_run.set(measured)
    try:
        release(
            spec=request.spec,
            out=request.out,
            data=request.data,
            workers=request.workers,
            key_file=request.key.file,
            scheduler=request.engine.scheduler,
            scratch=request.engine.scratch,
            i_know=request.i_know,
            period=request.period,
        )
    except Exception as error:
        if timeout is None or not is_time_up(error):
            raise
        tell_nothing_more()
    else:
        return
    finally:
        progress_of_run.reset(tokens[0])
        measured_of_run.reset(tokens[1])
    raise timed_out(checked.run.root, timeout)  # here, where it is no error of what was interrupted
