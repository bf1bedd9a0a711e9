"""Parts of a release worked on by a Dask cluster.

Only names travel through the scheduler. What a part needs, and what comes back, goes by files in a scratch folder that
this process and every worker can reach: a path, or any address that fsspec knows (s3://..., gs://...). Both follow from
public files alone. What comes back are arrays, read without pickle, of the types and shapes that the part has. A worker
that is lost loses its part, which another one takes over.
"""

from __future__ import annotations

import hashlib
import ipaddress
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from geography.errors import InputError
from pipeline.execution.batches import arrays_of_bytes, bytes_of_arrays
from pipeline.execution.workers import AHEAD, WorkerError, Workers, apart, begun, immutable, in_order
from pipeline.missing import install_command
from pipeline.release.software import software
from pipeline.storage.files import differing_keys
from postprocess.arrays import Arrays

if TYPE_CHECKING:
    from distributed import Client, Future

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Workers that may be lost over one part before the run stops: a part that is too large for them would end them all.
_LOST = 3
#: Seconds to wait for the scheduler, and for its first worker.
_CONNECT, _FIRST_WORKER = 30, 60


@runtime_checkable
class Portable(Protocol):
    """A task that can be worked on by another machine."""

    def packed(self) -> object:
        """The same task with everything that it reads from files of this machine; it can be pickled."""

    def arrays_of(self, result: Any) -> Arrays:
        """The result of the task as arrays, on the machine that worked on it."""

    def result_of(self, arrays: Arrays) -> Any:
        """The result again; WorkerError where the arrays are not those of this task."""


@dataclass(frozen=True)
class _HandedPart:
    """Where the files of a part are, and what the scheduler promises."""

    task: Portable
    place: str
    future: Future

    def cancel(self) -> None:
        self.future.cancel()


class ClusterWorkers(Workers):
    """Hands parts of a spine to a Dask cluster, and works on everything else here.

    Args:
        count: processes of this machine, for what is not handed out.
        scheduler: address, such as "tls://10.0.0.5:8786".
        scratch: folder that all can reach.

    Raises:
        InputError: there is no scheduler or worker, or a worker has other versions than this process.
    """

    shares_parts = True

    def __init__(self, count: int, scheduler: str, scratch: str) -> None:
        super().__init__(count)
        self._scheduler = scheduler
        self._scratch = f"{scratch.rstrip('/')}/spinewise-{uuid.uuid4().hex}"
        self._client: Client | None = None

    def run(
        self,
        function: Callable[[Task], Result],
        tasks: Iterable[Task],
        done: Callable[[Task], None] | None = None,
    ) -> Iterator[Result]:
        """Run tasks, as `Workers.run`."""
        first, tasks = begun(tasks, 1)
        if not first or not isinstance(first[0], Portable):
            yield from super().run(function, tasks, done)
            return
        client = self._connected()
        ahead = AHEAD * max(1, sum(client.nthreads().values()))
        yield from in_order(tasks, partial(self._submit, client, function), self._result, ahead, done)

    def _submit(self, client: Client, function: Callable[[Task], Result], task: Task) -> _HandedPart:
        from distributed.protocol import pickle

        assert isinstance(task, Portable)
        place = f"{self._scratch}/{uuid.uuid4().hex}"
        digest = _write(f"{place}.task", bytes(pickle.dumps(immutable(task).packed())))
        call = f"{function.__module__}:{function.__qualname__}"
        future = client.submit(work_on, call, place, digest, pure=False, key=f"spinewise-{place}")
        return _HandedPart(task, place, future)

    def _result(self, handed: _HandedPart) -> Any:
        data = _read(f"{handed.place}.result", self._digest_of(handed.future))
        _remove(f"{handed.place}.task", f"{handed.place}.result")
        return immutable(handed.task.result_of(_arrays_in(data)))

    def _digest_of(self, future: Future) -> str:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        try:
            return str(future.result())
        except KilledWorker:
            raise WorkerError(
                f"{_LOST + 1} workers of the Dask cluster were lost over one part: they were killed, or have too "
                "little memory for it; run the same again, with more memory for each worker"
            ) from None
        except (FutureCancelledError, OSError) as error:
            raise WorkerError(f"the Dask cluster at {self._scheduler} was lost: {error}; run the same again") from None

    def _connected(self) -> Client:
        if self._client is None:
            self._client = _connect(self._scheduler)
            _check_versions(self._client)
            _check_scratch(self._client, self._scratch)
        return self._client

    def close(self, *, at_once: bool = False) -> None:
        """Leave the cluster, which keeps running, and remove what is in the scratch folder."""
        super().close(at_once=at_once)
        if self._client is not None:
            self._client.close()
            self._client = None
            _remove(self._scratch)


