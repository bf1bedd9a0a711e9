"""Commands in forks of a process that has imported the program once: the same process else, with none of its start.

`python -m releases.forked SOCKET` waits at a socket for command lines until its standard input ends. Of each it makes a
fork, which has the folder, environment and open files of whoever asks, runs a module as `python -m` does, and ends as
that ends. Nothing that reads the environment as it is imported is loaded before the fork: Prefect is not.
"""

from __future__ import annotations

import array
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
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, Final

#: Packages that are imported before the first fork, but for modules with these words in their names.
PACKAGES: Final = ("geography", "postprocess", "pipeline", "features", "flows")
LATER: Final = ("orchestration", "dask", "__main__", "_dask")
#: Variables that libraries read as they are loaded, or Python at its start; who sets one needs a start.
READ_AT_START: Final = ("PYTHON", "OPENBLAS", "OMP_", "MKL_", "VECLIB", "NPY_", "ARROW_", "TERMINAL_", "GLIBC_", "LD_")


def needs_start(variables: Mapping[str, str]) -> bool:
    """Whether one of these is read when a program starts."""
    return any(name.startswith(READ_AT_START) for name in variables)


class Forks:
    """The process that forks, of whoever has this object; it ends with it."""

    def __init__(self, variables: Mapping[str, str]) -> None:
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
        with (
            tempfile.TemporaryFile("w+") as out,
            tempfile.TemporaryFile("w+") as err,
            socket.socket(socket.AF_UNIX) as asked,
        ):
            asked.connect(self.place)
            files = array.array("i", [out.fileno(), err.fileno()])
            asked.sendmsg([b"f"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            asked.sendall(json.dumps(request).encode() + b"\n")
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
            request, files = _request(asked)
            child = os.fork()
            if child:
                _wait(child, asked, files)
            asked.close()
            _become(request, files)
            words: list[str] = request["words"]
            return words


def _request(asked: socket.socket) -> tuple[dict[str, Any], list[int]]:
    size = array.array("i").itemsize
    _, more, _, _ = asked.recvmsg(1, socket.CMSG_SPACE(2 * size))
    files = array.array("i")
    for _, _, content in more:
        files.frombytes(content[: len(content) - len(content) % size])
    with asked.makefile() as lines:
        request: dict[str, Any] = json.loads(lines.readline())
    return request, list(files)


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
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    os.environ.clear()
    os.environ.update(request["variables"])
    time.tzset()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for to, file in enumerate((nothing, *files)):
        os.dup2(file, to)
        os.close(file)
    # Its streams are those of a start: block by block, as into any file.
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, encoding="utf-8"),  # noqa: SIM115 - until the process ends
        open(1, "w", encoding="utf-8"),  # noqa: SIM115
        open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1),  # noqa: SIM115
    )


def main() -> None:
    _load()
    module, *words = _served(sys.argv[1])
    sys.argv = [module, *words]
    sys.modules.pop(module, None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
