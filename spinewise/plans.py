"""What a release will promise, the errors to expect and its memory, before anything is spent.

This is the feature `plan`; without its folder, `spinewise` has neither name.
"""

from __future__ import annotations

from pathlib import Path

from features.plan.python import ReleasePlan  # type: ignore[import-not-found, unused-ignore]
from pipeline.execution.settings import load_settings
from spinewise.specs import Spec, as_spec, with_areas

__all__ = ["ReleasePlan", "plan"]


def plan(
    spec: Spec | Path | str,
    areas: object = None,
    *,
    workers: int | None = None,
    like: Path | str | None = None,
) -> ReleasePlan:
    """What a release will promise, how wrong its numbers will be, and the memory of its run. No records are read.

    Args:
        spec: the spec, or the path of its file.
        areas: the public list of areas, in memory or as a path; by default the file that the spec names.
        workers: processes of the run whose memory is bounded; by default that of the settings, or all cores.
        like: an earlier release, for errors by size of area, and for how far areas were from the same shares.

    Raises:
        InputError: something in the spec or its public files is wrong.
    """
    count = load_settings(workers=workers).processes
    return ReleasePlan(with_areas(as_spec(spec), areas), count, None if like is None else Path(like))
