"""Where a run sees the records: in a process of its own, unless they are in the memory of this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flows.confidential.process import MeasuringProcess
from flows.confidential.steps import Measured
from flows.runs.request import CheckedRequest
from flows.runs.run import MeasuredHere
from pipeline.model.memory_table import MemoryTable


@contextmanager
def measured_apart(checked: CheckedRequest) -> Iterator[Measured]:
    """A process of its own for the block; this one where records or areas are tables in its memory.

    The key is read at once, so that a mistake is found before anything else begins.

    Raises:
        InputError: there is no key where the request says that it is.
    """
    sources = [universe.require_input().file for universe in checked.universes]
    if any(isinstance(source, MemoryTable) and source.given for source in [*sources, checked.spec.geography.file]):
        here = MeasuredHere(checked.keyholder())
        here.identity()
        yield here
        return
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        process.identity()
        yield process
