"""The worst group: aims whose largest ratio is the error of the group that noise hurts most, in parts of its people.

How many people a group has is taken from an earlier release, so that nothing confidential is read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from features.plan.targets import Aim, parse_places
from pipeline.errors import InputError, SpecError
from pipeline.estimation.expectation import Expectation
from pipeline.model.query import Query
from pipeline.reading.reader import Reader, open_reader
from postprocess.arrays import FloatArray

_OPTION = "--worst-group"


def worst_group_aims(text: str, expectation: Expectation, like: Path) -> tuple[Aim, ...]:
    """An aim for each group of the levels and queries named: its error, against its mean number in an area.

    Groups whose errors are the same for every division are told by the smallest of them, which is the worst. A group
    that the earlier release has nowhere, or whose numbers are exact, is left out.

    Args:
        text: "LEVEL: QUERY; ...".
        like: directory of an earlier release with the same values.

    Raises:
        InputError: an entry is malformed, the earlier release does not have the level or the values, or the universe
            is of an amount.
    """
    universe = expectation.universe
    if not universe.measure.counts:
        raise InputError(f"{_OPTION}: groups are of people, and {universe.name} has sums of an amount; use --weights")
    release = open_reader(like)
    earlier = release.companion(universe.name) if universe.name else release
    aims = []
    for level, query in parse_places(text, universe, _OPTION):
        means = _means(earlier, level, query)
        exact, _ = expectation.exact(expectation.spine.index_of(level), query)
        smallest: dict[tuple[int, bytes, bytes], int] = {}
        for answer in np.flatnonzero((means > 0) & ~exact.all(axis=0)).tolist():
            kind = (*_kind(expectation, query, answer), exact[:, answer].tobytes())
            if kind not in smallest or means[answer] < means[smallest[kind]]:
                smallest[kind] = answer
        aims += [Aim(level, query, float(means[answer]), True, answer) for answer in sorted(smallest.values())]
    if not aims:
        raise InputError(f"{_OPTION}: {like} has nobody in these groups, or their numbers are exact")
    return tuple(aims)


def _kind(expectation: Expectation, query: Query, answer: int) -> tuple[int, bytes]:
    """Answers of one kind have the same error, whatever is measured how precisely."""
    _, factors = expectation.basis.answer_factors(query)
    row, place = divmod(int(expectation.basis.answer_order(query)[answer]), factors.shape[1])
    return row, factors[:, place].round(9).tobytes()


def _means(earlier: Reader, level: str, query: Query) -> FloatArray:
    """Published people of each answer, mean over the areas of a level, `(size,)`."""
    if level not in earlier.levels:
        raise InputError(f"--like: {earlier.name} has no level {level!r}; its levels are {', '.join(earlier.levels)}")
    try:
        same = Query.parse(query.name, earlier.schema, where=f"--like: {earlier.name}")
    except SpecError as error:
        raise InputError(str(error)) from None
    if same.answer_labels() != query.answer_labels():
        raise InputError(f"--like: {earlier.name} has other values of {query.name}; the same are needed")
    return np.asarray(same.answer_csr(earlier.histogram(level)).mean(axis=0), dtype=np.float64)
