"""The noise of a finished release, with its restricted/ folder: is it what the installed sampler draws, and apart?

Everything else about a finished release is checked by the second program (`auditor`), from its own reading, and by
`spinewise verify`. What is left to the first needs the installed sampler, which draws every number again and not a
sample of them; or all residuals of a measurement: their spread, which is seen without the key, too, and whether any two
measurements share noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from features.audit.exact_noise import normal_scores, overlap_p_value, spread_p_value, together_p_value, zeros_p_value
from features.audit.findings import ALPHA, Finding, certain
from features.audit.release_positive import positive_findings
from features.audit.release_reading import Expected, expected_measurements, input_fingerprints, truth_of
from features.audit.release_selected import selected_findings
from pipeline.errors import SpinewiseError
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import PublishedRelease
from pipeline.release.measurements import read_measurement

__all__ = ["noise_findings"]

_GROUP: Final = "release"


def noise_findings(release: PublishedRelease, key: MasterKey | None) -> Iterator[Finding]:
    """Audit the noise of a finished release.

    Args:
        release: the release, with its restricted files.
        key: its master key; without it the noise is tested by its distribution alone.
    """
    expected = list(expected_measurements(release.run, release.universes, release.spine))
    residuals, problems = _residuals(release, expected)
    yield from _distribution(expected, residuals)
    yield from selected_findings(release, key)
    yield from positive_findings(release, key)
    if key is not None:
        problems += _drawn_problems(release, key, residuals)
        yield certain(_GROUP, "noise drawn", "of this key, input and spec", problems)


def _residuals(
    release: PublishedRelease, expected: Sequence[Expected]
) -> tuple[dict[str, tuple[Expected, NDArray[np.int64]]], list[str]]:
    """`(n, size)` differences between each measurement and the truth; and why there are none of some."""
    residuals, problems = {}, []
    for entry in expected:
        try:
            values = read_measurement(release.unchanged(entry.path)).values
        except SpinewiseError as error:
            problems.append(str(error))
            continue
        truth = entry.query.answer_csr(truth_of(release, entry.universe, entry.level))
        n = len(truth) if entry.measured is None else len(entry.measured)
        if values.shape != (n, entry.query.size):
            problems.append(f"{entry.name}: has other geounits or answers than the spec calls for")
        elif entry.rows is None:
            residuals[entry.name] = (entry, values - truth)
        elif entry.at is not None and len(entry.at):
            residuals[entry.name] = (entry, values[entry.at] - truth[entry.rows])
    return residuals, problems


def _distribution(
    expected: Sequence[Expected], residuals: dict[str, tuple[Expected, NDArray[np.int64]]]
) -> Iterator[Finding]:
    scores = {
        name: normal_scores(residual.ravel(), entry.noise, seed)
        for seed, (name, (entry, residual)) in enumerate(residuals.items())
    }
    limit = ALPHA / max(1, len(expected))
    spreads = {
        name: min(1.0, 2 * min(spread_p_value(scores[name]), zeros_p_value(residual.ravel(), entry.noise)))
        for name, (entry, residual) in residuals.items()
    }
    problems = [
        f"{name}: the noise is not {residuals[name][0].noise} (p = {p:.2g}, mean of squares "
        f"{(scores[name] ** 2).mean():.3g} where 1 is right)"
        for name, p in spreads.items()
        if p < limit
    ]
    least = min(spreads.values(), default=1.0)
    yield Finding(
        _GROUP, "noise found", "spread of each measurement", not problems, least, limit, "; ".join(problems[:5])
    )
    p_value = together_p_value(list(scores.values())) if scores else 1.0
    yield Finding(_GROUP, "noise found", "distribution of all residuals", p_value >= ALPHA, p_value, ALPHA)
    p_value, pair = overlap_p_value(scores)
    shared = f"noise is shared: {pair}" if p_value < ALPHA else ""
    yield Finding(_GROUP, "streams apart", "every pair at every shift", p_value >= ALPHA, p_value, ALPHA, shared)


def _drawn_problems(
    release: PublishedRelease, key: MasterKey, residuals: dict[str, tuple[Expected, NDArray[np.int64]]]
) -> list[str]:
    """Whether each residual is the noise of its own place in its own stream."""
    problems = []
    fingerprints = input_fingerprints(release, key)
    for name, (entry, residual) in residuals.items():
        universe = entry.universe
        context = (
            fingerprints[universe.name],
            release.spine.fingerprint(),
            universe.privacy_fingerprint(),
        )
        stream = key.stream_key(context, entry.level, entry.query.name)
        shape = (len(release.spine.level(entry.level)), entry.query.size)
        noise = sampler_for(entry.noise).draw(stream, 0, shape[0] * shape[1]).reshape(shape)
        if not np.array_equal(entry.of(noise), residual):
            problems.append(f"{name}: what was added is not the noise of this key, input and spec")
    return problems
