"""Keeps the text of errors about the records away from engines, their databases and their logs."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from pipeline.errors import RefusedError, SpinewiseError
from pipeline.execution.faults import limit_of
from pipeline.release.layout import RunDirectory
from pipeline.storage.files import write_bytes

Result = TypeVar("Result")


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
