"""Releases of marginals: universes of the same records, which agree on what they share, and whole records of all.

Every table of a universe is a sum of its histogram, so two universes agree where their histograms' sums over all other
attributes are the same; and records agree with all of them where they have the number of each cell of each universe.
Of an amount, whose values are bins, each record has a number that the public seed draws inside its bin.
What the spec says of all records is said of each universe: a combination that is impossible in one is so in all that
have its attributes, and a number that is exact in one is so in the others, as far as they have its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.check.published import PublicRelease
from auditor.reading.counts import LevelFile, compare
from auditor.reading.files import numbers_of, whole_numbers
from auditor.reading.findings import Findings, FormError
from auditor.reading.spec import PublicUniverse
from auditor.reading.spine import Level
from auditor.reading.values import IntArray, zeros

#: Behind the name of an amount: the column of numbers drawn inside its bins. What its hashes are of, first.
DRAWN, _USE = "_drawn", 0x6D617264


def check_marginals(published: PublicRelease) -> None:
    """Compare the universes with each other in every area, and drawn numbers; nothing of another release."""
    spec, files, counts = published.spec, published.files, published.counts
    if spec.marginals is None:
        return
    for universe in spec.universes:
        if universe.cells.names != tuple(name for name in spec.marginals if name in universe.cells.names):
            raise FormError(
                f"public/manifest.json: {universe.title} has the attributes {', '.join(universe.cells.names)}; "
                f"[marginals] has {', '.join(spec.marginals)}"
            )
    for one, other in permutations(spec.universes, 2):
        _check_impossible(one, other, files.findings)
        _check_exact(one, other, files.findings)
    for one, other in combinations(spec.universes, 2):
        for level in published.levels:
            if level.name in counts[one.name] and level.name in counts[other.name]:
                _compare(published, (one, other), level)
    if spec.microdata and spec.amounts:
        with files.findings.noting_errors():
            _check_drawn(published)


def _check_impossible(one: PublicUniverse, other: PublicUniverse, findings: Findings) -> None:
    """What no cell of one universe can have of the attributes that both have, none of the other can have."""
    shared = [name for name in one.cells.names if name in other.cells.names]
    own, theirs = (of.cells.query(" * ".join(shared) or "total") for of in (one, other))
    if own.labels != theirs.labels:
        return  # which is said of their sums
    possible, in_other = (
        np.bincount(query.of_cell[~of.impossible], minlength=query.size) > 0
        for of, query in ((one, own), (other, theirs))
    )
    check = findings.check("public/manifest.json", "combinations that are impossible in one universe alone")
    check.add(
        ~possible & in_other,
        lambda cell: (
            f"{', '.join(shared)} = {own.labels[cell]} is impossible in {one.title} by its structural zeros, and "
            f"possible in {other.title}"
        ),
    )


def _check_exact(one: PublicUniverse, other: PublicUniverse, findings: Findings) -> None:
    """What is exact of one universe is exact of the other, summed over all attributes that this has not."""
    check = findings.check("public/manifest.json", "numbers that are exact in one universe alone")
    for level, query in one.invariants:
        needed = {name for name in query.names if name in other.cells.names}
        if not any(at == level and needed <= {*theirs.names} for at, theirs in other.invariants):
            named = " * ".join(name for name in other.cells.names if name in needed) or "total"
            check.fail(
                f"public/manifest.json: {query.name} is exact at {level} in {one.title}, and {named} is not in "
                f"{other.title}"
            )


def _compare(published: PublicRelease, pair: tuple[PublicUniverse, PublicUniverse], level: Level) -> None:
    """What two universes share: the same sums in every area of a level; of nothing else, the same number of records."""
    shared, theirs = (dict(universe.cells.attributes) for universe in pair)
    shared = {name: values for name, values in shared.items() if name in theirs}
    query = " * ".join(shared) or "total"
    if any(theirs[name] != values for name, values in shared.items()):
        raise FormError(f"public/manifest.json: {pair[0].title} and {pair[1].name} have other values of one of {query}")
    queries = [of.cells.query(query) for of in pair]
    sums = [published.counts[of.name][level.name].answers(own) for of, own in zip(pair, queries, strict=True)]
    own, other = (published.histogram(of, level) for of in pair)
    check = published.files.check(other, f"sums of {query} that another table of the tree does not have")
    why, label = f"the sum in {published.files.name(own)}", queries[1].labels.__getitem__
    compare(check, why, level, label, sums[1], sums[0])


def _check_drawn(published: PublicRelease) -> None:
    """Each number drawn for a record is inside the bin of its amount, and the one that the public seed draws.

    That is the first number of the bin plus a hash modulo how many the bin has; the hash is of the seed, the place of
    the amount among all attributes, that of the leaf on the spine, and that of the record among those of its leaf.
    """
    spec, files, leaves = published.spec, published.files, published.levels[-1]
    path = published.places.of("", "microdata")
    most = max((n for n in map(published.records, spec.universes) if n is not None), default=None)
    file = LevelFile(files.again(), path, leaves, once=False, most=most)
    outside = files.check(path, "numbers outside of their bins")
    other = files.check(path, "numbers that the public seed does not draw")
    earlier = zeros(len(leaves.codes))
    names = [*(spec.marginals or ()), *(name + DRAWN for name in spec.amounts)]
    for part, geounits in file.parts(names):
        place, earlier = _places(geounits, earlier)
        for name, bins in spec.amounts.items():
            labels = pa.array([f"{first}..{last}" for first, last in bins])
            codes = numbers_of(part, name, labels, file.name)
            stated, whole = whole_numbers(part.column(name + DRAWN), name + DRAWN, file.name)
            first, last = (np.array(ends, dtype=np.int64)[codes] for ends in zip(*bins, strict=True))
            known = (codes >= 0) & (geounits >= 0)
            inside = whole & (stated >= first) & (stated <= last)
            hashes = _hash(spec.seed, _USE, (spec.marginals or ()).index(name), geounits, place)
            drawn = first + (hashes % (last - first + 1).astype(np.uint64)).astype(np.int64)

            columns = part.column(name + DRAWN), part.column(name)
            said = file.saying("has ", columns[0], f" as {name + DRAWN!r}, and ", columns[1], f" as {name!r}")

            def seeded(row: int, said: Callable[[int], str] = said, drawn: IntArray = drawn) -> str:
                return f"{said(row)}, in which the public seed draws {drawn[row]}"

            outside.add(known & ~inside, said)
            other.add(known & inside & (stated != drawn), seeded)


def _places(geounits: IntArray, earlier: IntArray) -> tuple[IntArray, IntArray]:
    """The number of each row among those of its leaf, from 0, and how many rows each leaf has so far."""
    order = np.argsort(geounits, kind="stable")
    ordered = geounits[order]
    place = np.empty(len(geounits), dtype=np.int64)
    place[order] = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    known = geounits >= 0
    place[known] += earlier[geounits[known]]
    return place, earlier + np.bincount(geounits[known], minlength=len(earlier))


def _hash(seed: int, *keys: int | IntArray) -> NDArray[np.uint64]:
    """64 bits of each tuple of keys: SplitMix64 (Steele, Lea and Flood 2014) of the seed, each key mixed in in turn."""
    state = np.array([seed % 2**64], dtype=np.uint64)  # of one number, which wraps around without a warning
    for key in keys:
        state = (state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state = state ^ (state >> np.uint64(31))
    return np.asarray(state)
