"""A spec of several releases, one of which is run at a time: how a feature says so, and which one is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec


def at_period(spec: ReleaseSpec, period: str | None, out: Path) -> ReleaseSpec:
    """The spec of the release that is asked for; the same where a spec is that of one release.

    Raises:
        InputError: see `Kind.at`; or a period is asked for of a spec of one release.
    """
    if period is not None and not releases_of(spec):
        raise InputError(f"{spec.source}: --period {period}: the spec has no [series], so it is of one release")
    for part in spec.of_features:
        spec = part.at(spec, period, out)
    return spec


def releases_of(spec: ReleaseSpec) -> Mapping[str, str]:
    """The periods of a spec of several releases, in order, each with its release's name; none where it is of one."""
    return next((found for part in spec.of_features if (found := part.releases(spec))), {})
