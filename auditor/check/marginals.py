"""Releases of marginals: universes of the same records, which agree on what they share, and whole records of all.

Every table of a universe is a sum of its histogram, so two universes agree where their histograms' sums over all other
attributes are the same; and records agree with all of them where they have the number of each cell of each universe.
Of an amount, whose values are bins, each record has a number that the public seed draws inside its bin.
What the spec says of all records is said of each universe: a combination that is impossible in one is so in all that
have its attributes, and a number that is exact in one is so in the others, as far as they have its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from auditor.reading.counts import Counts, LevelFile, compare, read_microdata
from auditor.reading.files import Files, Places, numbers_of, whole_numbers
from auditor.reading.findings import Findings, FormError
from auditor.reading.spec import PublicSpec, PublicUniverse
from auditor.reading.spine import Level

#: Behind the name of an amount: the column of numbers drawn inside its bins. What its hashes are of, first.
_DRAWN, _USE = "_drawn", 0x6D617264


def check_marginals(
    files: Files,
    run: Places,
    spec: PublicSpec,
    counts: Mapping[str, Mapping[str, Counts]],
    levels: Sequence[Level],
    findings: Findings,
) -> None:
    """Compare the universes with each other in every area, and with the microdata.

    Args:
        files: of the release.
        run: where they are.
        spec: of a release of marginals; nothing is checked of another.
        counts: universe -> level -> its histogram, so far as it could be read.
        levels: of the spine, top first.
        findings: takes what is wrong.
    """
    if spec.marginals is None:
        return
    for universe in spec.universes:
        if universe.cells.names != tuple(name for name in spec.marginals if name in universe.cells.names):
            raise FormError(
                f"public/manifest.json: {universe.name or 'the release'} has the attributes "
                f"{', '.join(universe.cells.names)}; [marginals] has {', '.join(spec.marginals)}"
            )
    for one, other in permutations(spec.universes, 2):
        _check_impossible(one, other, findings)
        _check_exact(one, other, findings)
    for one, other in combinations(spec.universes, 2):
        for level in levels:
            if level.name in counts[one.name] and level.name in counts[other.name]:
                _compare(files, run, (one, other), level, counts, findings)
    if spec.microdata and levels:
        _check_records(files, run, spec, counts, levels[-1], findings)
        if spec.amounts:
            with findings.noting_errors():
                most = max(
                    (int(one[levels[-1].name].counts.sum()) for one in counts.values() if levels[-1].name in one),
                    default=None,
                )
                _check_drawn(files, run, spec, levels[-1], most, findings)


def _name(universe: PublicUniverse) -> str:
    return universe.name or "the release"


def _check_impossible(one: PublicUniverse, other: PublicUniverse, findings: Findings) -> None:
    """What no cell of one universe can have of the attributes that both have, none of the other can have."""
    shared = [name for name in one.cells.names if name in other.cells.names]
    if not shared or not (one.impossible.any() or other.impossible.any()):
        return
    own, theirs = (of.cells.query(" * ".join(shared)) for of in (one, other))
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
            f"{', '.join(shared)} = {own.labels[cell]} is impossible in {_name(one)} by its structural zeros, and "
            f"possible in {_name(other)}"
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
                f"public/manifest.json: {query.name} is exact at {level} in {_name(one)}, and {named} is not in "
                f"{_name(other)}"
            )


def _compare(
    files: Files,
    run: Places,
    pair: tuple[PublicUniverse, PublicUniverse],
    level: Level,
    counts: Mapping[str, Mapping[str, Counts]],
    findings: Findings,
) -> None:
    """What two universes share: the same sums in every area of a level; of nothing else, the same number of records."""
    one, other = pair
    shared = {
        name: values.to_pylist()
        for name, values in zip(one.cells.names, one.cells.values, strict=True)
        if name in other.cells.names
    }
    query = " * ".join(shared) or "total"
    theirs = {name: values.to_pylist() for name, values in zip(other.cells.names, other.cells.values, strict=True)}
    if any(theirs[name] != values for name, values in shared.items()):
        raise FormError(
            f"public/manifest.json: {one.name or 'the release'} and {other.name} have other values of one of {query}"
        )
    queries = [of.cells.query(query) for of in pair]
    sums = [counts[of.name][level.name].answers(own) for of, own in zip(pair, queries, strict=True)]
    names = [files.name(run.universe(of.name).histogram(level.name)) for of in pair]
    kind = f"sums of {query} that another table of the tree does not have"
    label = queries[1].labels.__getitem__
    compare(findings, names[1], kind, f"the sum in {names[0]}", level, label, sums[1], sums[0])


def _impossible_records(row: int, *, universe: PublicUniverse, found: Counts, leaves: Level) -> str:
    cell, area = int(found.columns[row]), leaves.codes[int(found.geounits[row])]
    return (
        f"{area}, {universe.cells.label(cell)!r}: {int(found.counts[row]):,} records, and the structural zeros of "
        f"{_name(universe)} leave none"
    )


def _check_records(
    files: Files,
    run: Places,
    spec: PublicSpec,
    counts: Mapping[str, Mapping[str, Counts]],
    leaves: Level,
    findings: Findings,
) -> None:
    """The whole records, which stand with the release's own universe, have the histogram of every universe."""
    path = run.universe("").microdata
    for universe in spec.universes:
        released = counts[universe.name].get(leaves.name)
        others = [name for name in spec.marginals or () if name not in universe.cells.names]
        others += [name + _DRAWN for name in spec.amounts]
        with findings.noting_errors():
            most = None if released is None else int(released.counts.sum())
            found = read_microdata(files, path, leaves, universe.cells, findings, most, others)
            impossible = findings.check(files.name(path), "records that cannot be")
            impossible.add(
                universe.impossible[found.columns],
                partial(_impossible_records, universe=universe, found=found, leaves=leaves),
            )
            if released is not None:
                histogram = files.name(run.universe(universe.name).histogram(leaves.name))
                kind = (
                    f"cells with another number of records than the histogram of {universe.name or 'the release'} has"
                )
                why = f"the count in {histogram}"
                compare(findings, files.name(path), kind, why, leaves, universe.cells.label, found, released)


