"""A step of a release: the unit that is shown, timed, recorded as a Prefect task, resumed after; how far a run is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: What a step notes for the manifest: public, JSON.
Notes = dict[str, object]


@dataclass(frozen=True, eq=False)
class Step:
    """One stage, for one universe and level where the stage has them.

    Attributes:
        stage: such as "measure".
        perform: does it; what it returns is public.
        universe: name of the companion; "" for the release's own.
        level: name of the level; "" where the step is for all.
        geounits: how many it goes through, for the progress.
        effort: how much work a geounit is, compared with other steps.
        files: what it writes under public/.
        more: of the files that it writes under public/ as many as it takes, those that are there.
        prepares: files under public/ that need this step, when it writes none itself.
        several: it does the work of several steps at once; its notes are those of each, by the step's name.
    """

    stage: str
    perform: Callable[[], Notes | None]
    universe: str = ""
    level: str = ""
    geounits: int = 1
    effort: float = 1.0
    files: tuple[Path, ...] = ()
    more: Callable[[], tuple[Path, ...]] = tuple
    prepares: tuple[Path, ...] = ()
    several: bool = False

    @property
    def name(self) -> str:
        """ "estimate units block"."""
        return " ".join(part for part in (self.stage, self.universe, self.level) if part)

    def written(self) -> tuple[Path, ...]:
        """Its files, and those that are there of a number that only it knows."""
        return (*self.files, *self.more())

    @property
    def work(self) -> float:
        """Geounits times the effort for each."""
        return self.geounits * self.effort


def perform_here(step: Step) -> Notes | None:
    """Perform a step without any engine."""
    return step.perform()


#: How a step is performed: here, or as a task of an engine.
Perform = Callable[[Step], Notes | None]


#: What is said of a release that is there already.
FOUND: Final = "finished before, from the same spec, inputs, key and program: nothing was computed, drawn or charged"


class Progress:
    """Takes note of how far a run is; of itself of nothing. It is given public numbers only: steps, and geounits."""

    def begin(self, steps: tuple[Step, ...]) -> None:
        """All steps of the run, before the first."""

    def start(self, step: Step) -> None:
        """A step begins."""

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""

    def within(self, what: str, where: str) -> None:
        """Where one long computation of the step is, of `what`, such as a family; may be called by another thread."""

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""

    def close(self) -> None:
        """Nothing more is reported, because of an error or at the end."""


def listener_of(progress: Progress) -> Callable[[str, str], None] | None:
    """What a progress is told from within long computations; None where it does not show it."""
    return None if type(progress).within is Progress.within else progress.within


class Silent(Progress):
    """Shows nothing."""


class Listeners(Progress):
    """Passes the progress on to several listeners."""

    def __init__(self, *listeners: Progress) -> None:
        self._listeners = listeners

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Take note of all steps, before the first."""
        for listener in self._listeners:
            listener.begin(steps)

    def start(self, step: Step) -> None:
        """A step begins."""
        for listener in self._listeners:
            listener.start(step)

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        for listener in self._listeners:
            listener.advance(geounits)

    def within(self, what: str, where: str) -> None:
        """See `Progress.within`."""
        for listener in self._listeners:
            listener.within(what, where)

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended after so many seconds; None if an earlier run had done it."""
        for listener in self._listeners:
            listener.finish(step, seconds)

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""
        for listener in self._listeners:
            listener.found()

    def close(self) -> None:
        """Nothing more is reported."""
        for listener in self._listeners:
            listener.close()


class CountedWork(Progress):
    """Adds up the work that is done; work that a step does not report counts when it ends."""

    def __init__(self) -> None:
        self.total = 0.0
        self.before = 0.0
        self.step: Step | None = None
        self.geounits = 0
        self._began = self._reported = time.monotonic()
        self._shown = 0.0

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Take note of all steps, before the first."""
        self.total = sum(step.work for step in steps) or 1.0
        self.before = self._shown = 0.0
        self._began = self._reported = time.monotonic()

    def start(self, step: Step) -> None:
        """A step begins."""
        self.step, self.geounits = step, 0
        self._reported = time.monotonic()

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        if self.step is not None:
            self.geounits = min(self.geounits + geounits, self.step.geounits)
            self._reported = time.monotonic()

    def finish(self, step: Step, seconds: float | None) -> None:
        """The step has ended; what an earlier run had done counts for nothing in the time that is left."""
        if seconds is None:
            self.total -= step.work
            self._shown = min(self._shown, self.before)
        else:
            self.before += step.work
        self.step, self.geounits = None, 0

    @property
    def done(self) -> float:
        """Work that is done, in units of effort."""
        return self.before + (self.geounits * self.step.effort if self.step is not None else 0.0)

    @property
    def likely_done(self) -> float:
        """As `done`, with what the step has likely done since it last reported, so that a long step is seen to go on.

        It is less than all of the step, and never less than was said before.
        """
        done, now = self.done, time.monotonic()
        if self.step is not None and done > 0:
            rest = self.step.work - self.geounits * self.step.effort
            at_pace = done / max(self._reported - self._began, 1e-3) * (now - self._reported)
            done += rest * (1 - math.exp(-at_pace / rest)) if rest > 0 else 0.0
        self._shown = max(self._shown, done)
        return self._shown

    @property
    def share(self) -> float:
        """Of the whole work, from 0 to 1."""
        return min(1.0, self.likely_done / self.total) if self.total > 0 else 1.0

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far; None before a hundredth is done: the first steps' pace tells nothing of the rest."""
        done = self.likely_done
        if not done or done < self.total / 100:
            return None
        return (time.monotonic() - self._began) * max(0.0, self.total - done) / done

    @property
    def geounits_done(self) -> str:
        """ "12,000 of 25,181 geounits"; "" for a step that has none."""
        if self.step is None or self.step.geounits < 2:
            return ""
        return f"{self.geounits:,} of {self.step.geounits:,} geounits"


def shown_time(seconds: float) -> str:
    """ "42 s", "12 min", "3.5 h"."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
