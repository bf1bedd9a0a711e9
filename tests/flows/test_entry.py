"""The first words of the command: on a terminal, before any library is loaded, and nowhere else."""

from __future__ import annotations

import os
import pty
import sys

#: Begins the command, and tells at its first words which libraries have been loaded by then.
_BEGIN = """
import sys
written = sys.stderr.write
def write(text):
    written(text)
    loaded = [name for name in ("numpy", "typer", "pydantic", "pyarrow", "flows.cli") if name in sys.modules]
    written("".join(f"[{name}]" for name in loaded))
    sys.stderr.flush()
    sys.exit()
sys.stderr.write = write
from flows.entry import main
main()
"""


def said(*words: str, terminal: bool) -> str:
    """What the command writes to stderr first, with the libraries that had been loaded."""
    if terminal:
        ours, theirs = pty.openpty()
    else:
        ours, theirs = os.pipe()
    process = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", _BEGIN, *words],
        os.environ,
        file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_DUP2, theirs, 2)],
    )
    os.close(theirs)
    found = b""
    try:
        while more := os.read(ours, 1000):
            found += more
    except OSError:  # the terminal was closed at its other end
        pass
    os.waitpid(process, 0)
    os.close(ours)
    return found.decode()


def test_a_run_says_on_a_terminal_that_it_starts_before_any_library_is_loaded() -> None:
    assert said("run", "spec.toml", terminal=True) == "starting\r"


def test_elsewhere_the_first_words_are_those_of_the_command() -> None:
    """Here the message of a file that is not there, for which libraries were needed."""
    for words, terminal in (("run nothing.toml", False), ("--quiet run nothing.toml", True), ("verify nothing", True)):
        found = said(*words.split(), terminal=terminal)
        assert ("starting" in found, "[typer]" in found) == (False, True), words
