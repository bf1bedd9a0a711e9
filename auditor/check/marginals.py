"""Releases of marginals: universes of the same records, which agree on what they share, and whole records of all.

Every table of a universe is a sum of its histogram, so two universes agree where their histograms' sums over all other
attributes are the same; and records agree with all of them where they have the number of each cell of each universe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from auditor.reading.cells import Cells
from auditor.reading.counts import Counts, compare, read_microdata
from auditor.reading.errors import FormError
from auditor.reading.files import Files
from auditor.reading.findings import Findings
from auditor.reading.places import Places
from auditor.reading.spec import PublicSpec, PublicUniverse
from auditor.reading.spine import Level


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
    for one, other in combinations(spec.universes, 2):
        for level in levels:
            if level.name in counts[one.name] and level.name in counts[other.name]:
                _compare(files, run, (one, other), level, counts, findings)
    if spec.microdata and levels:
        _check_records(files, run, spec, counts, levels[-1], findings)


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
    sums = [counts[of.name][level.name].answers(of.cells.query(query)) for of in pair]
    names = [files.name(run.universe(of.name).histogram(level.name)) for of in pair]
    cells = Cells(shared or {"total": ["total"]}, {})
    kind = f"sums of {query} that another table of the tree does not have"
    compare(findings, names[1], kind, f"the sum in {names[0]}", level, cells, sums[1], sums[0])


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
        with findings.noting_errors():
            most = None if released is None else int(released.counts.sum())
            found = read_microdata(files, path, leaves, universe.cells, findings, most, others)
            if released is not None:
                histogram = files.name(run.universe(universe.name).histogram(leaves.name))
                kind = (
                    f"cells with another number of records than the histogram of {universe.name or 'the release'} has"
                )
                compare(
                    findings,
                    files.name(path),
                    kind,
                    f"the count in {histogram}",
                    leaves,
                    universe.cells,
                    found,
                    released,
                )
