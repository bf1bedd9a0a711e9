"""Keeps the text of errors about the records away from engines, their databases and their logs.

Of an error on its way from the process that sees the records to one that does not, the public text crosses alone.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from pipeline.errors import RefusedError, SpinewiseError
from pipeline.execution.faults import NO_MEMORY, limit_of
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import write_bytes

Result = TypeVar("Result")
#: The packages whose errors are made again.
_OWN: Final = ("features", "flows", "geography", "pipeline", "postprocess")


def shielded(run: RunDirectory, stage: str, function: Callable[[], Result]) -> Result:
    """The result of `function`; an error's text goes to restricted/, and an error without that text is raised.

    Raises:
        RefusedError: `function` raised any error.
    """
    try:
        return function()
    except SpinewiseError as error:
        text, status = str(error), error.exit_status
    except Exception as error:
        text, status = limit_of(error) or traceback.format_exc(), 1
    write_bytes(run.refusal, text.encode(errors="backslashreplace") + b"\n", run.staging, private=True)
    # Raised outside the handler, so that it does not carry the other error as its context.
    raise RefusedError(stage, run.refusal, status)


def described(error: BaseException, run: RunDirectory | None, stage: str) -> dict[str, object]:
    """What may be said of an error, as JSON.

    A defect's traceback may show what is in the records: it goes to restricted/, if there is a run already.
    """
    if isinstance(error, RefusedError):
        return {"stage": str(error).split(":")[0], "details": str(error.details), "status": error.exit_status}
    if isinstance(error, SpinewiseError):
        return {"module": type(error).__module__, "name": type(error).__name__, "text": str(error)}
    if isinstance(error, OSError) and error.errno != errno.ENOMEM:
        filename = None if error.filename is None else str(error.filename)
        return {"errno": error.errno, "reason": error.strerror, "file": filename}
    if limit_of(error) == NO_MEMORY:
        return {"memory": True}
    if run is None or not run.staging.is_dir():
        return {"text": f"{stage}: {type(error).__name__}, a defect of the program"}
    write_bytes(run.refusal, traceback.format_exc().encode(errors="backslashreplace"), run.staging, private=True)
    return {"stage": stage, "details": str(run.refusal), "status": 1}


def restored(description: Mapping[str, Any]) -> Exception:
    """The error that `described` described."""
    if "details" in description:
        return RefusedError(str(description["stage"]), Path(description["details"]), int(description["status"]))
    if "errno" in description:
        return OSError(description["errno"], description["reason"], description["file"])
    if "memory" in description:
        return MemoryError()
    text = str(description["text"])
    return _own(str(description.get("module", "")), str(description.get("name", "")))(text)


def _own(module: str, name: str) -> type[SpinewiseError]:
    """The class of an error, or the nearest of its bases whose only argument is the text."""
    if module.split(".")[0] not in _OWN:
        return SpinewiseError
    named = getattr(import_module(module), name, None)
    if not (isinstance(named, type) and issubclass(named, SpinewiseError)):
        return SpinewiseError
    return next(each for each in named.__mro__ if issubclass(each, SpinewiseError) and "__init__" not in vars(each))
