"""Stages and steps as Prefect tasks; what a run is given beside its parameters, which Prefect would store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated

from flows.orchestration.environment import set_up_prefect
from pipeline.execution.threads import limit_threads

limit_threads()
set_up_prefect()

from prefect import Task  # noqa: E402
from prefect.cache_policies import NO_CACHE  # noqa: E402
from prefect.client.schemas.objects import State  # noqa: E402
from pydantic import Field  # noqa: E402

from pipeline.execution.faults import interruption_of, may_be_retried, retry_delays  # noqa: E402
from pipeline.execution.settings import load_settings  # noqa: E402
from pipeline.execution.steps import Notes, Progress, Step  # noqa: E402

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
