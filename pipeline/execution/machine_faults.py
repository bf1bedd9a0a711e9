"""Faults of the machine and the shell as messages of one line: unreadable files, no memory, no output."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import Final

#: What files that a user names can be, through no fault of the program.
_OF_FILES = {
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ELOOP: "the symbolic links lead round in a circle",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EISDIR: "is a folder",
    errno.ENOENT: "does not exist",
    errno.EINVAL: "the name cannot be that of a file",
}
#: What can be wrong with the output, which has no name.
_OF_OUTPUT = (errno.EBADF, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


NO_MEMORY: Final = "not enough memory; run the same again with fewer --workers, or where there is more of it"
#: What the loader of libraries, and those that start threads, say where memory is short.
_NO_MEMORY = ("failed to map segment", "annot allocate memory", "bad_alloc", "Unable to allocate")
#: The address space that a run needs with one thread, in bytes, and for each more what the two copies of OpenBLAS map,
#: which have one for each processor, up to a most. OpenBLAS asks for its part while it is loaded; where it does not get
#: it, it asks again without end, so a limit that is too low is told before. Measured with two threads: 640 MB when a
#: run has loaded its libraries, 740 MB in the process of measurements; the smallest run ends from 1,000 MB on.
_LIBRARIES = 920 << 20
_LIBRARIES_OF_A_THREAD = 84 << 20
_MOST_THREADS = 64
#: How far back from an error its causes are looked at.
_DEPTH = 8


def open_standard_streams() -> None:
    """Give a command that was started without output one that refuses what is written, and not a file of its own."""
    for descriptor, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_RDWR)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # takes the least number that is free
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def fault_of(error: BaseException) -> tuple[str, int] | None:
    """The message and the exit status for an error that is not the program's; None for one that is."""
    if (limit := limit_of(error)) is not None:
        return limit, 1
    if isinstance(error, RecursionError):
        return "something given is nested too deep", 2
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop from "):
        return f"{str(error)[len('Symlink loop from ') :]}: {_OF_FILES[errno.ELOOP]}", 2
    if isinstance(error, ValueError) and "embedded null" in str(error):
        return "a file name with a NUL character was given; no file can have it", 2
    if not isinstance(error, OSError):
        return None
    if error.filename is None:
        return (f"cannot write the output: {error.strerror}", 1) if error.errno in _OF_OUTPUT else None
    reason = _OF_FILES.get(error.errno or 0)
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    return (f"{name}: {reason}", 2) if reason else (f"{name}: {error.strerror}", 1)


def limit_of(error: BaseException) -> str | None:
    """The limit of the machine that an error, or one behind it, tells of: memory, open files, processes."""
    seen: BaseException | None = error
    for _ in range(_DEPTH):
        if seen is None:
            return None
        text = str(seen)
        number = seen.errno if isinstance(seen, OSError) else None
        if isinstance(seen, MemoryError) or number == errno.ENOMEM or any(part in text for part in _NO_MEMORY):
            return NO_MEMORY
        if number in (errno.EMFILE, errno.ENFILE) or "Too many open files" in text:
            return f"too many open files{_most_files()}; run the same again where more are allowed (ulimit -n)"
        if "Resource temporarily unavailable" in text or "can't start new thread" in text:
            return "no further process or thread can be started: memory is short, or more are not allowed (ulimit -u)"
        seen = seen.__cause__ or seen.__context__
    return None


def limit_below_libraries() -> str | None:
    """The message where the limit on a process's address space is one in which the libraries cannot be loaded."""
    try:
        import resource
    except ImportError:
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    processors = os.cpu_count() or 1
    need = _LIBRARIES + (min(processors, _MOST_THREADS) - 1) * _LIBRARIES_OF_A_THREAD
    if most == resource.RLIM_INFINITY or most >= need:
        return None
    return (
        f"not enough memory: a process may have {most >> 20:,} MB (ulimit -v), and {need >> 20:,} MB are needed with "
        f"{processors} processors; run the same again where more is allowed"
    )


def _most_files() -> str:
    with suppress(ImportError):
        import resource

        return f": at most {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} can be"
    return ""


def flush_output() -> str | None:
    """Write what waits to be written; what went wrong, if anything did."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # Otherwise Python tries again when it ends, and prints an error.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return None if error.errno == errno.EPIPE else f"cannot write the output: {error.strerror}"
    except ValueError:
        return None
    return None
