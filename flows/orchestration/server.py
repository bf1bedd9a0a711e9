"""Whether the user has a server of Prefect, and settings that are made before Prefect is imported.

They are: offline, nothing sent home, nothing on the screen. What the user has set is left alone, PREFECT_HOME and
PREFECT_API_URL too: with a server of one's own, runs are recorded there; without one, none is started. Prefect itself
reads settings from files of the current folder, which may be somebody else's: they can send what is known of a run
elsewhere, and name objects to be made. So they are refused, unless the user trusts the folder.
"""

from __future__ import annotations

import atexit
import os
import sys
import tomllib
from contextlib import ExitStack
from pathlib import Path

from pipeline.errors import InputError

SETTINGS = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # A server that has just been started imports for long on a busy machine, while requests already wait for it.
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
    """Set what the user has not set; where the user has no folder of Prefect, it gets one for this process alone.

    Raises:
        InputError: a file of the current folder has settings of Prefect, and the user does not trust the folder.
    """
    if "prefect" not in sys.modules:  # otherwise it is the caller's, who had it read what it reads
        _check_current_folder()
        if not os.environ.get("PREFECT_HOME") and not (Path.home() / ".prefect").exists():
            from pipeline.storage.files import temporary_folder

            with ExitStack() as stack:
                os.environ["PREFECT_HOME"] = str(stack.enter_context(temporary_folder("prefect-home")))
                atexit.register(stack.pop_all().close)
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)


def server_is_named() -> bool:
    """Whether the user has named a server of Prefect; Prefect is imported only where a variable or a file could do so.

    Raises:
        InputError: as `set_up_prefect`.
    """
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    stated = any(text for name, text in os.environ.items() if name.upper() == "PREFECT_API_URL")
    if not ("prefect" in sys.modules or stated or profiles.exists() or _files_with_settings()):
        return False
    set_up_prefect()
    from prefect.settings import get_current_settings

    return bool(get_current_settings().api.url)


def _files_with_settings() -> list[str]:
    """The files of the current folder in which Prefect would find settings, or which it could not read."""
    return [name for name in (".env", "prefect.toml", "pyproject.toml") if _sets_prefect(Path(name))]


def _check_current_folder() -> None:
    found = _files_with_settings()
    if not found:
        return
    from pipeline.execution.settings import trusts_current_folder, user_file

    if not trusts_current_folder():
        raise InputError(
            f"{found[0]}: a file of the current folder may not set Prefect, unless you trust the folder; if you do, "
            f'write this in {user_file()}: trust = ["{Path.cwd().resolve()}"]; spinewise run --no-prefect does without'
        )


def _sets_prefect(path: Path) -> bool:
    """Whether Prefect would find settings in a file, or could not read it; prefect.toml has nothing else."""
    if not path.exists():
        return False
    if path.name == "prefect.toml" or not path.is_file():
        return not path.is_dir()
    try:
        text = path.read_text("utf-8")
        if path.name == ".env":
            return "prefect" in text.lower()
        return "prefect" in tomllib.loads(text).get("tool", {})
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return True
