"""Stages and steps as Prefect tasks; what a run is given beside its parameters, which Prefect would store.

A run that is lost is scheduled again, and the operator is notified when nothing more is tried.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from flows.orchestration.server import set_up_prefect
from pipeline.execution.threads import limit_threads

limit_threads()
set_up_prefect()

from prefect import Task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.client.schemas.objects import State  # noqa: E402
from pydantic import Field  # noqa: E402

from pipeline.execution.faults import interruption_of, may_be_retried, retry_delays  # noqa: E402
from pipeline.execution.settings import Settings, load_settings  # noqa: E402
from pipeline.execution.steps import Notes, Progress, Step  # noqa: E402

if TYPE_CHECKING:
    from prefect import Flow
    from prefect.client.schemas.objects import FlowRun

logger = logging.getLogger("spinewise.flows")

#: Takes note of how far the run is; not a parameter, which Prefect would store.
progress_of_run: ContextVar[Progress] = ContextVar("progress_of_run")

#: Read once: Prefect takes timeouts and retries from the flow's definition.
SETTINGS = load_settings()

WorkerCount = Annotated[int, Field(ge=1)]


class Stages:
    """Performs the stages of a run, each as a task that waits for the one before, as the server's page shows it."""

    def __init__(self) -> None:
        self._before: list[State[None]] = []

    def __call__(self, name: str, perform: Callable[[], None], universe: str = "") -> None:
        """Perform a stage; raises what its steps raise. A failed step is retried by itself, and not its stage."""
        task = Task(
            fn=perform,
            name=name,
            task_run_name=f"{name} {universe}".rstrip(),
            cache_policy=NO_CACHE,
            persist_result=False,
        )
        state = task(return_state=True, wait_for=self._before)
        self._before = [state]
        state.result()


def perform_as_task(step: Step) -> Notes | None:
    """Perform a step as a task of the flow that runs; tried again where that may help."""
    return Task(
        fn=step.perform,
        name=step.stage,
        task_run_name=step.name,
        cache_policy=NO_CACHE,
        persist_result=False,
        retries=SETTINGS.retries,
        retry_delay_seconds=retry_delays(SETTINGS) or None,
        retry_condition_fn=_worth_retrying,
    )()


def _worth_retrying(_task: object, _run: object, state: object) -> bool:
    """Prefect's question whether a failed task is tried again."""
    error = getattr(state, "data", None)
    return isinstance(error, BaseException) and may_be_retried(error)


def is_time_up(error: Exception) -> bool:
    """Whether the engine ended a flow for its limit of time: its own error, or one that arose as the flow was ended."""
    return isinstance(error, TimeoutError) or isinstance(interruption_of(error), asyncio.CancelledError)


#: Seconds that the operator's command or webhook may take.
_PATIENCE = 60
#: Tag of a run that follows one whose process was lost, with the number of the try.
_RETRY = "retry:"


def on_failure(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """Notify the operator that a run has failed for good."""
    tell_operator(flow.name, flow_run, state, load_settings())


def on_crash(flow: Flow[..., Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The process of a run is gone: schedule another run, which resumes it; or notify the operator.

    The worker calls it, in a process of its own.
    """
    settings = load_settings()
    if not schedule_again(flow_run, retry_delays(settings)):
        tell_operator(flow.name, flow_run, state, settings)


def tries_before(flow_run: FlowRun) -> int:
    """How many runs whose process was lost this run follows."""
    return max([0, *(int(tag[len(_RETRY) :]) for tag in flow_run.tags if re.fullmatch(_RETRY + r"\d+", tag))])


def schedule_again(flow_run: FlowRun, delays: Sequence[float]) -> bool:
    """Schedule a run of the same deployment with the same parameters; False where it was tried often enough.

    It is a run of its own: the worker reports the crash once more after this, and would end a run that was scheduled
    again. How often it was tried stands in a tag.
    """
    tries = tries_before(flow_run)
    if flow_run.deployment_id is None or tries >= len(delays):
        return False
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled
    from prefect.types._datetime import now

    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(
            flow_run.deployment_id,
            parameters=flow_run.parameters,
            state=Scheduled(
                scheduled_time=now("UTC") + timedelta(seconds=delays[tries]),
                message=f"Goes on where the run {flow_run.id} was, whose process was lost.",
            ),
            tags=[*(tag for tag in flow_run.tags if not tag.startswith(_RETRY)), f"{_RETRY}{tries + 1}"],
            idempotency_key=f"{flow_run.id}-again",
            job_variables=flow_run.job_variables,
        )
    return True


def message_of(flow: str, run: FlowRun, state: State[Any]) -> dict[str, object]:
    """What the operator is sent: JSON, and nothing that Prefect's own pages do not show."""
    return {
        "event": "spinewise run failed",
        "flow": flow,
        "run": run.name,
        "run_id": str(run.id),
        "deployment_id": None if run.deployment_id is None else str(run.deployment_id),
        "state": state.name,
        "message": state.message or "",
        "parameters": {name: None if value is None else str(value) for name, value in (run.parameters or {}).items()},
        "tries": tries_before(run) + 1,
    }


def tell_operator(flow: str, run: FlowRun, state: State[Any], settings: Settings) -> None:
    """Run the operator's command with the message on its standard input, and post it to the webhook.

    Only for runs of deployments: who runs a release by hand sees what happened. What goes wrong here is logged, since
    it must not hide the failure itself.
    """
    if run.deployment_id is None:
        return
    body = json.dumps(message_of(flow, run, state)).encode()
    if settings.on_failure_command:
        try:
            words = shlex.split(settings.on_failure_command)
            subprocess.run(words, input=body, check=True, timeout=_PATIENCE, stdout=subprocess.DEVNULL)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            logger.error("the command of on_failure_command failed: %s", type(error).__name__)
    if settings.on_failure_webhook:
        request = urllib.request.Request(
            settings.on_failure_webhook, data=body, headers={"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE):
                pass
        except (OSError, ValueError) as error:
            logger.error("the webhook of on_failure_webhook failed: %s", type(error).__name__)
