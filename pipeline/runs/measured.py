"""Where a run sees the records: in a process of its own, or in this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from pipeline.confidential.process import MeasuringProcess, RecordHolder
from pipeline.runs.request import CheckedRequest


def holder_here(checked: CheckedRequest) -> RecordHolder:
    """This process: for records that are in its memory already, and for audits of made-up records."""
    return RecordHolder(checked.request.key, checked.spec.privacy.key)


@contextmanager
def measuring_process(checked: CheckedRequest) -> Iterator[MeasuringProcess]:
    """A process of its own for the block, to which tables in the memory of this one are sent.

    The key is read at once, and the names of the records' columns are looked at, so that a mistake is found before
    anything else begins; both there, since a look at the columns leaves records in memory. What the run itself needs is
    imported here while the process imports what it needs.

    Raises:
        InputError: there is no key where the request says that it is, or the records lack a column.
    """
    with MeasuringProcess(checked.request.key, checked.spec.privacy.key) as process:
        if not checked.run.finished.is_file():  # otherwise there may be nothing to do
            import_module("pipeline.runs.run")
            if checked.spec.postprocess.solver == "cvxpy":
                import_module("cvxpy")
        process.identity()
        process.refuse_missing_columns(checked.universes)
        yield process
