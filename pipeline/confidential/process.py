"""The measuring process: it alone holds records, master key and ledger, and ends when the measurements are written.

Everything after the measurements (estimation, an engine's tasks, the clients of a cluster, the report) runs in
processes that never had any of these in their memory. This process is told what to do by the one that started it; what
it answers are short JSON texts: how far it is, that a task is done, what is public about key and records, or the public
text of an error. It sends no objects, so that nothing in it can travel by accident.

Records that a caller has in memory, on their way to the process that counts them: by a pipe, never by a file.

A column that the records do not have is said openly, and before anything is counted: its name is in the spec.

Only the process that counts looks for it: the footer of a Parquet file holds least and greatest values, and the first
block of a CSV file its first records. What a file has instead is shown of a table and of a Parquet file; the first line
of a CSV file that lacks its header is a record.

Errors on their way from the process that sees the records to one that does not: the public text, nothing else.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from multiprocessing import connection, reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa

from pipeline.confidential.custody import Keyholder, KeySource, key_of_release
from pipeline.confidential.parts import RecordQuestion, answering, installed_parts
from pipeline.confidential.repeat import RepeatedSteps
from pipeline.confidential.sealed import Ingredients, is_counted, seal_of
from pipeline.confidential.steps import ConfidentialSteps, MeasuringSteps
from pipeline.errors import InputError, RecordsError, RefusedError, SpinewiseError
from pipeline.execution.batches import Batches
from pipeline.execution.faults import NO_MEMORY, limit_of, without_interrupts
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.threads import give_memory_back
from pipeline.execution.workers import WorkerContext, WorkerError, Workers, begin_worker
from pipeline.model.memory_table import MemoryTable
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.publishing.public_inputs import inputs_to_measure
from pipeline.records.cells import needed_columns
from pipeline.records.problems import list_allowed, quote
from pipeline.records.record_files import column_names, is_text_file
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import KeyStatement
from pipeline.release.receipts import Receipt
from pipeline.storage.files import write_bytes

_OWN: Final = ("features", "flows", "geography", "pipeline", "postprocess")


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


#: Rows that are sent at a time.
_ROWS: Final = 1 << 16
_LONGEST_NOTE: Final = 1 << 20


def tables_of(job: Job) -> dict[str, MemoryTable]:
    """Universe -> its records, where they are a table in this process."""
    sources = {universe.name: universe.require_input().file for universe in job.universes if universe.input is not None}
    return {name: source for name, source in sources.items() if isinstance(source, MemoryTable) and source.given}


def places_of(universes: Sequence[Universe]) -> tuple[Universe, ...]:
    """The universes with the places of tables, not the tables."""
    return tuple(_with(universe, lambda table: table.place()) for universe in universes)


def send_columns(there: Connection, table: MemoryTable, names: Sequence[str]) -> None:
    """Send some columns of a table, or what is wrong with them, to whoever waits in `receive_columns`."""
    try:
        columns = table.read(names) if table.read is not None else pa.table({})
    except Exception as error:
        there.send_bytes(json.dumps({"error": described(error, None, "tabulate")}).encode())
        return
    there.send_bytes(b"{}")
    plain = columns.schema.remove_metadata()
    with pa.PythonFile(_Sending(there), "w") as file, pa.ipc.new_stream(file, plain) as stream:
        for batch in columns.to_batches(max_chunksize=_ROWS):
            stream.write_batch(batch.replace_schema_metadata(None))
    there.send_bytes(b"")


def receive_columns(there: Connection) -> pa.Table:
    """What `send_columns` sends; raises the error that it met."""
    note: Mapping[str, Any] = json.loads(there.recv_bytes(_LONGEST_NOTE))
    if "error" in note:
        raise restored(note["error"])
    with pa.PythonFile(_Receiving(there), "r") as file:
        with pa.ipc.open_stream(file) as stream:
            columns = stream.read_all()
        while file.read(1):  # to the end of what was sent
            pass
    return columns


def _with(universe: Universe, change: Callable[[MemoryTable], MemoryTable]) -> Universe:
    source = universe.input
    if source is None or not isinstance(source.file, MemoryTable):
        return universe
    return replace(universe, input=replace(source, file=change(source.file)))


class _Sending:
    """A file whose content is sent, a message for each write."""

    closed = False

    def __init__(self, there: Connection) -> None:
        self._there = there

    def write(self, data: bytes) -> int:
        if len(data):
            self._there.send_bytes(data)
        return len(data)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        self.closed = True


class _Receiving:
    """A file whose content is what a `_Sending` sent; an empty message is its end."""

    closed = False

    def __init__(self, there: Connection) -> None:
        self._there = there
        self._got = memoryview(b"")
        self._ended = False

    def read(self, size: int = -1) -> bytes:
        parts: list[memoryview] = []
        wanted = size
        while wanted != 0:
            if not self._got and not self._ended:
                self._got = memoryview(self._there.recv_bytes())
                self._ended = not self._got
            if self._ended:
                break
            part = self._got if wanted < 0 else self._got[:wanted]
            self._got = self._got[len(part) :]
            wanted -= len(part) if wanted > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def close(self) -> None:
        self.closed = True


#: Forms of records with a column for each attribute.
_FORMS = ("microdata", "long")


def refuse_missing_columns(universes: Sequence[Universe]) -> None:
    """Look at the names of the columns alone; what cannot be read is told by whoever reads it.

    Raises:
        InputError: a file of records has not the columns that it needs.
    """
    for universe in universes:
        records = universe.require_input()
        if records.form not in _FORMS or not universe.source.has_truth:
            continue
        with suppress(RecordsError):
            present = column_names(records.file, text=records.text_format)
            missing = [name for name in needed_columns(records, universe.schema) if name not in present]
            if missing:
                named = ", ".join(map(quote, missing))
                raise InputError(f"{records.file}: no column {named}; {_instead(records.file, present)}")


def _instead(source: object, present: Sequence[str]) -> str:
    if isinstance(source, MemoryTable):
        return f"the table's columns are {list_allowed(present)}"
    if is_text_file(source):  # type: ignore[arg-type]
        return "the first line of the file names its columns; [input] says which of them is which"
    return f"the file's columns are {list_allowed(present)}"


#: The longest answer, in bytes.
_LONGEST: Final = 1 << 20
_PR_SET_DUMPABLE: Final = 4
#: What compares a release with the true counts, and needs what estimates; measuring does not.
_COMPARES: Final = "pipeline.confidential.accuracy"


def _sent(job: Job) -> tuple[Job, tuple[str, ...]]:
    """The job as it is sent, without what cannot be; and the universes whose tables the process asks for."""
    areas, spec = job.spec.geography.file, job.spec
    if isinstance(areas, MemoryTable):
        spec = spec.model_copy(update={"geography": spec.geography.model_copy(update={"file": areas.place()})})
    sent = replace(
        job,
        spec=spec,
        universes=places_of(job.universes),
        workers=Workers(job.workers.count),
        progress=Silent(),
        batches=Batches(),
        notes={},
        begun={},
        receipts=list(job.receipts),
        inputs=inputs_to_measure(job.spec, job.inputs),
    )
    return sent, tuple(tables_of(job))


class _Descriptor:
    """An open file descriptor that the new process gets too."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(duplicate: Any) -> int:
    return int(duplicate.detach())


