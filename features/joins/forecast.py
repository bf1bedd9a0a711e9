"""What joins do to the errors that a plan expects: households that learn how many members they have from the persons.

Of the households of a geounit two numbers are followed, how many there are and how many members their sizes imply:

    Q = (V^-1 + s s' / v)^-1          what is measured in the subtree, and the persons there with the variance v
    F = Q - Q (S - S F_parent S) Q    with S = (sum of Q over the children of the parent)^-1;  F = Q at the top

V is the upward covariance of both numbers without the persons, and s picks the members. This is the recursion of
`postprocess.linear.covariances` for these two numbers; it is exact for children that are measured alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from features.joins.link import Join, joined_companions, residents_of
from features.joins.mathematics.composition import LEAST_VARIANCE
from features.joins.section import JoinSection
from geography.spine import Spine
from pipeline.estimation.expectation import Expectation
from pipeline.reading.margins import answer_weights
from postprocess.arrays import BoolArray, FloatArray, Weights
from postprocess.linear.covariances import LevelCovariances, moments, of_level
from postprocess.linear.downward import LevelVariances


def joined_rows(
    sections: Sequence[JoinSection], joins: Sequence[Join], expectations: Sequence[Expectation]
) -> tuple[dict[str, Any], ...]:
    """Of each companion that is joined by size, at every level: the fields of `features.plan.kinds.JoinedRow`.

    Args:
        sections, joins: of the spec.
        expectations: of its universes, its own first.
    """
    if not joins:
        return ()
    by_name = {expectation.universe.name: expectation for expectation in expectations}
    rows: list[dict[str, Any]] = []
    for companion in joined_companions(joins):
        sized = [
            join
            for join, section in zip(joins, sections, strict=True)
            if section.companion == companion and section.size is not None
        ]
        if sized and residents_of(joins, companion) is not None:
            rows += _rows(sized[0], by_name[""], by_name[companion])
    return tuple(rows)


def _members(join: Join, households: Expectation) -> Weights:
    """The weights `(1, n_j)` that make the members to expect."""
    query, expected = join.households, join.expected[join.inside].sum(axis=0)
    return [
        expected[group][None, :] if labels else np.ones((1, len(attribute.values)))
        for group, labels, attribute in zip(
            query.groups, query.labels, households.universe.schema.attributes, strict=True
        )
    ]


def _rows(join: Join, persons: Expectation, households: Expectation) -> Iterator[dict[str, Any]]:
    people, homes = persons.planned(), households.planned()
    residents = answer_weights(join.persons.groups, np.flatnonzero(join.inside))
    everybody = [np.ones((1, n)) for n in households.universe.schema.shape]
    members = _members(join, households)
    above: FloatArray | None = None
    for number, level in enumerate(persons.spine.levels):
        alone = _errors(persons, people[number], number, residents)
        apart = _errors(households, homes[number], number, everybody)
        variance = _upward(persons, people[number], number, residents, residents)[0]
        if number == 0 and (join.least < join.most).any():  # a size without one number tells nothing at the top
            variance = np.full_like(variance, np.nan)
        first, second, both = _upward(households, homes[number], number, everybody, members)
        of_both = np.stack([np.stack([first, both], axis=1), np.stack([both, second], axis=1)], axis=1)
        own = _with_persons(of_both, np.maximum(variance, LEAST_VARIANCE))
        above = own if above is None else _below(own, above, persons.spine, number)
        yield {
            "companion": join.companion,
            "level": level.name,
            "geounits": len(level),
            "persons": _mean(alone),
            "households_apart": _mean(apart),
            "households": _mean(np.sqrt(np.maximum(above[:, 0, 0], 0.0))),
        }


def _errors(expectation: Expectation, covariances: LevelCovariances, level: int, weights: Weights) -> FloatArray:
    """Standard errors `(n,)` of a sum after both passes; NaN where it is not determined."""
    classes = expectation.classes[level]
    variances = moments(expectation.basis, of_level(classes, covariances), weights, weights)[0]
    out: FloatArray = np.sqrt(variances.sum(axis=1))[classes.downward]
    return out


def _upward(
    expectation: Expectation, covariances: LevelCovariances, level: int, left: Weights, right: Weights
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variances and covariance `(n,)` of two sums from what is measured in each subtree."""
    classes = expectation.classes[level]
    own = classes.own
    blocks = LevelVariances(
        classes.downward, covariances.upward[own], classes.info.unmeasured[own], classes.info.known[own]
    )
    found = moments(expectation.basis, blocks, left, right)
    first, second, both = (each[classes.downward, 0] for each in found)
    return first, second, both


def _with_persons(covariance: FloatArray, variance: FloatArray) -> FloatArray:
    """With one more measurement of the members; none where its variance `(n,)` is NaN."""
    gain = np.where(np.isnan(variance), 0.0, 1.0 / (variance + covariance[:, 1, 1]))
    out: FloatArray = covariance - gain[:, None, None] * covariance[:, :, 1:] @ covariance[:, 1:, :]
    return out


def _below(own: FloatArray, above: FloatArray, spine: Spine, level: int) -> FloatArray:
    """Given the covariances of the level above, `(n_parents, 2, 2)`."""
    parents = spine.levels[level].parents
    summed = np.zeros_like(above)
    np.add.at(summed, parents, own)
    unknown: BoolArray = np.asarray(np.isnan(summed + above).any(axis=(1, 2)))
    inverse: FloatArray = np.linalg.pinv(np.where(unknown[:, None, None], 0.0, summed), hermitian=True)
    pull = inverse - inverse @ np.where(unknown[:, None, None], 0.0, above) @ inverse
    out: FloatArray = np.where(unknown[parents][:, None, None], own, own - own @ pull[parents] @ own)
    return out


def _mean(errors: FloatArray) -> float | None:
    """The mean over the geounits; None where one is not determined."""
    return None if np.isnan(errors).any() else float(errors.mean())
