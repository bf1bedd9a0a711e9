"""A spec of several releases, one of which is run at a time: how a feature says so, and which one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec


@runtime_checkable
class HasPeriods(Protocol):
    """Keys of a feature by which a spec is that of several releases, one of which is run at a time."""

    def at(self, spec: ReleaseSpec, period: str | None, out: Path) -> ReleaseSpec:
        """The spec of one of them.

        Args:
            spec: of all.
            period: which one; None where only the spec may say it.
            out: the folder with the releases so far.

        Raises:
            InputError: there is none such, it is not its turn, or those before it are not of the same.
        """

    def releases(self, spec: ReleaseSpec) -> Mapping[str, str]:
        """The periods, in order, each with the name of its release."""


def at_period(spec: ReleaseSpec, period: str | None, out: Path) -> ReleaseSpec:
    """The spec of the release that is asked for; the same where a spec is that of one release.

    Raises:
        InputError: see `HasPeriods.at`; or a period is asked for of a spec of one release.
    """
    several = [part for part in spec.of_features if isinstance(part, HasPeriods)]
    if not several and period is not None:
        raise InputError(f"{spec.source}: --period {period}: the spec has no [series], so it is of one release")
    for part in several:
        spec = part.at(spec, period, out)
    return spec


def releases_of(spec: ReleaseSpec) -> Mapping[str, str]:
    """The periods of a spec of several releases, in order, each with its release's name; none where it is of one."""
    several = [part for part in spec.of_features if isinstance(part, HasPeriods)]
    return several[0].releases(spec) if several else {}