class MeasuringProcess:
    """The process, from where the run is: it is asked one thing at a time.

    Args:
        source: where the master key is; it is read there, and never here.
        test_key: of the spec, None if it has none.
        modules: imported there at once.
    """

    def __init__(self, source: KeySource, test_key: str | None, *modules: str) -> None:
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

    def identity(self) -> str:
        """See `Keyholder.identity`."""
        return str(self.ask("identity"))

    def steps(self, job: Job) -> DistantSteps:
        """The steps of a run, to be performed there. The key is read, or drawn, now."""
        return DistantSteps(self, job)

    def refuse_missing_columns(self, universes: Sequence[Universe]) -> None:
        """Refuse records that lack a column, before anything is counted; InputError."""
        self.ask("refuse_missing_columns", places_of(universes))

    def seal(self, run: RunDirectory, ingredients: Ingredients) -> str:
        """See `Measured.seal`."""
        return str(self.ask("seal", run, ingredients))

    def is_counted(self, run: RunDirectory) -> bool:
        """See `sealed.is_counted`."""
        return bool(self.ask("is_counted", run))

    def check_key(self, run: RunDirectory) -> None:
        """See `Repeating.check_key`."""
        self.ask("check_key", run)

    def repeat(self, run: RunDirectory, job: Job) -> DistantSteps:
        """See `Repeating.repeat`."""
        return DistantSteps(self, job, run)

    def begin_comparing(self) -> None:
        """Start the process that compares, which has no key; it imports what it needs while this one goes on."""
        self._comparing = MeasuringProcess(KeySource(), None, _COMPARES)

    def compare(self, job: Job) -> None:
        """See `accuracy.write_accuracy`; in another process, which has no key."""
        with self._comparing or MeasuringProcess(KeySource(), None) as process:
            process.ask("compare", *_sent(job), job=job)

    def question(self, work: RecordQuestion) -> Mapping[str, Any]:
        """See `parts.Answering`."""
        return dict(self.ask("question", work))

    def ask(self, what: str, *details: object, job: Job | None = None) -> Any:
        """What the process answers.

        Args:
            what: a method of `_Server`.
            details: sent along.
            job: whose progress is told how far the process is.

        Raises:
            WorkerError: the process has ended.
            SpinewiseError: what went wrong there, without anything confidential.
        """
        try:
            self._connection.send((what, details))
            while True:
                answer = json.loads(self._connection.recv_bytes(_LONGEST))
                if job is not None and "columns" in answer:
                    send_columns(self._connection, tables_of(job)[answer["universe"]], answer["columns"])
                    continue
                if "advance" not in answer:
                    break
                if job is not None:
                    job.progress.advance(int(answer["advance"]))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join(1)
            raise WorkerError(
                "the measuring process ended without an answer: it was killed, or there is not enough memory; "
                "run the same again"
            ) from None
        if "error" in answer:
            raise restored(answer["error"])
        return answer["answer"]

    def close(self) -> None:
        """End the process, whatever it is doing, and the one that it has for comparing."""
        if self._comparing is not None:
            self._comparing.close()
        self._connection.close()
        self._process.kill()
        self._process.join()

    def end(self) -> Mapping[str, Any]:
        """Wait until the process has ended by itself: everything is measured. What may be said of it in public."""
        public: Mapping[str, Any] = self.ask("end")
        self._process.join()
        return public

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DistantSteps(MeasuringSteps):
    """The steps that see the records, performed by a `MeasuringProcess`."""

    def __init__(self, process: MeasuringProcess, job: Job, again: RunDirectory | None = None) -> None:
        super().__init__(job)
        self._process = process
        self.insecure = process.ask("begin", *_sent(job), again)
        self._statement = KeyStatement()

    def perform(self, task: str, universe: str = "", place: str = "") -> None:
        """See `MeasuringSteps.perform`."""
        self._process.ask("perform", task, universe, place, job=self.job)

    def record(self) -> None:
        """See `MeasuringSteps.record`."""
        self._process.ask("record")

    def statement(self) -> KeyStatement:
        """See `MeasuringSteps.statement`."""
        return self._statement

    def end(self) -> None:
        """See `MeasuringSteps.end`."""
        public = self._process.end()
        self._statement = KeyStatement(**public["statement"])
        self.job.receipts[:] = [Receipt.model_validate_json(receipt) for receipt in public["receipts"]]