def _check_drawn(
    files: Files, run: Places, spec: PublicSpec, leaves: Level, most: int | None, findings: Findings
) -> None:
    """Each number drawn for a record is inside the bin of its amount, and the one that the public seed draws.

    That is the first number of the bin plus a hash modulo how many the bin has; the hash is of the seed, the place of
    the amount among all attributes, that of the leaf on the spine, and that of the record among those of its leaf.
    """
    path = run.universe("").microdata
    file = LevelFile(files, path, leaves, Findings(), once=False, most=most)
    outside = findings.check(file.name, "numbers outside of their bins")
    other = findings.check(file.name, "numbers that the public seed does not draw")
    earlier = np.zeros(len(leaves.codes), dtype=np.int64)
    names = [*(spec.marginals or ()), *(name + _DRAWN for name in spec.amounts)]
    for part, geounits in file.parts(names):
        place, earlier = _places(geounits, earlier)
        for name, bins in spec.amounts.items():
            labels = pa.array([f"{first}..{last}" for first, last in bins])
            codes = numbers_of(part, name, labels, file.name)
            stated, whole = whole_numbers(part.column(name + _DRAWN), name + _DRAWN, file.name)
            first, last = (np.array(ends, dtype=np.int64)[codes] for ends in zip(*bins, strict=True))
            known = (codes >= 0) & (geounits >= 0)
            inside = whole & (stated >= first) & (stated <= last)
            hashes = _hash(spec.seed, _USE, (spec.marginals or ()).index(name), geounits, place)
            drawn = first + (hashes % (last - first + 1).astype(np.uint64)).astype(np.int64)

            columns = part.column(name + _DRAWN), part.column(name)
            said = file.saying("has ", columns[0], f" as {name + _DRAWN!r}, and ", columns[1], f" as {name!r}")

            def seeded(row: int, said: Callable[[int], str] = said, drawn: NDArray[np.int64] = drawn) -> str:
                return f"{said(row)}, in which the public seed draws {drawn[row]}"

            outside.add(known & ~inside, said)
            other.add(known & inside & (stated != drawn), seeded)


def _places(geounits: NDArray[np.int64], earlier: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of each row among those of its leaf, from 0, and how many rows each leaf has so far."""
    order = np.argsort(geounits, kind="stable")
    ordered = geounits[order]
    place = np.empty(len(geounits), dtype=np.int64)
    place[order] = np.arange(len(ordered)) - np.searchsorted(ordered, ordered)
    known = geounits >= 0
    place[known] += earlier[geounits[known]]
    return place, earlier + np.bincount(geounits[known], minlength=len(earlier))


def _hash(seed: int, *keys: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """64 bits of each tuple of keys: SplitMix64 (Steele, Lea and Flood 2014) of the seed, each key mixed in in turn."""
    state = np.array([seed % 2**64], dtype=np.uint64)  # of one number, which wraps around without a warning
    for key in keys:
        state = (state ^ np.asarray(key).astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            state = (state ^ (state >> np.uint64(shift))) * np.uint64(factor)
        state = state ^ (state >> np.uint64(31))
    return np.asarray(state)
