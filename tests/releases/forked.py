"""Commands in forks of a process that has imported the program once: the same process else, with none of its start.

`python -m releases.forked SOCKET` waits at a socket for command lines until its standard input ends. Of each it makes a
fork, which has the folder, environment and open files of whoever asks, runs a module as `python -m` does, and ends as
that ends. Nothing that reads the environment as it is imported is loaded before the fork: Prefect is not.

Processes that a run starts by `multiprocessing`, to measure, to compare and to estimate, are born likewise: a fork that
has loaded the program and has done nothing else makes them, for a command or for the process of the tests, whose
children they are. They get what a started one gets: its environment and folder, the files that are handed to it, the
signals that are blocked or ignored, and nothing that the one which asks has in its memory.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import fcntl
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from multiprocessing import util
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, Final, Never

#: Packages that are imported before the first fork, but for modules with these words in their names.
PACKAGES: Final = ("geography", "postprocess", "pipeline", "features", "flows")
LATER: Final = ("orchestration", "dask", "__main__", "_dask")
#: Variables that libraries read as they are loaded, or Python at its start; who sets one needs a start.
READ_AT_START: Final = ("PYTHON", "OPENBLAS", "OMP_", "MKL_", "VECLIB", "NPY_", "ARROW_", "TERMINAL_", "GLIBC_", "LD_")
#: Of these, what a fork takes over: where to look for modules.
_TAKEN_OVER: Final = ("PYTHONPATH", "PYTHONSAFEPATH")
#: What adopts processes whose parent has ended: prctl(2).
_PR_SET_CHILD_SUBREAPER: Final = 36


def needs_start(variables: Mapping[str, str]) -> bool:
    """Whether one of these is read when a program starts."""
    return any(name.startswith(READ_AT_START) for name in variables)


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in variables.items() if needs_start({name: text}) and name not in _TAKEN_OVER}


class Forks:
    """The process that forks, of whoever has this object; it ends with it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables, self._owner = dict(variables), os.getpid()
        self.folder = tempfile.TemporaryDirectory(prefix="forks-")
        self.place = str(Path(self.folder.name) / "socket")
        command = [sys.executable, "-m", "releases.forked", self.place]
        self.process = subprocess.Popen(
            command,
            env={**variables},
            cwd=self.folder.name,  # where Python looks for modules first: in none of a checkout but those of PYTHONPATH
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> None:
        """End it, with nothing left of it."""
        self.process.communicate()
        self.folder.cleanup()

    def run(
        self, words: Sequence[str], variables: Mapping[str, str], cwd: Path | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run of `python -m WORDS`, whose output is kept; TimeoutExpired after `timeout` s."""
        request = {"words": list(words), "variables": dict(variables), "cwd": str(cwd or Path.cwd())}
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err, self._connected() as asked:
            _send(asked, request, [out.fileno(), err.fileno()])
            answers = asked.makefile()
            pid = int(answers.readline())
            asked.settimeout(timeout)
            try:
                status = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), timeout) from None
            told = []
            for file in (out, err):
                file.seek(0)
                told.append(file.read())
        return subprocess.CompletedProcess(list(words), status, *told)

    def nursery(self) -> socket.socket | None:
        """A fork from which processes can be born, until this is closed; None for a fork of whoever has this object.

        What is born would not be its child.
        """
        if os.getpid() != self._owner:
            return None
        asked = self._connected()
        _send(asked, {}, [])
        with asked.makefile() as answers:
            assert answers.readline() == "ready\n"
        return asked

    def _connected(self) -> socket.socket:
        asked = socket.socket(socket.AF_UNIX)
        asked.connect(self.place)
        return asked


class Births:
    """Lets processes that `multiprocessing` starts be born in a nursery, as children of this process.

    Args:
        nursery: what opens it, when it is first needed.
        variables: with which the process began that has loaded the program. Where others that are read at a start are
            set now, a process is started.
    """

    def __init__(self, nursery: Callable[[], socket.socket | None], variables: Mapping[str, str]) -> None:
        self._nursery, self._variables = nursery, _read_at_start(variables)
        self._owner, self._lock = os.getpid(), threading.Lock()
        self._open: socket.socket | None = None
        self._start = util.spawnv_passfds

    def begin(self) -> None:
        """From now on, until `end`; where processes can be adopted."""
        if sys.platform == "linux":
            util.spawnv_passfds = self._born

    def end(self) -> None:
        """Processes are started again."""
        util.spawnv_passfds = self._start

    def _born(self, path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
        """As `multiprocessing.util.spawnv_passfds`: the number of the process."""
        if (
            args[-1] != "--multiprocessing-fork"
            or os.getpid() != self._owner
            or _read_at_start(os.environ) != self._variables
        ):
            return int(self._start(path, args, passfds))
        given = [0, 1, 2, *map(int, passfds)]
        request = {
            "program": args[args.index("-c") + 1],
            "files": given,
            "variables": dict(os.environ),
            "cwd": str(Path.cwd()),
            "blocked": sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
            "ignored": [one for one in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(one) is signal.SIG_IGN],
        }
        with self._lock:
            self._open = self._open or self._nursery()
            if self._open is None:
                return int(self._start(path, args, passfds))
            _adopting(True)
            try:
                _send(self._open, request, given)
                with self._open.makefile() as answers:
                    return int(answers.readline())
            finally:
                _adopting(False)


def _adopting(on: bool) -> None:
    """Whether this process is given the grandchildren whose parents have ended."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0)


def _send(to: socket.socket, request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Send a line of JSON, and open files."""
    to.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else [])
    to.sendall(json.dumps(request).encode() + b"\n")


def _received(asked: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """What `_send` sends; None when the other side has ended."""
    size = array.array("i").itemsize
    first, more, _, _ = asked.recvmsg(1, socket.CMSG_SPACE(64 * size))
    files = array.array("i")
    for _, _, content in more:
        files.frombytes(content[: len(content) - len(content) % size])
    with asked.makefile() as lines:
        return json.loads(lines.readline()) if first else None, list(files)


def _load() -> None:
    """Import all that commands import, but for what belongs to a start."""
    from pipeline.execution.threads import limit_threads

    limit_threads()
    for name in PACKAGES:
        package = import_module(name)
        for module in walk_packages(package.__path__, f"{name}."):
            if not any(word in module.name for word in LATER):
                import_module(module.name)
    for name in ("fastapi", "httpx", "sqlalchemy"):  # most of what Prefect imports
        import_module(name)
    gc.collect()
    gc.freeze()  # or each fork copies all of it, as it looks for garbage
    early = {"prefect", "dask", "distributed"} & sys.modules.keys()
    assert not early, f"loaded before the environment is there: {early}"


def _served(place: str) -> list[str]:
    """Wait for requests; comes back in each fork, with the command line, in the folder and environment asked for."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(64)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if listening not in ready:
                sys.exit()
            asked, _ = listening.accept()
            if os.fork():
                asked.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            request, files = _received(asked)
            assert request is not None
            if not request:
                asked.sendall(b"ready\n")
                _nurse(asked)
            child = os.fork()
            if child:
                _wait(child, asked, files)
            asked.close()
            ours, theirs = socket.socketpair()
            if os.fork() == 0:
                ours.close()
                _nurse(theirs)
            theirs.close()
            Births(ours.dup, os.environ.copy()).begin()
            _become(request, files)
            words: list[str] = request["words"]
            return words


def _nurse(asked: socket.socket) -> Never:
    """Let processes be born until nobody can ask for one any more; each is left to whoever asks."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_IGN)
    while True:
        request, files = _received(asked)
        if request is None:
            os._exit(0)
        told, telling = os.pipe()
        between = os.fork()
        if between == 0:
            if (child := os.fork()) == 0:
                _live(request, files)
            os.write(telling, str(child).encode())
            os._exit(0)
        os.waitpid(between, 0)
        child = int(os.read(told, 20))
        for file in (told, telling, *files):
            os.close(file)
        asked.sendall(f"{child}\n".encode())


def _live(request: Mapping[str, Any], files: Sequence[int]) -> Never:
    """Be the process that is asked for: with its files alone, under their numbers, run its program and end."""
    wanted: list[int] = request["files"]
    above = max(256, *wanted, *files) + 1
    kept = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in files]
    os.closerange(0, above)
    for file, to in zip(kept, wanted, strict=True):
        os.dup2(file, to)
        os.close(file)
    sys.modules["__main__"] = ModuleType("__main__")
    sys.argv = ["-c", "--multiprocessing-fork"]
    _take_over(request)
    for one in (signal.SIGINT, signal.SIGTERM):
        usual = signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL
        signal.signal(one, signal.SIG_IGN if one in request["ignored"] else usual)
    signal.pthread_sigmask(signal.SIG_SETMASK, request["blocked"])
    try:
        for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep):
            if folder and Path(folder, "sitecustomize.py").exists():  # as at the start of each process
                sys.path.insert(0, folder)
                import_module("sitecustomize")
        _end_after(lambda: exec(request["program"], {"__name__": "__main__"}))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _end_after(program: Callable[[], object]) -> Never:
    """Run a program and end as it ends, but without freeing all that was loaded, which is a copy of it in a fork."""
    status = 0
    try:
        program()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            sys.stderr.write(f"{ended.code}\n")
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:
        status = 120  # as Python ends
    os._exit(status)


def _wait(child: int, asked: socket.socket, files: list[int]) -> None:
    """Tell the child's number, and how it has ended."""
    for file in files:
        os.close(file)
    asked.sendall(f"{child}\n".encode())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        asked.sendall(f"{status}\n".encode())
    finally:
        os._exit(0)


def _become(request: Mapping[str, Any], files: list[int]) -> None:
    """Take over what a started process would have."""
    sys.path[0] = request["cwd"]
    streams = files if len(files) == 3 else [os.open(os.devnull, os.O_RDONLY), *files]
    for to, file in enumerate(streams):
        os.dup2(file, to)
        os.close(file)
    _take_over(request)


def _take_over(request: Mapping[str, Any]) -> None:
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["variables"])
    time.tzset()
    # Its streams are those of a start: block by block, as into any file.
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, encoding="utf-8", closefd=False),  # noqa: SIM115 - until the process ends
        open(1, "w", encoding="utf-8", closefd=False),  # noqa: SIM115
        open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False),  # noqa: SIM115
    )


def main() -> None:
    _load()
    module, *words = _served(sys.argv[1])
    sys.argv = [module, *words]
    sys.modules.pop(module, None)
    _end_after(lambda: runpy.run_module(module, run_name="__main__", alter_sys=True))


if __name__ == "__main__":
    main()
