"""Settings for Prefect, made before it is imported: offline, nothing sent home, nothing on the screen.

What the user has set is left alone, PREFECT_HOME and PREFECT_API_URL too: with a server of one's own, runs are seen
there.
"""

from __future__ import annotations

import os

SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # The temporary server imports for long on a busy machine, while requests already wait for it.
    "PREFECT_API_REQUEST_TIMEOUT": "120",
    # Errors are reported by the command line, once; the records' never reach Prefect at all.
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_TO_API_ENABLED": "false",
    "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
    "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": "false",
    "PREFECT_CLI_COLORS": "false",
}


def set_up_prefect() -> None:
    """Set what the user has not set."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
