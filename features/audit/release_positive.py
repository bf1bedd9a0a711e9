"""What a finished release has drawn only where the released parent is positive: just there, and with its own noise."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from features.audit.exact_noise import normal_scores, spread_p_value
from features.audit.findings import ALPHA, Finding, certain
from features.audit.release_reading import Expected, expected_positive, input_fingerprints, truth_of
from pipeline.confidential.positive import true_answers
from pipeline.errors import ReleaseError, SpinewiseError
from pipeline.estimation.positive import positive_sources
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import PublishedRelease
from pipeline.release.histograms import read_histogram
from postprocess.positive import PositivePlaces

_GROUP = "release"


def positive_findings(release: PublishedRelease, key: MasterKey | None) -> Iterator[Finding]:
    """Audit it; nothing of a release of which all answers are drawn.

    Args:
        release: the release, with its restricted files.
        key: its master key; without it the noise is tested by its spread alone.
    """
    expected = list(expected_positive(release.run, release.universes))
    if not expected:
        return
    places, spreads, drawn = list[str](), dict[str, float](), list[str]()
    for seed, entry in enumerate(expected):
        try:
            due, residual = _residual(release, entry)
        except SpinewiseError as error:
            places.append(str(error))
            continue
        if len(residual):
            spreads[entry.name] = min(1.0, 2 * spread_p_value(normal_scores(residual, entry.noise, seed)))
        if key is not None and not np.array_equal(_noise(release, key, entry, due), residual):
            drawn.append(f"{entry.name}: what was added is not the noise of this key, input and spec")
    yield certain(_GROUP, "answers drawn", "where the parent is positive in the release", places)
    limit, least = ALPHA / len(expected), min(spreads.values(), default=1.0)
    problems = [f"{name}: the noise is not the one stated (p = {p:.2g})" for name, p in spreads.items() if p < limit]
    yield Finding(
        _GROUP, "noise found", "where the parent is positive", not problems, least, limit, "; ".join(problems[:5])
    )
    if key is not None:
        yield certain(_GROUP, "noise drawn", "where the parent is positive", drawn)


def _residual(release: PublishedRelease, entry: Expected) -> tuple[PositivePlaces, NDArray[np.int64]]:
    """Where answers are to be drawn, and what was added to the true ones, `(m,)`; ReleaseError where others were."""
    spine, universe = release.spine, entry.universe
    number = spine.index_of(entry.level)
    files, above = release.files_of(universe.name), spine.levels[number - 1]
    released = read_histogram(files.readable(files.histogram(above.name)), above.geocodes, universe.schema)
    due = PositivePlaces.of(released, entry.query).below(spine.levels[number].parents)
    (source,) = (
        one for one in positive_sources(files, universe, spine)[number] if one.header.query == entry.query.name
    )
    found = source.read(spine, released).values
    if not (np.array_equal(found.indptr, due.starts) and np.array_equal(found.indices, due.answers)):
        raise ReleaseError(f"{entry.name}: other answers were drawn than are positive in the released {above.name}")
    return due, found.data - true_answers(truth_of(release, universe, entry.level), entry.query, due)


def _noise(release: PublishedRelease, key: MasterKey, entry: Expected, due: PositivePlaces) -> NDArray[np.int64]:
    """The noise of this key at these places."""
    universe = entry.universe
    context = (
        input_fingerprints(release, key)[universe.name],
        release.spine.fingerprint(),
        universe.privacy_fingerprint(),
    )
    stream = key.stream_key(context, entry.level, entry.query.name)
    return sampler_for(entry.noise).draw_at(stream, due.rows * entry.query.size + due.answers)
