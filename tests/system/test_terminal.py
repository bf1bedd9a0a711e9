"""Ctrl-C on a real terminal, where every process of the foreground group gets it: soon, with one line."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from flows.cli import app

#: Seconds from Ctrl-C to the end: less than 2 on a quiet machine, and several times that where others work beside it.
SOON = 20.0


#: What a shell does: it leads the terminal's session, survives Ctrl-C, and tells the status when its child has ended.
SHELL = """
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: None)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-m", "flows.entry", *sys.argv[1:]])
print(f"<child {child}>", flush=True)
print(f"<status {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}>", flush=True)
time.sleep(5)
"""


@dataclass
class Terminal:
    """A command in the foreground group of a terminal of its own."""

    shell: int
    descriptor: int
    shown: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return self.shown.decode(errors="replace")

    @property
    def process(self) -> int:
        """The command's own process."""
        self.wait_for(lambda: "<child " in self.text)
        return int(self.text.split("<child ")[1].split(">")[0])

    def read(self, seconds: float) -> None:
        """Read what is shown, for so long at most."""
        last, shown = time.monotonic() + seconds, select.poll()  # of any file, however many are open
        shown.register(self.descriptor, select.POLLIN)
        while (left := last - time.monotonic()) > 0 and "<status" not in self.text:
            if shown.poll(1000 * left):
                self.shown += os.read(self.descriptor, 65536)

    def wait_for(self, happened: Callable[[], bool], seconds: float = 120) -> None:
        last = time.monotonic() + seconds
        while not happened():
            assert time.monotonic() < last, self.text
            assert "<status" not in self.text, self.text
            self.read(0.05)

    def workers(self) -> list[psutil.Process]:
        """The processes of the pool that have begun to work: they have imported what they need."""
        found = []
        for child in psutil.Process(self.process).children():
            try:
                if any("spawn_main" in word for word in child.cmdline()) and child.cpu_times().user > 0.5:
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def status(self) -> int:
        return int(self.text.split("<status ")[1].split(">")[0])

    def interrupt(self) -> tuple[int, float]:
        """Send what Ctrl-C sends; the exit status, and the seconds to the end."""
        began = time.monotonic()
        os.write(self.descriptor, b"\x03")  # the terminal makes the signal of it, for the whole group
        self.read(60)
        took = time.monotonic() - began
        assert "<status" in self.text, f"it hangs: {self.text}"
        return self.status(), took


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    begun: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        shell, descriptor = pty.fork()
        if shell == 0:
            environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PREFECT_HOME": str(tmp_path / "prefect")}
            environment.pop("PREFECT_API_URL", None)
            (tmp_path / "tmp").mkdir(exist_ok=True)
            os.execve(sys.executable, [sys.executable, "-c", SHELL, *arguments], environment)
        begun.append(Terminal(shell, descriptor))
        return begun[-1]

    yield start
    for one in begun:
        if "<status" not in one.text:
            os.kill(one.process, signal.SIGKILL)
        os.kill(one.shell, signal.SIGKILL)
        os.waitpid(one.shell, 0)
        os.close(one.descriptor)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example") / "demo"
    assert CliRunner().invoke(app, ["example", str(folder), "--people", "20000"]).exit_code == 0
    return folder / "release.toml"


WAYS: list[list[str]] = [[], ["--no-prefect"]]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_in_the_middle_of_a_batch(
    way: list[str], begin: Callable[..., Terminal], example: Path, tmp_path: Path
) -> None:
    """Workers are at work: the status is 130 soon, with one line, and no process and file is left."""
    terminal = begin("run", str(example), "--out", str(tmp_path / "out"), "--workers", "2", *way)
    terminal.wait_for(lambda: len(terminal.workers()) == 2)
    below = psutil.Process(terminal.process).children(recursive=True)
    assert len(below) >= 2
    status, took = terminal.interrupt()
    text = terminal.text
    assert (status, took < SOON) == (130, True), f"{status} after {took:.1f} s: {text}"
    assert text.count("stopped; the same command resumes") == 1
    for word in ("Traceback", "Error", "Exception", "Aborted", "leaked"):
        assert word not in text, text
    assert not psutil.wait_procs(below, timeout=60)[1], "processes are left"
    assert not list((tmp_path / "tmp").iterdir())
    assert (tmp_path / "out" / "example" / "restricted").is_dir()
    assert not (tmp_path / "out" / "example" / "public" / "manifest.json").exists()