class _Reported(Silent):
    """Tells the other process how far this one is."""

    def __init__(self, there: Connection) -> None:
        self._there = there

    def advance(self, geounits: int) -> None:
        _answer(self._there, {"advance": int(geounits)})


class _Server:
    """What the process can be asked, by the names of its public methods."""

    steps: ConfidentialSteps  # once the run has begun

    def __init__(self, there: Connection, source: KeySource, test_key: str | None) -> None:
        self._there = there
        self._source = source
        self._holder = Keyholder(source, test_key)
        self._released: MasterKey | None = None
        self.run: RunDirectory | None = None

    def identity(self) -> str:
        return self._holder.identity()

    def refuse_missing_columns(self, universes: Sequence[Universe]) -> None:
        refuse_missing_columns(universes)

    def seal(self, run: RunDirectory, ingredients: Ingredients) -> str:
        return seal_of(ingredients, self._holder.present(run), self._holder.identity())

    def is_counted(self, run: RunDirectory) -> bool:
        return is_counted(run)

    def check_key(self, run: RunDirectory) -> None:
        self._key_of(run)

    def _key_of(self, run: RunDirectory) -> MasterKey:
        if self._released is None:  # a descriptor can be read once
            self._released = key_of_release(run, self._source)
        return self._released

    def begin(self, job: Job, tables: Sequence[str], again: RunDirectory | None) -> bool:
        job = self._taken(job, tables)
        if again is not None:
            self.steps = RepeatedSteps(again, job, self._key_of(again), installed_parts())
        else:
            self.steps = ConfidentialSteps(job, self._holder.key(job.run), installed_parts())
        return self.steps.insecure

    def _taken(self, job: Job, tables: Sequence[str]) -> Job:
        """The job with the tables of these universes, whose columns are asked for when they are read."""
        self.run = job.run

        def asked(universe: Universe) -> Universe:
            read = partial(self._columns, universe.name)
            return _with(universe, lambda table: replace(table, read=read)) if universe.name in tables else universe

        return replace(job, universes=tuple(map(asked, job.universes)), progress=_Reported(self._there))

    def _columns(self, universe: str, names: Sequence[str]) -> pa.Table:
        _answer(self._there, {"universe": universe, "columns": list(names)})
        return receive_columns(self._there)

    def perform(self, task: str, universe: str, place: str) -> None:
        self.steps.perform(task, universe, place)

    def record(self) -> None:
        self.steps.record()

    def compare(self, job: Job, tables: Sequence[str]) -> None:
        from pipeline.confidential.accuracy import write_accuracy  # with what estimates, which measuring does not need

        write_accuracy(self._taken(job, tables))

    def question(self, work: RecordQuestion) -> Mapping[str, object]:
        self.run = work.run
        return answering(work)(work, self._holder, self._source)

    def end(self) -> Mapping[str, object]:
        receipts = [receipt.model_dump_json() for receipt in self.steps.job.receipts]
        return {"statement": asdict(self.steps.statement()), "receipts": receipts}


#: What the process can be asked, and nothing else that its server has.
_ASKED: Final = frozenset(name for name in vars(_Server) if not name.startswith("_"))


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
    server = _Server(there, KeySource(file, descriptor, command), test_key)
    what = ""
    while what != "end":
        try:
            what, details = there.recv()
        except (EOFError, OSError):
            return
        try:
            if what not in _ASKED:
                raise ValueError(f"{what!r} is nothing that can be asked here")
            answer = {"answer": getattr(server, what)(*details)}
        except BaseException as error:
            answer = {"error": described(error, server.run, what)}
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
