"""`spinewise deploy`: a release, or the audit, as a deployment on a Prefect server; `spinewise worker` executes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.execution.options import DataOption, PeriodOption, WorkersOption


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("deploy", short_help="Deploy a release or the audit on a Prefect server.")(deploy)
    app.command("worker", short_help="Execute what is scheduled on a Prefect server.")(worker)


def deploy(
    spec: Annotated[
        Path | None, typer.Argument(help="The release spec; none with --audit.", metavar="SPEC", show_default=False)
    ] = None,
    audit: Annotated[bool, typer.Option("--audit", help="Deploy the audit of what is installed instead.")] = False,
    cron: Annotated[
        str | None, typer.Option(help='When it runs by itself, such as "0 2 * * *"; by default only on request.')
    ] = None,
    timezone: Annotated[str, typer.Option(help="Of --cron, such as Europe/Vienna.")] = "UTC",
    name: Annotated[str | None, typer.Option(help="Name of the deployment; by default the release's.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the releases, or of the audit's reports. [default: releases; audit]")
    ] = None,
    data: DataOption = None,
    period: PeriodOption = None,
    wait_for: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Release each period of a [series], in order, when its file is there, such as "
            "'in/persons-{period}.parquet'; these are the records, unless --data, with {period} too, names others.",
        ),
    ] = None,
    workers: WorkersOption = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="SOURCE", help="The master key: file:PATH, on the worker's machine; only the path is stored."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="With --audit: half a minute instead of several.")] = False,
    work_pool: Annotated[str | None, typer.Option(help="Work pool; created if needed. [default: spinewise]")] = None,
    retries: Annotated[
        int, typer.Option(min=0, max=20, help="Retries of a step that failed for lack of disk, memory or a worker.")
    ] = 2,
    retry_delay: Annotated[
        float, typer.Option(min=0, help="Seconds before the first retry, doubled for each further one.")
    ] = 30.0,
) -> None:
    """Deploy a release or the audit on the Prefect server that PREFECT_API_URL names.

    Runs are started by --cron, by `prefect deployment run`, or on the server's pages, where the parameters are a form.
    One run of a dataset is active at a time; a run that was stopped is resumed. The same command again changes
    the deployment. A worker is needed: `spinewise worker`. What is stored on the server are paths and numbers; keys,
    the ledger's place and who is notified of failures are settings of the worker's machine.

    Example:

        spinewise deploy release.toml --out /srv/releases --cron "0 2 * * *" --timezone Europe/Vienna

        spinewise deploy --audit --cron "0 6 * * sun"

        spinewise deploy release.toml --wait-for "in/persons-{period}.parquet" --cron "0 2 * * *"
    """
    import asyncio
    from dataclasses import replace
    from functools import partial

    from pipeline.errors import InputError
    from pipeline.execution.settings import load_settings

    if audit == (spec is not None):
        raise InputError("deploy: give either a spec or --audit")
    if period is not None and (audit or wait_for is not None):
        raise InputError("deploy: --period is for one release of a series; give no --audit and no --wait-for with it")
    if audit and wait_for is not None:
        raise InputError("deploy: --wait-for is for the releases of a series; give no --audit with it")
    if audit:
        from features.registry import part_of

        part_of("audit", "installed")
    settings = load_settings(out=out if spec is not None else None, workers=workers, work_pool=work_pool)
    from flows.orchestration.deployments import DeploymentPlan, check_cron
    from flows.orchestration.deployments import deploy as deploy_flow
    from flows.orchestration.probe import ONE_WRITER, check_server, may_keep_in_sqlite

    check_server()
    if cron is not None:
        check_cron(cron, timezone)
    from pipeline.confidential.custody import Keyholder, given_source

    source = given_source(key)
    key_file = source.file
    if key is not None and key_file is None:
        raise InputError(
            "--key: a deployment takes file:PATH; set another source, SPINEWISE_KEY, on the worker's machine"
        )
    processes = None if workers is None else settings.workers
    planned = partial(
        DeploymentPlan,
        cron=cron,
        timezone=timezone,
        pool=settings.work_pool,
        retries=retries,
        retry_delay=retry_delay,
        timeout=settings.timeout,
    )
    if spec is not None:
        from flows.orchestration.deployed import Arrivals, unreleased
        from flows.orchestration.deployments import queue_of
        from flows.orchestration.release_flow import release as flow
        from pipeline.runs.request import Request, check_request
        from pipeline.spec.release_spec import load_spec

        request = Request(spec, settings.out, data, settings.workers or 1, source, period=period)
        stated, what, folders = load_spec(spec), "The release", _folders(spec, data, key_file)
        if wait_for is not None:
            arrivals = Arrivals(wait_for.resolve(), None if data is None else data.resolve())
            if (due := next(unreleased(stated, settings.out), None)) is None:
                raise InputError(f"{spec}: all releases of the series are in {settings.out}; there is none to wait for")
            request = replace(request, data=None, period=due)
            what, folders = "The releases", (*_folders(spec, None, key_file), *map(str, arrivals.folders))
        checked = check_request(request)
        Keyholder(checked.request.key, checked.spec.privacy.key).identity()
        datasets = [universe.dataset for universe in checked.universes if universe.dataset]
        called = stated.name if wait_for is not None else checked.spec.name
        plan = planned(
            name or called,
            _paths(spec=spec, out=settings.out, data=data, key_file=key_file, arrival=wait_for)
            | {"workers": processes, "period": period},
            queue_of(datasets, settings.out / stated.name),
            ("release", *(f"dataset:{one}" for one in sorted(set(datasets)))),
            description=f"{what} {called} of {spec.resolve()}.",
            specs=folders,
            outputs=(str(settings.out.resolve()),),
        )
    else:
        from flows.orchestration.audit_flows import audit as flow  # type: ignore[assignment]

        plan = planned(
            name or "installed",
            _paths(out=out or Path("audit")) | {"quick": quick, "workers": processes},
            "audit",
            ("audit",),
            description="The audit of what is installed on the worker's machine.",
            outputs=(str((out or Path("audit")).resolve()),),
        )
    full_name = asyncio.run(deploy_flow(flow, plan))
    typer.echo(f"deployed: {full_name}")
    typer.echo(f"  schedule     {'none' if cron is None else f'{cron} ({timezone})'}")
    typer.echo(f"  run it now   prefect deployment run '{full_name}'")
    typer.echo(f"  worker       spinewise worker{'' if plan.pool == 'spinewise' else f' --work-pool {plan.pool}'}")
    if may_keep_in_sqlite():
        typer.echo(ONE_WRITER, err=True)


def _folders(spec: Path, data: Path | None, key_file: Path | None) -> tuple[str, ...]:
    """The folders of what a deployment reads."""
    found = [spec.resolve().parent]
    if data is not None:
        found.append(data.resolve() if data.is_dir() else data.resolve().parent)
    return tuple(dict.fromkeys(map(str, found + ([] if key_file is None else [key_file.resolve().parent]))))


def _paths(**given: Path | None) -> dict[str, object]:
    """Paths as every machine of the pool sees them."""
    return {name: None if path is None else str(path.resolve()) for name, path in given.items()}


def worker(
    work_pool: Annotated[str | None, typer.Option(help="Work pool; created if needed. [default: spinewise]")] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="The most runs at a time; by default one of each dataset.")
    ] = None,
) -> None:
    """Execute what is scheduled on the Prefect server that PREFECT_API_URL names, until SIGTERM or Ctrl-C.

    Each run has a process of its own. At SIGTERM or Ctrl-C no further run is taken, runs are stopped, and the worker
    ends within a minute; another worker, or this one once it is started again, resumes them. A second signal ends it
    at once.

    Example:

        spinewise worker
    """
    from flows.orchestration.probe import check_server
    from pipeline.execution.settings import load_settings

    settings = load_settings(work_pool=work_pool)
    check_server()
    from flows.orchestration.worker import work

    work(settings.work_pool, limit)
