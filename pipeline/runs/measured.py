"""Where a run sees the records: in a process of its own, to which tables in the memory of this one are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from pipeline.confidential.process import MeasuringProcess
from pipeline.confidential.steps import Measured
from pipeline.runs.request import CheckedRequest


@contextmanager
def measured_apart(checked: CheckedRequest) -> Iterator[Measured]:
    """A process of its own for the block.

    The key is read at once, so that a mistake is found before anything else begins. What the run itself needs is
    imported here while the process imports what it needs.

    Raises:
        InputError: there is no key where the request says that it is.
    """
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        if not checked.run.finished.is_file():  # otherwise there may be nothing to do
            import_module("pipeline.runs.run")
            if checked.spec.postprocess.solver != "batched":
                import_module("cvxpy")
        process.identity()
        yield process
