"""Deployments: the release of a spec, and the audit, on a work pool of a Prefect server, with schedules.

A dataset has a work queue of its own that lets one run through at a time, whichever spec it is of. What a deployment
stores are paths and numbers; keys, passwords and webhooks stay in the settings of the machines that run the workers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from flows.orchestration.server import set_up_prefect

set_up_prefect()

from prefect import Flow  # noqa: E402
from prefect.client.orchestration import PrefectClient, get_client  # noqa: E402
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate  # noqa: E402
from prefect.client.schemas.schedules import construct_schedule  # noqa: E402
from prefect.deployments.runner import RunnerDeployment  # noqa: E402
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound, PrefectHTTPStatusError  # noqa: E402
from prefect.types.entrypoint import EntrypointType  # noqa: E402

from flows.orchestration.deployed import DEPLOYED, deployed_folders  # noqa: E402
from pipeline.errors import InputError, SpinewiseError  # noqa: E402

#: The tag of every run of ours.
TAG: Final = "spinewise"
#: Seconds without a sign of life after which a run counts as lost, and between two signs.
LOST_AFTER, HEARTBEAT = 120, 30
#: How often a run asks again where the server's database is busy or the server is being restarted: four minutes in all.
REQUESTS_AGAIN = 7
_SILENT = "spinewise: runs without a sign of life are lost"
_LOST = "spinewise: lost runs go on"


class ServerError(SpinewiseError):
    """Prefect's server does not answer, or does not take what it is given."""


@dataclass(frozen=True)
class DeploymentPlan:
    """What a deployment is to be.

    Attributes:
        name: of the deployment; what `prefect deployment run` is given, after the flow's name.
        parameters: of the flow; paths and numbers.
        queue: the work queue, one run at a time.
        tags: beside `TAG`.
        cron: when it runs by itself; None if only on request.
        timezone: in which `cron` is meant.
        pool: the work pool, of process workers if it is made here.
        retries, timeout: see `pipeline.execution.settings`.
        specs, outputs: folders below which its runs read and write, unless the worker's settings name others.
    """

    name: str
    parameters: dict[str, Any]
    queue: str
    tags: tuple[str, ...] = ()
    cron: str | None = None
    timezone: str = "UTC"
    pool: str = "spinewise"
    retries: int = 2
    retry_delay: float = 30.0
    timeout: float | None = None
    specs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    description: str = field(default="", compare=False)

    def variables(self) -> dict[str, str]:
        """What the work pool lets a deployment say of the environment of its runs: how they are retried."""
        variables = {"retries": str(self.retries), "retry_delay": f"{self.retry_delay:g}"}
        return variables if self.timeout is None else variables | {"timeout": f"{self.timeout:g}"}


def job_template(specs: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    """The base job template of the work pool: no command, environment or folder can be given with a run.

    Args:
        specs: folders below which runs read, unless the worker's settings name others.
        outputs: folders below which they write.
    """
    number = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?$"}
    folders = {"specs": sorted(set(specs)), "outputs": sorted(set(outputs))}
    return {
        "job_configuration": {
            "env": {
                "SPINEWISE_RETRIES": "{{ retries }}",
                "SPINEWISE_RETRY_DELAY": "{{ retry_delay }}",
                "SPINEWISE_TIMEOUT": "{{ timeout }}",
                "PREFECT_LOGGING_LEVEL": "INFO",
                "PREFECT_LOGGING_TO_API_ENABLED": "true",
                "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT),
                "PREFECT_CLIENT_MAX_RETRIES": str(REQUESTS_AGAIN),
                DEPLOYED: json.dumps(folders),
            },
            "name": "{{ name }}",
            "stream_output": True,
        },
        "variables": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "name": {"type": "string", "title": "Name"},
                "retries": {**number, "title": "Retries of a step", "default": "2"},
                "retry_delay": {**number, "title": "Seconds before the first retry", "default": "30"},
                "timeout": {**number, "title": "Seconds after which a run is stopped"},
            },
        },
    }


def queue_of(datasets: list[str], root: Path) -> str:
    """The work queue of a release: of its datasets; of its directory where it names none."""
    names = sorted(set(datasets)) or [str(root.resolve())]
    return ("dataset " if datasets else "directory ") + " and ".join(name.replace("/", ":") for name in names)


def check_cron(cron: str, timezone: str) -> None:
    """InputError where a schedule cannot be understood."""
    try:
        construct_schedule(cron=cron, timezone=timezone)
    except ValueError as error:
        reason = str(error).splitlines()[-1] if "Invalid" not in str(error) else "not a schedule"
        raise InputError(
            f"--cron: found {cron!r} in time zone {timezone!r}: {reason.strip()}; needed are five fields such as "
            '"0 2 * * *" (every day at 2 o\'clock), and a time zone such as Europe/Vienna'
        ) from None


