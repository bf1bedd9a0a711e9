"""Small series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from matrix.case import Case, Refusal, run_of
from releases.series_town import INDEPENDENT, YEARS, write_series_town


def _series(name: str, *changes: tuple[str, str], full: bool = False) -> Case:
    """Three periods of a series, each with its own records."""
    commands = tuple(run_of("release.toml", "out", "--period", year, "--data", f"persons-{year}.csv") for year in YEARS)
    published = tuple(f"out/padron-{year}" for year in YEARS)
    return Case(name, lambda folder: write_series_town(folder, *changes), commands, published, full=full)


CASES: Final[Sequence[Case]] = (_series("series", full=True), _series("independent", *INDEPENDENT))
REFUSALS: Final[Sequence[Refusal]] = ()
