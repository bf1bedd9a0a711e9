"""What a person sees: a progress bar, or plain lines where there is no terminal, on stderr; results in tables."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from geography.errors import SpinewiseError
from pipeline.errors import RefusedError
from pipeline.execution.settings import shown_memory
from pipeline.execution.steps import FOUND, CountedWork, Step, shown_time
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.status import status

#: Seconds between two plain lines of one step.
_QUIET = 10.0
#: Columns of a terminal from which on the names of steps have all their room.
_WIDE = 70
#: Columns that are left to the bar itself.
_LEAST_BAR = 10


def error_console() -> Console:
    """The console on stderr; text is shown as it is, without markup."""
    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def make_progress(*, lines: bool) -> Bar | Lines:
    """A bar on a terminal; lines elsewhere, or if they are asked for."""
    console = error_console()
    return Bar(console) if console.is_terminal and not lines else Lines(console)


class Bar(CountedWork):
    """One bar for the whole run, with the step, the time that is left, and what else there is room for."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._name = ""
        self._progress = Progress(_Line(self), console=console, transient=True)
        self._memory, self._measured = "", 0.0
        self._within = ""

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Take note of all steps, before the first."""
        super().begin(steps)
        self._progress.add_task("")
        self._progress.start()

    def start(self, step: Step) -> None:
        """A step begins."""
        super().start(step)
        self._name, self._within = step.name, ""

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        super().advance(geounits)
        self._within = ""

    def within(self, what: str, where: str) -> None:  # noqa: ARG002 - there is no room for it
        """See `Progress.within`; shown until more geounits are done."""
        self._within = where

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""
        super().finish(step, seconds)
        self._within = ""
        if seconds is None:
            self._name = f"{step.name} (done before)"

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""
        self._progress.console.print(FOUND)

    def close(self) -> None:
        """Nothing more is reported."""
        self._progress.stop()

    def line(self) -> Table:
        """The step, the bar, and the share that is done with the time left; then what fits, memory last."""
        now, width = time.monotonic(), self._progress.console.width
        if now - self._measured > 1.0:
            self._memory, self._measured = shown_memory(), now
        room, share, left = (24 if width >= _WIDE else 18), self.share, self.seconds_left
        name = self._name if len(self._name) <= room else f"{self._name[: room - 1]}\N{HORIZONTAL ELLIPSIS}"
        facts = f"{share:>4.0%}  {'time left not known' if left is None else f'{shown_time(left)} left'}"
        for more in (self._within or self.geounits_done, self._memory):
            if len(facts) + len(more) + 2 > width - room - _LEAST_BAR:
                break
            facts += f"  {more}" if more else ""
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(1.0, share, width=max(4, width - room - len(facts) - 3))
        line.add_row(Text(name.ljust(room), no_wrap=True), bar, Text(facts, no_wrap=True))
        return line


class _Line(ProgressColumn):
    """What a bar shows; made anew at each refresh, so that it goes on during a long step."""

    def __init__(self, bar: Bar) -> None:
        super().__init__()
        self._bar = bar

    def render(self, task: Task) -> Table:  # noqa: ARG002 - what is shown is the bar's
        """See `Bar.line`."""
        return self._bar.line()


class Lines(CountedWork):
    """A line for each step that has ended, and now and then for one that takes long."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._printed_at = 0.0

    def start(self, step: Step) -> None:
        """A step begins."""
        super().start(step)
        self._printed_at = time.monotonic()

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        super().advance(geounits)
        now = time.monotonic()
        if self.step is not None and now - self._printed_at >= _QUIET:
            self._printed_at = now
            left = self.seconds_left
            time_left = "time left not known yet" if left is None else f"about {shown_time(left)} left"
            parts = (self.geounits_done, time_left, shown_memory())
            self._console.print(f"{self.step.name}: {', '.join(part for part in parts if part)}")

    def within(self, what: str, where: str) -> None:
        """See `Progress.within`."""
        now = time.monotonic()
        if self.step is not None and now - self._printed_at >= _QUIET:
            self._printed_at = now
            self._console.print(f"{self.step.name}: {what}: {where}, {shown_memory()}")

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""
        super().finish(step, seconds)
        geounits = f"{step.geounits:,} geounits, " if step.geounits > 1 else ""
        took = "done before" if seconds is None else f"{seconds:.1f} s, {shown_memory()}"
        self._console.print(f"{step.name}: {geounits}{took}")

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""
        self._console.print(FOUND)

    def close(self) -> None:
        """Nothing more is reported."""
        with suppress(OSError):
            self._console.file.flush()


def tell_error(error: SpinewiseError) -> None:
    """Show an error that a person caused or can act on; where its reason is confidential, show that too."""
    console = error_console()
    console.print(f"Error: {error}")
    if isinstance(error, RefusedError):
        with suppress(OSError):
            console.print(error.reason())


def tell_problems(what: str, problems: Iterable[str]) -> None:
    """Show what is wrong with something, a line each."""
    console = error_console()
    console.print(what)
    for problem in problems:
        console.print(f"  {problem}")


def remarks_of_end(run: RunDirectory) -> list[str]:
    """What a person has to know of a run that has ended well."""
    remarks = []
    if run.remarks.exists():
        remarks += [f"Warning: {line}" for line in run.remarks.read_text(encoding="utf-8").splitlines()]
    if run.warnings.exists():
        remarks.append(f"Warning: there are remarks on the records and the spec's constraints, see {run.warnings}")
    if read_manifest(run.manifest).status == status(insecure_key=True, charged=False):
        remarks.append("NOT FOR RELEASE: the noise was made with a test key, and anyone can take it off again")
    return remarks


def output_console(width: int = 140) -> Console:
    """The console on stdout, where text is shown as it is; at least so many columns where it is no terminal."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = max(console.width, width)
    return console


def table_of(texts: Iterable[str], numbers: Iterable[str] = ()) -> Table:
    """A table without lines whose columns are texts, each on one line, and then numbers, to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in texts:
        table.add_column(title, no_wrap=True)
    for title in numbers:
        table.add_column(title, justify="right")
    return table