async def deploy(flow: Flow[..., Any], plan: DeploymentPlan) -> str:
    """Make or change a deployment, with its work pool, queue and schedule; its full name.

    Raises:
        ServerError: the server does not answer or does not take it.
    """
    try:
        async with get_client() as client:
            if (problem := await client.api_healthcheck()) is not None:
                raise ServerError(f"Prefect's server at {client.api_url} cannot be used: {problem}")
            await _pool(client, plan)
            await _queue(client, plan)
            await _watch(client)
        deployment = _deployment(flow, plan)
        await deployment.aapply()
    except PrefectHTTPStatusError as error:
        raise ServerError(f"Prefect's server does not take the deployment: {error.response.text[:300]}") from None
    return deployment.full_name


def _deployment(flow: Flow[..., Any], plan: DeploymentPlan) -> RunnerDeployment:
    from prefect.schedules import Cron

    return RunnerDeployment.from_flow(
        flow,
        plan.name,
        schedules=[] if plan.cron is None else [Cron(plan.cron, timezone=plan.timezone)],
        parameters=plan.parameters,
        tags=sorted({TAG, *(re.sub(r"\s+", "-", tag.strip()) for tag in plan.tags)}),
        description=plan.description or None,
        work_pool_name=plan.pool,
        work_queue_name=plan.queue,
        job_variables=dict(plan.variables()),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )


async def _pool(client: PrefectClient, plan: DeploymentPlan) -> None:
    """The work pool with our template, which allows the folders of all that was deployed on it.

    Raises:
        InputError: the pool is not one of process workers, whose template would have to be another.
    """
    try:
        pool = await client.read_work_pool(plan.pool)
    except ObjectNotFound:
        template = job_template(plan.specs, plan.outputs)
        await client.create_work_pool(
            WorkPoolCreate(
                name=plan.pool,
                type="process",
                description="Releases and audits of Spinewise.",
                base_job_template=template,
            )
        )
        return
    if pool.type != "process":
        raise InputError(
            f"work_pool: {plan.pool!r} is of type {pool.type!r}; a pool of process workers is needed, which lets no "
            "run bring a command or an environment of its own; name another with --work-pool"
        )
    env = pool.base_job_template.get("job_configuration", {}).get("env")
    before = deployed_folders(env.get(DEPLOYED) if isinstance(env, dict) else None)
    template = job_template([*before["specs"], *plan.specs], [*before["outputs"], *plan.outputs])
    if pool.base_job_template != template:
        await client.update_work_pool(plan.pool, WorkPoolUpdate(base_job_template=template))


async def _queue(client: PrefectClient, plan: DeploymentPlan) -> None:
    """The queue, limited to one run at a time also where somebody has lifted the limit."""
    try:
        await client.create_work_queue(
            plan.queue, description="One run at a time.", concurrency_limit=1, work_pool_name=plan.pool
        )
    except ObjectAlreadyExists:
        queue = await client.read_work_queue_by_name(plan.queue, work_pool_name=plan.pool)
        if queue.concurrency_limit != 1:
            await client.update_work_queue(queue.id, concurrency_limit=1)


async def _watch(client: PrefectClient) -> None:
    """Runs whose machine is gone, with its worker, are given to another worker; once for the whole server.

    Two automations: a run without a sign of life becomes Lost, which the server refuses for one that has ended, and a
    Lost run is scheduled again.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

    ends = {f"prefect.flow-run.{state}" for state in ("Completed", "Failed", "Cancelled", "Crashed")}
    ours: dict[str, str | list[str]] = {"prefect.resource.id": f"prefect.tag.{TAG}", "prefect.resource.role": "tag"}
    silent = EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={"prefect.flow-run.heartbeat", *ends},
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related=ours,
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=LOST_AFTER),
    )
    lost = EventTrigger(
        expect={"prefect.flow-run.Lost"},
        match={"prefect.resource.id": "prefect.flow-run.*"},
        match_related=ours,
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )
    becomes_lost = ChangeFlowRunState(
        name="Lost", state=StateType.CRASHED, message="No sign of life: the machine is taken for lost.", force=False
    )
    goes_on = ChangeFlowRunState(
        name="AwaitingRetry", state=StateType.SCHEDULED, message="The run is resumed.", force=False
    )
    for name, trigger, action in ((_SILENT, silent, becomes_lost), (_LOST, lost, goes_on)):
        if not await client.read_automations_by_name(name):
            made = AutomationCore(name=name, description="Made by spinewise.", trigger=trigger, actions=[action])
            await client.create_automation(made)
