"""The measuring process: it alone holds records, master key and ledger, and ends when the measurements are written.

Everything after the measurements (estimation, an engine's tasks, the clients of a cluster, the report) runs in
processes that never had any of these in their memory. This process is told what to do by the one that started it; what
it answers are short JSON texts: how far it is, that a task is done, what is public about key and records, or the public
text of an error. It sends no objects, so that nothing in it can travel by accident. `ASKED` lists what it can be asked;
`RecordHolder` is what it then does, there or, for audits of made-up records, in this very process.

Records that a caller has in memory, on their way to the process that counts them: by a pipe, never by a file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, partialmethod
from importlib import import_module
from multiprocessing import connection, reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from pipeline.confidential.custody import Keyholder, KeySource
from pipeline.confidential.fingerprints import Ingredients, is_counted, seal_of
from pipeline.confidential.parts import RecordQuestion, answering
from pipeline.confidential.refusals import described, restored
from pipeline.confidential.steps import ConfidentialSteps, RepeatedSteps
from pipeline.errors import RecordsError
from pipeline.execution.faults import without_interrupts
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.threads import give_memory_back
from pipeline.execution.workers import WorkerContext, WorkerError, Workers, begin_worker
from pipeline.model.memory_table import MemoryTable
from pipeline.model.universe import Universe
from pipeline.publishing.public_inputs import inputs_to_measure
from pipeline.records.cells import refuse_missing_columns
from pipeline.release.layout import RunDirectory

#: Rows that are sent at a time.
_ROWS: Final = 1 << 16
_LONGEST_NOTE: Final = 1 << 20


def _send_columns(there: Connection, job: Job, universe: str, names: Sequence[str]) -> None:
    """Send columns of a universe's table, or what is wrong with them, to whoever waits in `_receive_columns`."""
    (table,) = (one.require_input().file for one in job.universes if one.name == universe)
    try:
        if not isinstance(table, MemoryTable) or table.read is None:
            raise RecordsError(f"{table}: not given; a table or a file is needed")
        columns = table.read(names)
    except Exception as error:
        there.send_bytes(json.dumps({"error": described(error, None, "tabulate")}).encode())
        return
    there.send_bytes(b"{}")
    plain = columns.schema.remove_metadata()
    # The stream says itself where it ends; nothing else is sent meanwhile.
    with open(there.fileno(), "wb", closefd=False) as file, pa.ipc.new_stream(file, plain) as stream:
        for batch in columns.to_batches(max_chunksize=_ROWS):
            stream.write_batch(batch.replace_schema_metadata(None))


def _receive_columns(there: Connection, universe: str, names: Sequence[str]) -> pa.Table:
    """Ask for what `_send_columns` sends; raises the error that it met."""
    _answer(there, {"universe": universe, "columns": list(names)})
    note: Mapping[str, Any] = json.loads(there.recv_bytes(_LONGEST_NOTE))
    if "error" in note:
        raise restored(note["error"])
    with open(there.fileno(), "rb", closefd=False) as file, pa.ipc.open_stream(file) as stream:
        return stream.read_all()


def _reading(universe: Universe, read: Callable[[Sequence[str]], pa.Table] | None) -> Universe:
    """The universe with another way to read its records, where these are a table."""
    source = universe.input
    if source is None or not isinstance(source.file, MemoryTable):
        return universe
    return replace(universe, input=replace(source, file=replace(source.file, read=read)))


#: The longest answer, in bytes.
_LONGEST: Final = 1 << 20
_PR_SET_DUMPABLE: Final = 4
#: What compares a release with the true counts, and needs what estimates; measuring does not.
_COMPARES: Final = "pipeline.confidential.accuracy"

#: What the measuring process can be asked, and nothing else: methods of `RecordHolder`.
ASKED: Final = (
    "identity", "refuse_missing_columns", "seal", "is_counted", "check_key",
    "begin", "perform", "record", "end", "question", "compare",
)  # fmt: skip


