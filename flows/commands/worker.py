"""`spinewise worker`: what is scheduled on a Prefect server is executed on this machine."""

from __future__ import annotations

from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("worker", short_help="Execute what is scheduled on a Prefect server.")(worker)


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
