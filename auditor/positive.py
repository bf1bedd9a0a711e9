"""Noise that was drawn only where the released area above is positive: on the right answers, and the right noise."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from auditor.files import exact_variance, header_and_column
from auditor.findings import Found, holds
from auditor.keys import KeyedStream
from auditor.noise import context_of
from auditor.reading.counts import read_histogram
from auditor.reading.errors import FormError
from auditor.reading.files import Files
from auditor.reading.findings import Findings
from auditor.reading.positive import due_answers, read_positive, wrong_answers
from auditor.release import Due, Release
from auditor.sampler import fits

#: Numbers of one file that are drawn again.
_REDRAWN = 500
_EXTREMES = 8


def positive_findings(release: Release, secret: bytes | None) -> Iterator[Found]:
    """Whether the answers are those that the published histograms give and, with the key, their noise its own."""
    if not release.due_positive:
        return
    places, noise, count = list[str](), list[str](), 0
    for due in release.due_positive:
        try:
            keys, residuals, wrong = _drawn(release, due)
        except FormError as error:
            places.append(f"{due.name}: {error}")
            continue
        places += [f"{due.name}: {sentence}" for sentence in (*wrong, *_header_problems(due))]
        if secret is not None:
            several, tried = _redrawn(release, secret, due, keys, residuals)
            count += tried
            if several:
                noise.append(
                    f"{due.name}: {several} of {tried} numbers are not what the key, these records and spec give"
                )
    yield holds("answers drawn", "where the area above is positive in the release", places)
    if secret is not None:
        yield holds("noise redrawn", "where the area above is positive", noise, well=f"{count:,} numbers drawn again")


def positive_residuals(release: Release, due: Due) -> NDArray[np.int64]:
    """What was added to the true answers, `(m,)`; FormError where the file does not hold them."""
    return _drawn(release, due)[1]


def _drawn(release: Release, due: Due) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """geounit * size + answer, what was added, and what is wrong with which answers these are."""
    above = release.spine[release.form.levels.index(due.level.name) - 1]
    files, findings, universe = Files(release.public), Findings(), due.universe.counted
    path = release.places.universe(universe.name).histogram(above.name)
    released = read_histogram(files, path, above, universe.cells, universe.impossible, findings)
    expected = due_answers(released, due.query, due.level)
    most = int(np.bincount(expected // due.query.size, minlength=1).max())
    keys, values = read_positive(files, due.path, due.level, due.query, most, findings)
    truth = release.truth(due.universe, due.level).answers(due.query).at(keys)
    return keys, values - truth, [*findings.problems, *wrong_answers(keys, expected, due.query, due.level)]


def _redrawn(
    release: Release, secret: bytes, due: Due, keys: NDArray[np.int64], residuals: NDArray[np.int64]
) -> tuple[int, int]:
    """How many of a sample of the residuals are not the noise of their place, and how many were tried."""
    picked = set(np.argsort(-np.abs(residuals))[:_EXTREMES].tolist())
    few = residuals.size <= _REDRAWN
    picked |= set(range(residuals.size)) if few else {secrets.randbelow(residuals.size) for _ in range(_REDRAWN)}
    context = context_of(release, secret, due.universe)
    stream = KeyedStream(secret, context, due.level.name, due.query.name)
    wrong = sum(
        not fits(due.universe.mechanism, due.scales[0], int(residuals[at]), stream.words(int(keys[at])))
        for at in sorted(picked)
    )
    return wrong, len(picked)


def _header_problems(due: Due) -> Iterator[str]:
    header, variances = header_and_column(due.path, "variance")
    stated = header.pop("variance", None)
    required = {
        "kind": "positive", "level": due.level.name, "query": due.query.name, "size": due.query.size,
        "mechanism": due.universe.mechanism, "scale": str(due.scales[0]),
    }  # fmt: skip
    if header != required:
        yield "its header is not what the spec gives"
    exact = exact_variance(due.universe.mechanism, due.scales[0])
    if not isinstance(stated, float) or not np.isclose(stated, exact, rtol=1e-10, atol=0) or set(variances) - {stated}:
        yield "its rows or its header do not have the variance of its noise"