class RecordHolder:
    """Holds records, master key and ledger: in this process, or as a `MeasuringProcess` in another one.

    Args:
        source: where the master key is.
        test_key: of the spec, None if it has none.
    """

    _steps: ConfidentialSteps  # once a run has begun

    def __init__(self, source: KeySource, test_key: str | None = None) -> None:
        self._keyholder = Keyholder(source, test_key)

    def identity(self) -> str:
        """See `Keyholder.identity`."""
        return self._keyholder.identity()

    def refuse_missing_columns(self, universes: tuple[Universe, ...]) -> None:
        """Refuse records that lack a column, before anything is counted; InputError."""
        refuse_missing_columns(universes)

    def seal(self, run: RunDirectory, ingredients: Ingredients) -> str:
        """See `seal_of`, with the key of the run."""
        return seal_of(ingredients, self._keyholder.present(run), self._keyholder.identity())

    def is_counted(self, run: RunDirectory) -> bool:
        """See `fingerprints.is_counted`."""
        return is_counted(run)

    def check_key(self, run: RunDirectory) -> None:
        """InputError where the key is not the one that a release was made with, which is to be made again."""
        self._keyholder.of_release(run)

    def begin(self, job: Job, again: RunDirectory | None = None) -> bool:
        """Begin a run: the key is read, or drawn, now. Or a rerun of the release `again`; `job` is where it writes.

        Returns:
            Whether the key is a public test key.
        """
        if again is None:
            self._steps = ConfidentialSteps(job, self._keyholder.key(job.run))
        else:
            self._steps = RepeatedSteps(again, job, self._keyholder.of_release(again))
        return self._steps.key.insecure

    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """See `ConfidentialSteps.perform`."""
        self._steps.perform(task, universe, place)

    def record(self) -> None:
        """See `ConfidentialSteps.record`."""
        self._steps.record()

    def end(self) -> Mapping[str, Any]:
        """Everything is measured: a process of its own ends. What may be said in public: `ConfidentialSteps.end`."""
        return self._steps.end()

    def question(self, work: RecordQuestion) -> Mapping[str, Any]:
        """See `parts.Answering`."""
        return answering(work)(work, self._keyholder)

    def begin_comparing(self) -> None:
        """Start what `compare` needs, without waiting for it: nothing here."""

    def compare(self, job: Job) -> None:
        """See `accuracy.write_accuracy`."""
        from pipeline.confidential.accuracy import write_accuracy  # with what estimates, which measuring does not need

        write_accuracy(job)