def work_on(call: str, place: str, digest: str) -> str:
    """On a worker: read the task, do it, write the result; returns the hash of what was written."""
    from importlib import import_module

    from distributed.protocol import pickle
    from threadpoolctl import threadpool_limits

    module, name = call.split(":")
    function = getattr(import_module(module), name)
    task = pickle.loads(_read(f"{place}.task", digest))
    with threadpool_limits(1):
        arrays = task.arrays_of(apart(function, task))
    return _write(f"{place}.result", bytes_of_arrays(arrays))


def _arrays_in(data: bytes) -> Arrays:
    """The arrays of a result; nothing in it is executed."""
    try:
        return arrays_of_bytes(data)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise WorkerError(f"a worker of the cluster sent a result that is not arrays ({error})") from None


def _write(url: str, data: bytes) -> str:
    """Write bytes; their SHA-256."""
    import fsspec

    with fsspec.open(url, "wb", auto_mkdir=True) as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def _read(url: str, digest: str) -> bytes:
    """The bytes that were written with this hash; nobody sees others."""
    import fsspec

    with fsspec.open(url, "rb") as file:
        data = bytes(file.read())
    if hashlib.sha256(data).hexdigest() != digest:
        raise OSError(f"{url} is not what was written there")
    return data


def _remove(*urls: str) -> None:
    import fsspec

    for url in urls:
        files, path = fsspec.url_to_fs(url)
        if files.exists(path):
            files.rm(path, recursive=True)


def is_loopback(host: str) -> bool:
    """Whether an address, or the name "localhost", can be reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_encrypted(scheduler: str) -> None:
    """Refuse a scheduler beyond this machine that is not spoken to by TLS: whoever can reach it runs code in workers.

    Raises:
        InputError: the address is not of this machine and does not begin with tls://.
    """
    protocol, _, rest = scheduler.rpartition("://")
    host = rest.split("/")[0].rpartition(":")[0].strip("[]") or rest.split("/")[0]
    if protocol not in ("tls", "inproc", "unix") and not is_loopback(host):
        raise InputError(
            f"--scheduler {scheduler}: is on another machine and not encrypted; start the cluster with TLS and "
            "certificates (dask scheduler --tls-ca-file ..., and distributed.comm.tls in Dask's configuration), and "
            "give its address tls://..."
        )


def _connect(scheduler: str) -> Client:
    check_encrypted(scheduler)
    try:
        import distributed
        import fsspec  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"--scheduler needs the package {error.name}, which is not installed: "
            f"{install_command('distributed', 'fsspec')}"
        ) from None
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"--scheduler {scheduler}: no Dask scheduler answers there ({error})") from None
    try:
        client.wait_for_workers(1, timeout=_FIRST_WORKER)
    except TimeoutError:
        client.close()
        raise InputError(f"--scheduler {scheduler}: the scheduler has no workers") from None
    return client


def _check_versions(client: Client) -> None:
    """Raises InputError where a worker would not give the same bytes."""
    here = _software()
    for address, there in client.run(_software).items():
        if there != here:
            now, then = ({**versions["packages"], **versions} for versions in (here, there))
            names = [name for name in differing_keys(now, then) if name != "packages"]
            differing = ", ".join(f"{name} {then.get(name, 'none')} (here {now.get(name, 'none')})" for name in names)
            raise InputError(f"the Dask worker {address} has other versions than this machine: {differing}")


def _software() -> dict[str, Any]:
    return software().model_dump(mode="json")


def _check_scratch(client: Client, scratch: str) -> None:
    """Raises InputError where a worker cannot read what is written to the scratch folder."""
    place = f"{scratch}/hello.task"
    try:
        digest = _write(place, b"hello")
    except (OSError, ValueError, ImportError) as error:
        raise InputError(f"--scratch {scratch}: cannot be written to ({error})") from None
    for address, seen in client.run(_can_read, place, digest).items():
        if not seen:
            raise InputError(
                f"--scratch {scratch}: the Dask worker {address} cannot read what is written there; name a folder that "
                "every worker can reach, such as one of a shared file system, or s3://..."
            )
    _remove(place)


def _can_read(place: str, digest: str) -> bool:
    try:
        return bool(_read(place, digest) == b"hello")
    except (OSError, ImportError):
        return False
