"""What a release will promise, the errors to expect and its memory, before anything is spent.

This is the feature `plan`; without its folder, `spinewise` has neither name.
"""

from __future__ import annotations

from pathlib import Path

from features.plan.python import ReleasePlan, planned  # type: ignore[import-not-found, unused-ignore]
from pipeline.errors import InputError
from pipeline.execution.settings import load_settings
from pipeline.execution.workers import default_workers
from spinewise.specs import Spec, as_spec, with_areas

__all__ = ["ReleasePlan", "plan"]

_ESTIMATORS = ("full", "topdown")


def plan(
    spec: Spec | Path | str,
    areas: object = None,
    *,
    estimator: str | None = None,
    workers: int | None = None,
    shares_spread: str | None = None,
    like: Path | str | None = None,
    records_per_unit: str | None = None,
    amounts: str | None = None,
) -> ReleasePlan:
    """What a release will promise, how wrong its numbers will be, and the memory of its run. No records are read.

    Args:
        spec: the spec, or the path of its file.
        areas: the public list of areas, in memory or as a path; by default the file that the spec names.
        estimator: "full" or "topdown"; by default the spec's.
        workers: processes of the run whose memory is bounded; by default that of the settings, or all cores.
        shares_spread: a guess of how far areas are from their public shares, as `--shares-spread` of the command.
        like: an earlier release, for errors by size of area, and for how far areas were from the same shares.
        records_per_unit: how many units have how many records, as `--records-per-unit` of the command.
        amounts: how many records, or units, have which amount, as `--amounts` of the command.

    Raises:
        InputError: something in the spec, its public files or the guess is wrong.
    """
    if estimator not in (None, *_ESTIMATORS):
        raise InputError(f"estimator: found {estimator!r}; allowed are {' and '.join(_ESTIMATORS)}")
    count = load_settings(workers=workers).workers or default_workers()
    return planned(
        with_areas(as_spec(spec), areas),
        estimator,
        count,
        shares_spread=shares_spread,
        like=None if like is None else Path(like),
        records_per_unit=records_per_unit,
        amounts=amounts,
    )
