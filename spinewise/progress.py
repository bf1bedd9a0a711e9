"""The progress of a run: a bar in a terminal or a notebook, nothing elsewhere."""

from __future__ import annotations

import html
import sys
import time
from importlib import import_module
from typing import Any

from pipeline.execution.steps import FOUND, CountedWork, Progress, Silent, Step, shown_time

#: Seconds between two redraws during one step.
_PAUSE = 0.2


def progress_for(*, shown: bool) -> Progress:
    """The progress display that suits where the code runs; a silent one unless `shown`."""
    if not shown:
        return Silent()
    display = _notebook_display()
    if display is not None:
        return NotebookBar(display)
    from pipeline.execution.console import Bar, error_console

    console = error_console()
    return Bar(console) if console.is_terminal else Silent()


def _notebook_display() -> Any | None:
    """IPython's `display`, where the code runs in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or getattr(shell, "kernel", None) is None:
        return None
    return import_module("IPython.display").display


class NotebookBar(CountedWork):
    """One bar for the whole run in the output of a cell, which is cleared at the end; it needs no widgets."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self._display = display
        self._handle: Any = None
        self._drawn = 0.0

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Draw the empty bar for these steps."""
        super().begin(steps)
        self._handle = self._display({"text/html": self._picture("")}, raw=True, display_id=True)

    def start(self, step: Step) -> None:
        """Draw the bar at the start of a step."""
        super().start(step)
        self._draw(step.name)

    def advance(self, geounits: int) -> None:
        """Count geounits, and redraw the bar from time to time."""
        super().advance(geounits)
        if self.step is not None and time.monotonic() - self._drawn > _PAUSE:
            self._draw(self.step.name)

    def within(self, what: str, where: str) -> None:
        """See `Progress.within`."""
        if self.step is not None and time.monotonic() - self._drawn > _PAUSE:
            self._draw(f"{self.step.name}, {what}: {where}")

    def finish(self, step: Step, seconds: float | None) -> None:
        """Draw the bar at the end of a step."""
        super().finish(step, seconds)
        self._draw(step.name)

    def found(self) -> None:
        """Say that there is nothing to do."""
        self._display({"text/plain": FOUND}, raw=True)

    def close(self) -> None:
        """Clear the bar."""
        if self._handle is not None:
            self._handle.update({"text/html": ""}, raw=True)
            self._handle = None

    def _draw(self, name: str) -> None:
        self._drawn = time.monotonic()
        if self._handle is not None:
            self._handle.update({"text/html": self._picture(name)}, raw=True)

    def _picture(self, name: str) -> str:
        left = self.seconds_left
        facts = [name, self.geounits_done, "" if left is None else f"about {shown_time(left)} left"]
        text = html.escape(", ".join(fact for fact in facts if fact))
        share = self.share
        return f'<progress max="1" value="{share:.4f}" style="width:20em"></progress> {share:.0%} {text}'
