"""A step of a release: the unit that is shown, timed, recorded as a Prefect task, and resumed after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
