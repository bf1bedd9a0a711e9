"""What is known of Prefect here and of the server that is named: for those who may not import Prefect themselves."""

from __future__ import annotations

import asyncio

from flows.orchestration.environment import set_up_prefect

set_up_prefect()

import prefect  # noqa: E402
from prefect.client.orchestration import get_client  # noqa: E402
from prefect.exceptions import ObjectNotFound  # noqa: E402
from prefect.settings import get_current_settings  # noqa: E402


def installed_version() -> str:
    """The version of Prefect that is installed."""
    return str(prefect.__version__)


def server_url() -> str:
    """The address of the server's API; "" where none is named."""
    return get_current_settings().api.url or ""


def workers_online(pool: str) -> int | None:
    """How many workers of a work pool are online; None where there is no such pool."""
    return asyncio.run(_workers_online(pool))


async def _workers_online(pool: str) -> int | None:
    async with get_client() as client:
        try:
            await client.read_work_pool(pool)
        except ObjectNotFound:
            return None
        workers = await client.read_workers_for_work_pool(pool)
    return sum(str(worker.status).upper().endswith("ONLINE") for worker in workers)
