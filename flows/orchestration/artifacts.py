"""What a run shows on Prefect's pages: progress, and tables of public values; and its log lines.

Shown are the plan, the budget, what the solvers report, sizes and times. Nothing here is given a count.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.logging import get_run_logger

from pipeline.execution.settings import memory_now
from pipeline.execution.steps import FOUND, CountedWork, Notes, Perform, Step, shown_time
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.privacy_statement import privacy_statement
from pipeline.runs.request import CheckedRequest

if TYPE_CHECKING:
    from uuid import UUID

    from prefect.logging.loggers import LoggingAdapter

#: Seconds between two updates of the progress.
_OFTEN = 2.0

Row = dict[str, object]


class ReleaseArtifacts(CountedWork):
    """A progress that makes artifacts of the flow run, under keys that begin with the release's name.

    A server that cannot be reached does not stop a run: from the first failure on no more artifacts are made.

    Args:
        seen: whether anybody can look at the server; if not, no artifacts are made.
    """

    def __init__(self, checked: CheckedRequest, *, seen: bool = True) -> None:
        super().__init__()
        self._checked = checked
        self._name = re.sub(r"[^a-z0-9]+", "-", checked.spec.name.lower()).strip("-") or "release"
        self._progress: UUID | None = None
        self._updated_at = 0.0
        self._step_began = time.monotonic()
        self._solver: list[Row] = []
        self._times: list[Row] = []
        self._reachable = seen
        self._log: LoggingAdapter | logging.Logger = get_run_logger()

    def begin(self, steps: tuple[Step, ...]) -> None:
        """Take note of all steps, before the first."""
        super().begin(steps)
        self._log.info("%s: begins in %s, %d steps", self._checked.spec.name, self._checked.run.root, len(steps))
        self._table("plan", plan_rows(steps), "The steps of the run, in order.")
        self._table("budget", budget_rows(self._checked), "How the privacy-loss budget is spent.")
        self._progress = self._make(create_progress_artifact, 0.0, f"{self._name}-progress", "The run begins.")

    def start(self, step: Step) -> None:
        """A step begins."""
        super().start(step)
        self._step_began = time.monotonic()
        self._update(step.name)

    def advance(self, geounits: int) -> None:
        """So many more geounits of the step are done."""
        super().advance(geounits)
        if self.step is not None and time.monotonic() - self._updated_at >= _OFTEN:
            done = self.geounits_done
            self._update(f"{self.step.name}: {done}" if done else self.step.name)

    def finish(self, step: Step, *, skipped: bool = False) -> None:
        """The step has ended; `skipped` if an earlier run had done it."""
        super().finish(step, skipped=skipped)
        seconds, memory = time.monotonic() - self._step_began, memory_now()
        self._times.append(
            {
                "step": step.name,
                "geounits": step.geounits,
                "seconds": "done before" if skipped else round(seconds, 2),
                "memory, MB": round(memory / 1e6),
            }
        )
        took = "done before" if skipped else f"{seconds:.2f} s"
        self._log.info("%s: %d geounits, %s, memory %.0f MB", step.name, step.geounits, took, memory / 1e6)

    def found(self) -> None:
        """The release was finished before, from the same: nothing is done."""
        self._log.info("%s: %s", self._checked.spec.name, FOUND)

    def close(self) -> None:
        """Nothing more is reported."""
        self._table("times", self._times, "How long each step took, and the memory at its end.")

    def noting(self, perform: Perform) -> Perform:
        """`perform`, which also adds the notes of a step's solvers to their table."""

        def performed(step: Step) -> Notes | None:
            notes = perform(step)
            if notes:
                self._solver.append({"step": step.name, **{name: _as_text(value) for name, value in notes.items()}})
            return notes

        return performed

    def finished(self, run: RunDirectory) -> None:
        """The release is whole: what the solvers did, the sizes of the files, and where everything is."""
        manifest = read_manifest(run.manifest)
        sizes: list[Row] = [{"file": name, "bytes": file.bytes} for name, file in sorted(manifest.files.items())]
        self._table("solver", self._solver, "What the solvers did, with the largest residuals.")
        self._table("sizes", sizes, "The public files.")
        total = sum(file.bytes for file in manifest.files.values())
        took = shown_time(time.monotonic() - self._began)
        self._log.info("%s: done in %s, %d public files, %.1f MB", manifest.release, took, len(sizes), total / 1e6)
        if self._progress is not None:
            self._make(update_progress_artifact, self._progress, 100.0, "The release is done.")
        page = result_page(run, manifest.release, manifest.status, len(sizes), total, took)
        self._make(create_markdown_artifact, page, f"{self._name}-release", "The release, and where it is.")

    def _update(self, text: str) -> None:
        self._updated_at = time.monotonic()
        left = self.seconds_left
        rest = "" if left is None else f", about {shown_time(left)} left"
        text = f"{text}{rest}, memory {memory_now() / 1e6:.0f} MB"
        if self._progress is not None:
            self._make(update_progress_artifact, self._progress, round(100 * self.share, 1), text)

    def _table(self, name: str, rows: list[Row], text: str) -> None:
        if rows:
            self._make(create_table_artifact, rows, f"{self._name}-{name}", text)

    def _make(self, function: Callable[..., Any], *arguments: object) -> Any:
        if not self._reachable:
            return None
        try:
            return function(*arguments)
        except Exception as error:  # whatever Prefect's client raises: the run is worth more than its artifacts
            self._reachable = False
            self._log.warning(
                "Prefect's server takes no artifacts (%s); the run continues without", type(error).__name__
            )
            return None


def plan_rows(steps: tuple[Step, ...]) -> list[Row]:
    """The steps of a run, with how many geounits each goes through and its part of the work."""
    total = sum(step.work for step in steps) or 1.0
    return [
        {
            "step": step.name,
            "stage": step.stage,
            "universe": step.universe or "main",
            "level": step.level,
            "geounits": step.geounits,
            "part of the work": f"{step.work / total:.1%}",
        }
        for step in steps
    ]


def budget_rows(checked: CheckedRequest) -> list[Row]:
    """Every measurement with its share of the budget and its noise, as the manifest will state them."""
    rows: list[Row] = []
    for universe in checked.universes:
        statement = privacy_statement(universe)
        rows += [
            {
                "universe": universe.name or "main",
                "budget": f"{statement.framework} {statement.budget}",
                "level": noise.level,
                "query": noise.query,
                "share": noise.share,
                "mechanism": noise.mechanism,
                "scale": noise.scale_decimal,
            }
            for noise in statement.noise
        ]
    return rows


def result_page(run: RunDirectory, name: str, status: str, files: int, size: int, took: str) -> str:
    """Markdown that shows where a release is, and what to do with it."""
    page = run.report if run.report.is_file() else run.manifest
    what = "The report" if page == run.report else "The manifest"
    return (
        f"# Release {name}\n\n{status}; {files} public files, {size / 1e6:.1f} MB, in {took}.\n\n"
        f"- [{what}]({page.resolve().as_uri()}): `{page.resolve()}`\n"
        f"- May be published: `{run.public.resolve()}`\n"
        f"- Must not: `{run.restricted.resolve()}`\n\n"
        f"Check it with `spinewise verify {run.root.resolve()}`.\n"
    )


def _as_text(value: object) -> object:
    if isinstance(value, dict):
        return ", ".join(f"{name}: {number}" for name, number in value.items())
    return value