class _Descriptor:
    """An open file descriptor that the new process gets too."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


class MeasuringProcess(RecordHolder):
    """The process, from where the run is: each method that `ASKED` lists asks it, one thing at a time.

    Args:
        source: where the master key is; it is read there, and never here.
        test_key: of the spec, None if it has none.
        modules: imported there at once.
    """

    def __init__(self, source: KeySource, test_key: str | None, *modules: str) -> None:
        self._job: Job | None = None  # of which it asks for tables, and tells how far it is
        self._comparing: MeasuringProcess | None = None
        self._connection, there = connection.Pipe()
        descriptor = None if source.descriptor is None else _Descriptor(source.descriptor)
        with without_interrupts():
            self._process = WorkerContext().Process(
                target=_serve, args=(there, source.file, descriptor, source.command, test_key, *modules), daemon=True
            )
            self._process.start()
        there.close()
        if source.descriptor is not None:
            os.close(source.descriptor)

    def begin_comparing(self) -> None:
        """Start the process that compares, which has no key; it imports what it needs while this one goes on."""
        self._comparing = MeasuringProcess(KeySource(), None, _COMPARES)

    def compare(self, job: Job) -> None:
        """See `accuracy.write_accuracy`; in another process, which has no key."""
        with self._comparing or MeasuringProcess(KeySource(), None) as process:
            process.ask("compare", job)

    def end(self) -> Mapping[str, Any]:
        """Wait until the process has ended by itself: everything is measured. What may be said of it in public."""
        public: Mapping[str, Any] = self.ask("end")
        self._process.join()
        return public

    def ask(self, what: str, *details: object) -> Any:
        """What the process answers.

        Args:
            what: of `ASKED`.
            details: sent along; of a job and of universes without the tables that are in memory, whose columns the
                process asks for.

        Raises:
            WorkerError: the process has ended.
            SpinewiseError: what went wrong there, without anything confidential.
        """
        self._job = next((one for one in details if isinstance(one, Job)), self._job)
        try:
            self._connection.send((what, tuple(map(_sent, details))))
            while "answer" not in (answer := json.loads(self._connection.recv_bytes(_LONGEST))):
                if "error" in answer:
                    raise restored(answer["error"])
                assert self._job is not None, "of a job alone"
                if "columns" in answer:
                    _send_columns(self._connection, self._job, answer["universe"], answer["columns"])
                else:
                    self._job.progress.advance(int(answer["advance"]))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(1)
            raise WorkerError(
                "the measuring process ended without an answer: it was killed, or there is not enough memory; "
                "run the same again"
            ) from None
        return answer["answer"]

    def close(self) -> None:
        """End the process, whatever it is doing, and the one that it has for comparing."""
        if self._comparing is not None:
            self._comparing.close()
        self._connection.close()
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


for _name in (name for name in ASKED if name not in vars(MeasuringProcess)):
    setattr(MeasuringProcess, _name, partialmethod(MeasuringProcess.ask, _name))


def _sent(detail: object) -> object:
    """What is sent of a detail: of a job, and of universes, nothing that this process alone has."""
    if isinstance(detail, tuple):
        return tuple(_reading(universe, None) for universe in detail)
    if not isinstance(detail, Job):
        return detail
    areas, spec = detail.spec.geography.file, detail.spec
    if isinstance(areas, MemoryTable):
        spec = spec.model_copy(update={"geography": spec.geography.model_copy(update={"file": areas.place()})})
    return Job(
        detail.run,
        spec,
        tuple(_reading(universe, None) for universe in detail.universes),
        detail.spine,
        Workers(detail.workers.count),
        Silent(),
        most_cells=detail.most_cells,
        part_cells=detail.part_cells,
        status=detail.status,
        receipts=list(detail.receipts),
        readable=detail.readable,
        inputs=inputs_to_measure(detail.spec, detail.inputs),
    )


def _taken(there: Connection, detail: Any) -> Any:
    """What was sent; of a job with tables whose columns are asked for when they are read, and which tells how far."""
    if not isinstance(detail, Job):
        return detail
    universes = (_reading(one, partial(_receive_columns, there, one.name)) for one in detail.universes)
    return replace(detail, universes=tuple(universes), progress=_Reported(there))


class _Reported(Silent):
    """Tells the other process how far this one is."""

    def __init__(self, there: Connection) -> None:
        self._there = there

    def advance(self, geounits: int) -> None:
        _answer(self._there, {"advance": int(geounits)})


def _serve(
    there: Connection,
    file: Path | None,
    descriptor: int | None,
    command: str | None,
    test_key: str | None,
    *modules: str,
) -> None:
    """Answer until there is nothing more to do, or nobody to do it for."""
    _keep_memory()
    begin_worker()
    for module in modules:
        import_module(module)
    holder = RecordHolder(KeySource(file, descriptor, command), test_key)
    what, run = "", None
    while what != "end":
        try:
            what, details = there.recv()
        except (EOFError, OSError):
            return
        # What a run, a comparison or a question is of.
        run = next((detail.run for detail in details if hasattr(detail, "run")), run)
        try:
            if what not in ASKED:
                raise ValueError(f"{what!r} is nothing that can be asked here")
            answer = {"answer": getattr(holder, what)(*(_taken(there, detail) for detail in details))}
        except BaseException as error:
            answer = {"error": described(error, run, what)}
        give_memory_back()
        _answer(there, answer)


def _keep_memory() -> None:
    """Let no memory of this process reach a core dump or, on Linux, another process of this user's (prctl(2))."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the memory of the measuring process cannot be closed to others")


def _answer(there: Connection, answer: Mapping[str, object]) -> None:
    there.send_bytes(json.dumps(answer).encode())
