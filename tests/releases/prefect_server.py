"""A server of Prefect on this machine, as an office has one: its database stays, and its pages can be looked at."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def prefect_variables(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return {
        **kept,
        "PREFECT_HOME": str(home),
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    }


@contextmanager
def prefect_server(home: Path, host: str = "127.0.0.1") -> Iterator[str]:
    """A server on this machine, which listens at `host`; the address of its interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {**prefect_variables(home), "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", host, "--port", str(port)]
    home.mkdir()
    with (home / "server.log").open("w") as log:
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            address = f"http://127.0.0.1:{port}/api"
            until = time.monotonic() + 300
            while not answers(f"{address}/health"):
                assert server.poll() is None, (home / "server.log").read_text()
                assert time.monotonic() < until, "the server did not start"
                time.sleep(0.5)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def ask(address: str, content: object = None) -> Any:
    """What a request without any right is answered, one that brings nothing or JSON; the status where it is refused."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(address, data=data, headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
