"""The measuring process: it alone holds records, master key and ledger, and ends when the measurements are written.

Everything after the measurements (estimation, an engine's tasks, the clients of a cluster, the report) runs in
processes that never had any of these in their memory. This process is told what to do by the one that started it; what
it answers are short JSON texts: how far it is, that a task is done, what is public about key and records, or the public
text of an error. It sends no objects, so that nothing in it can travel by accident.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import connection, parent_process, reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Self

from flows.confidential.accuracy import write_accuracy
from flows.confidential.custody import Keyholder, KeySource
from flows.confidential.errors import described, restored
from flows.confidential.steps import ConfidentialSteps, MeasuringSteps
from flows.execution.interrupts import without_interrupts
from flows.execution.job import Job
from flows.execution.progress import Progress, Silent
from flows.execution.spawn import WorkerContext
from flows.execution.threads import limit_threads
from flows.execution.workers import WorkerError, Workers
from flows.publishing.inputs import Facilities, Polygons
from geography.spine import Spine
from pipeline.model.universe import Universe
from pipeline.release.key_statement import KeyStatement
from pipeline.release.layout import RunDirectory
from pipeline.release.receipts import Receipt
from pipeline.release.status import Status
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.witness.beacon import Beacon

#: The longest answer, in bytes.
_LONGEST: Final = 1 << 20


@dataclass(frozen=True)
class _Work:
    """The public inputs of a run, as the process needs them."""

    root: Path
    spec: ReleaseSpec
    universes: tuple[Universe, ...]
    spine: Spine
    facilities: Facilities
    workers: int
    status: Status
    most_cells: int | None
    part_cells: int | None
    beacon: Beacon | None

    @classmethod
    def of(cls, job: Job, facilities: Facilities) -> _Work:
        return cls(
            job.run.root,
            job.spec,
            job.universes,
            job.spine,
            facilities,
            job.workers.count,
            job.status,
            job.most_cells,
            job.part_cells,
            job.beacon,
        )

    def job(self, progress: Progress) -> Job:
        run = RunDirectory(self.root)
        return Job(
            run,
            self.spec,
            self.universes,
            self.spine,
            Workers(self.workers),
            progress,
            most_cells=self.most_cells,
            part_cells=self.part_cells,
            status=self.status,
            beacon=self.beacon,
        )


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
    """

    def __init__(self, source: KeySource, test_key: str | None) -> None:
        self._connection, there = connection.Pipe()
        descriptor = None if source.descriptor is None else _Descriptor(source.descriptor)
        with without_interrupts():
            self._process = WorkerContext().Process(
                target=_serve, args=(there, source.file, descriptor, source.command, test_key), daemon=True
            )
            self._process.start()
        there.close()
        if source.descriptor is not None:
            os.close(source.descriptor)

    def identity(self) -> str:
        """See `Keyholder.identity`."""
        return str(self.ask("identity")["identity"])

    def steps(self, job: Job, facilities: Facilities, polygons: Polygons) -> DistantSteps:
        """The steps of a run, to be performed there. The key is read, or drawn, now."""
        public = self.ask("begin", _Work.of(job, facilities))
        return DistantSteps(self, job, facilities, polygons, insecure=bool(public["insecure"]))

    def ask(self, what: str, *details: object, job: Job | None = None) -> Mapping[str, Any]:
        """What the process answers.

        Args:
            what: one of the questions that `_Server` knows.
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
        return dict(answer)

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._connection.close()
        self._process.kill()
        self._process.join()

    def end(self) -> Mapping[str, Any]:
        """Wait until the process has ended by itself: everything is measured. What may be said of it in public."""
        public = self.ask("end")
        self._process.join()
        return public

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def compare_apart(job: Job) -> None:
    """Compare the release with the truth in a process of its own, which has no key; see `accuracy.write_accuracy`."""
    with MeasuringProcess(KeySource(), None) as process:
        process.ask("compare", _Work.of(job, {}), job=job)


class DistantSteps(MeasuringSteps):
    """The steps that see the records, performed by a `MeasuringProcess`."""

    def __init__(
        self,
        process: MeasuringProcess,
        job: Job,
        facilities: Facilities,
        polygons: Polygons,
        *,
        insecure: bool,
    ) -> None:
        super().__init__(job, facilities, polygons)
        self._process = process
        self._insecure = insecure
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

    @property
    def insecure(self) -> bool:
        """See `MeasuringSteps.insecure`."""
        return self._insecure

    def end(self) -> None:
        """See `MeasuringSteps.end`."""
        public = self._process.end()
        stated = public["statement"]
        self._statement = KeyStatement(stated["salt"], stated["commitment"], stated["fingerprints"])
        self.job.receipts[:] = [Receipt.model_validate_json(receipt) for receipt in public["receipts"]]


class _Reported(Silent):
    """Tells the other process how far this one is."""

    def __init__(self, there: Connection) -> None:
        self._there = there

    def advance(self, geounits: int) -> None:
        _answer(self._there, {"advance": int(geounits)})


class _Server:
    """What the process can be asked."""

    def __init__(self, there: Connection, holder: Keyholder) -> None:
        self._there = there
        self._holder = holder
        self.run: RunDirectory | None = None
        self._steps: ConfidentialSteps | None = None

    @property
    def steps(self) -> ConfidentialSteps:
        if self._steps is None:
            raise ValueError("the run has not begun")
        return self._steps

    def identity(self) -> Mapping[str, object]:
        return {"identity": self._holder.identity()}

    def begin(self, work: _Work) -> Mapping[str, object]:
        job = work.job(_Reported(self._there))
        self.run = job.run
        key = self._holder.key(job.run, job.beacon)
        self._steps = ConfidentialSteps(job, key, work.facilities)
        return {"insecure": key.insecure}

    def perform(self, task: str, universe: str, place: str) -> Mapping[str, object]:
        self.steps.perform(task, universe, place)
        return {}

    def record(self) -> Mapping[str, object]:
        self.steps.record()
        return {}

    def compare(self, work: _Work) -> Mapping[str, object]:
        job = work.job(_Reported(self._there))
        self.run = job.run
        write_accuracy(job)
        return {}

    def end(self) -> Mapping[str, object]:
        stated = self.steps.statement()
        statement = {"salt": stated.salt, "commitment": stated.commitment, "fingerprints": dict(stated.fingerprints)}
        return {"statement": statement, "receipts": [receipt.model_dump_json() for receipt in self.steps.job.receipts]}


def _serve(
    there: Connection, file: Path | None, descriptor: int | None, command: str | None, test_key: str | None
) -> None:
    """Answer until there is nothing more to do, or nobody to do it for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_threads()
    starter = parent_process()
    if starter is not None:
        threading.Thread(target=_end_with, args=(starter.sentinel,), daemon=True).start()
    server = _Server(there, Keyholder(KeySource(file, descriptor, command), test_key))
    questions: dict[str, Callable[..., Mapping[str, object]]] = {
        "identity": server.identity,
        "begin": server.begin,
        "perform": server.perform,
        "record": server.record,
        "compare": server.compare,
        "end": server.end,
    }
    what = ""
    while what != "end":
        try:
            what, details = there.recv()
        except (EOFError, OSError):
            return
        try:
            answer = questions[what](*details)
        except BaseException as error:
            answer = {"error": described(error, server.run, what)}
        _answer(there, answer)


def _answer(there: Connection, answer: Mapping[str, object]) -> None:
    there.send_bytes(json.dumps(answer).encode())


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
