"""An audit of a finished release, with its restricted/ folder: does it match its spec exactly?

Nothing here computes a release anew; that is `spinewise verify` and `spinewise rerun`. What is checked is what they
cannot see, because they would repeat it: noise that is not the noise stated, keys that are not bound to the records,
charges that are not what was drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pipeline.audit.chosen_ends import chosen_elsewhere
from pipeline.audit.findings import ALPHA, Finding, certain
from pipeline.audit.release_leaks import input_digests, leaks
from pipeline.audit.release_reading import Expected, expected_measurements, truth_of
from pipeline.audit.release_selected import chosen_of, selected_findings
from pipeline.audit.residuals import normal_scores, overlap_p_value, spread_p_value, together_p_value, zeros_p_value
from pipeline.errors import SpinewiseError
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.events import BYPASSED, Event, by_up_to, per_person
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.published import PublishedRelease
from pipeline.records.tabulate import roll_up
from pipeline.release.manifest import check_public_files
from pipeline.release.measurements import Measurement, read_measurement

__all__ = ["release_findings"]

_GROUP: Final = "release"


def release_findings(
    release: PublishedRelease, key: MasterKey | None, charged: Sequence[Event] | None = None
) -> Iterator[Finding]:
    """Audit a finished release.

    Args:
        release: the release, with its restricted files.
        key: its master key; without it the noise is tested by its distribution alone.
        charged: the ledger's events of this release; None where it drew on no ledger.
    """
    expected = list(expected_measurements(release.run, release.universes, release.spine))
    yield certain(_GROUP, "hashes", "public/", check_public_files(release.run), well="as the manifest lists them")
    yield certain(_GROUP, "budget", "spec and manifest", _budget_problems(release, expected))
    yield certain(_GROUP, "files", "measurements and invariants", _file_problems(release, expected))
    measurements = {entry.name: _read(entry) for entry in expected}
    missing = [str(problem) for problem in measurements.values() if isinstance(problem, SpinewiseError)]
    missing += [
        p
        for entry in expected
        if isinstance(m := measurements[entry.name], Measurement)
        for p in _header_problems(entry, m)
    ]
    yield certain(_GROUP, "noise stated", "headers", missing, well=f"{len(expected)} measurements")
    yield certain(_GROUP, "truth", "restricted/histograms", _truth_problems(release))
    residuals = _residuals(release, expected, measurements)
    yield from _distribution(expected, residuals)
    yield from selected_findings(release, key)
    if key is not None:
        yield certain(_GROUP, "key", "commitment and input", _key_problems(release, key))
        yield certain(_GROUP, "noise drawn", "of this key, input and spec", _drawn_problems(release, key, residuals))
    if charged is not None:
        yield certain(_GROUP, "ledger", "charges", _ledger_problems(release, expected, charged))
    if any(section.chosen is not None for section in release.spec.companions.values()):
        elsewhere = list(chosen_elsewhere(release.spec, release.manifest.receipts))
        yield certain(_GROUP, "ledger", "ends that questions chose", elsewhere)
    yield certain(_GROUP, "nothing restricted", "public/", leaks(release, key))


def _read(entry: Expected) -> Measurement | SpinewiseError:
    try:
        return read_measurement(entry.path)
    except SpinewiseError as error:
        return error


def _budget_problems(release: PublishedRelease, expected: Sequence[Expected]) -> list[str]:
    """Whether the parts add up to the whole, and the manifest states each of them."""
    problems = []
    stated = {statement.universe: statement for statement in release.manifest.privacy}
    for universe in release.universes:
        name = universe.name or release.spec.name
        chosen = [entry for entry in chosen_of(release) if entry.universe is universe]
        also = sum((entry.cost for entry in chosen), Fraction(0))
        for total in (cost + also for cost in _path_costs(release, universe, expected)):
            if total != universe.budget:
                problems.append(f"{name}: the measurements cost {total}, the budget is {universe.budget}")
        statement = stated.get(universe.name)
        if statement is None:
            problems.append(f"{name}: the manifest makes no statement about it")
            continue
        if (statement.framework, statement.neighbours) != (universe.framework, universe.neighbours):
            problems.append(
                f"{name}: the manifest is for {statement.framework}, {statement.neighbours}; the spec is for "
                f"{universe.framework}, {universe.neighbours}"
            )
        if Fraction(statement.budget) != universe.budget:
            problems.append(f"{name}: the manifest states the budget {statement.budget}, it is {universe.budget}")
        noise = {(n.level, n.query): (n.mechanism, Fraction(n.scale), Fraction(n.share)) for n in statement.noise}
        for entry in (entry for entry in expected if entry.universe is universe and not entry.also):
            required = (entry.noise.mechanism, entry.noise.scale, entry.cost / universe.budget)
            if noise.pop((entry.level, entry.query.name), None) != required:
                problems.append(f"{entry.name}: the manifest does not state {entry.noise}")
        for other in chosen:
            stated_so = (other.mechanism, other.scale, other.cost / universe.budget)
            if noise.pop((other.level, other.query), None) != stated_so:
                problems.append(f"{other.name}: the manifest does not state {other.mechanism}, {other.scale}")
        problems += [f"{name}: the manifest states noise on {query} at {level}" for level, query in noise]
        exact = sorted((level, query.name) for level, query in universe.invariants)
        if sorted((i.level, i.query) for i in statement.invariants) != exact:
            problems.append(f"{name}: the manifest's invariants are not the spec's")
    return problems


def _path_costs(release: PublishedRelease, universe: Universe, expected: Sequence[Expected]) -> set[Fraction]:
    """What the measurements of a leaf and of all above it cost together: one number, if it is the same for all."""
    own = [entry for entry in expected if entry.universe is universe]
    if not universe.bypass:
        return {sum((entry.cost for entry in own), Fraction(0))}
    costs: list[dict[int, Fraction]] = []
    columns = []
    for number, level in enumerate(release.spine.level_names):
        kind = np.zeros(len(release.spine.level(level)), dtype=np.int64)
        cost = {0: Fraction(0)}
        groups: dict[str, int] = {}
        for entry in (entry for entry in own if entry.level == level and entry.rows is not None):
            group = groups.setdefault(entry.also, len(groups) + 1)
            kind[entry.rows] = group
            cost[group] = cost.get(group, Fraction(0)) + entry.cost
        costs.append(cost)
        columns.append(kind[release.spine.leaf_ancestors(number)])
    paths = np.unique(np.stack(columns, axis=1), axis=0)
    return {sum((cost[int(kind)] for cost, kind in zip(costs, path, strict=True)), Fraction(0)) for path in paths}


def _file_problems(release: PublishedRelease, expected: Sequence[Expected]) -> list[str]:
    """Whether there is a measurement or exact count that the spec does not call for, or one is missing."""
    required = {entry.path for entry in expected}
    present = set()
    for universe in release.universes:
        folder = release.run.universe(universe.name)
        required |= {folder.invariant(level, query.name) for level, query in universe.invariants}
        required |= {folder.selected(entry.name, entry.level) for entry in universe.selections}
        for name in ("measurements", "invariants", "selected"):
            present |= {path for path in (folder.public / name).rglob("*") if not path.is_dir()}
    public = release.run.public
    extra = [f"public/{path.relative_to(public).as_posix()} is not of the spec" for path in sorted(present - required)]
    return extra + [f"public/{path.relative_to(public).as_posix()} is missing" for path in sorted(required - present)]


def _header_problems(entry: Expected, measurement: Measurement) -> list[str]:
    header = measurement.header
    scale, variance = header.scale, header.variance
    if entry.also:
        stated_others = dict(header.others)
        if entry.noise.scale not in stated_others:
            return [f"{entry.name}: does not state the scale {entry.noise.scale}"]
        scale, variance = entry.noise.scale, stated_others[entry.noise.scale]
    in_spec = (entry.level, entry.query.name, entry.query.size, entry.noise.mechanism, entry.noise.scale)
    in_header = (header.level, header.query, header.size, header.mechanism, scale)
    problems = [] if in_header == in_spec else [f"{entry.name}: states {in_header[3:]}, the spec gives {in_spec[3:]}"]
    if not np.isclose(variance, entry.noise.variance, rtol=1e-12):
        problems.append(f"{entry.name}: states the variance {variance}, it is {entry.noise.variance}")
    if entry.at is not None and (
        entry.measured is None
        or len(entry.measured) != len(measurement.values)
        or not np.allclose(measurement.variances[entry.at], entry.noise.variance, rtol=1e-12)
    ):
        problems.append(f"{entry.name}: its geounits do not have the variance {entry.noise.variance} each")
    return problems


def _truth_problems(release: PublishedRelease) -> list[str]:
    """Whether the stored true counts add up, so that residuals are taken from one truth."""
    problems = []
    for universe in release.universes:
        levels = [truth_of(release, universe, name) for name in release.spine.level_names]
        for name, tabulated, summed in zip(
            release.spine.level_names, levels, roll_up(release.spine, levels[-1]), strict=True
        ):
            if (tabulated != summed).nnz:
                problems.append(
                    f"{universe.name or release.spec.name}: the truth at {name} is not the sum of the leaves"
                )
        for level, query in universe.invariants:
            path = release.run.universe(universe.name).invariant(level, query.name)
            exact = query.answer_csr(levels[release.spine.index_of(level)])
            if path.is_file() and not np.array_equal(read_measurement(path).values, exact):
                problems.append(f"the invariant {query.name} at {level} is not the truth")
    return problems


def _residuals(
    release: PublishedRelease, expected: Sequence[Expected], measurements: dict[str, Measurement | SpinewiseError]
) -> dict[str, tuple[Expected, NDArray[np.int64]]]:
    """`(n, size)` differences between each measurement and the truth."""
    residuals = {}
    for entry in expected:
        measurement = measurements[entry.name]
        if isinstance(measurement, Measurement):
            truth = entry.query.answer_csr(truth_of(release, entry.universe, entry.level))
            if entry.rows is None and truth.shape == measurement.values.shape:
                residuals[entry.name] = (entry, measurement.values - truth)
            elif entry.at is not None and entry.measured is not None and len(entry.at):
                if len(entry.measured) != len(measurement.values):
                    continue
                residuals[entry.name] = (entry, measurement.values[entry.at] - truth[entry.rows])
    return residuals


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


def _fingerprint(release: PublishedRelease, key: MasterKey, universe: str, digest: bytes) -> bool:
    fingerprint = key.keyed_hash(f"input/{universe}", digest)
    published = key.published_fingerprint(release.manifest.key_salt, universe, fingerprint)
    return release.manifest.input_fingerprints.get(universe) == published


def _key_problems(release: PublishedRelease, key: MasterKey) -> list[str]:
    problems = []
    if key.commitment(release.manifest.key_salt) != release.manifest.key_commitment:
        problems.append("the key is not the one that the manifest is committed to")
    if key.insecure != release.manifest.status.startswith("NOT FOR RELEASE"):
        problems.append(
            f"the key is {'a test key' if key.insecure else 'secret'}, the status {release.manifest.status!r}"
        )
    for name, digest in input_digests(release).items():
        if not _fingerprint(release, key, name, digest):
            problems.append(f"{name or release.spec.name}: the input's fingerprint is not that of the records kept")
    return problems


def _drawn_problems(
    release: PublishedRelease, key: MasterKey, residuals: dict[str, tuple[Expected, NDArray[np.int64]]]
) -> list[str]:
    """Whether each residual is the noise of its own place in its own stream."""
    problems = []
    digests = input_digests(release)
    for name, (entry, residual) in residuals.items():
        universe = entry.universe
        context = (
            key.keyed_hash(f"input/{universe.name}", digests[universe.name]),
            release.spine.fingerprint(),
            universe.privacy_fingerprint(),
        )
        stream = key.stream_key(context, entry.level, entry.query.name)
        shape = (len(release.spine.level(entry.level)), entry.query.size)
        noise = sampler_for(entry.noise).draw(stream, 0, shape[0] * shape[1]).reshape(shape)
        if not np.array_equal(entry.of(noise), residual):
            problems.append(f"{name}: what was added is not the noise of this key, input and spec")
    return problems


def _ledger_problems(release: PublishedRelease, expected: Sequence[Expected], charged: Sequence[Event]) -> list[str]:
    """Whether what was charged is what was drawn: each query at each level, at its price.

    Where geounits are bypassed, the price is that of a path on which none is; every other path costs the same.
    """
    problems = []
    required: dict[tuple[object, ...], list[tuple[str, Fraction]]] = {}
    for entry in (entry for entry in expected if not entry.also):
        geounits = len(release.spine.level(entry.level)) if entry.measured is None else len(entry.measured)
        query = (
            entry.query.name
            + (BYPASSED if entry.universe.bypass else "")
            + by_up_to(entry.universe.reach)
            + per_person(entry.universe.records_per_person)
        )
        group = (entry.level, query, entry.noise.mechanism, entry.noise.scale, entry.query.size * geounits)
        required.setdefault((entry.universe.neighbours, *group), []).append((entry.name, entry.cost))
    for other in chosen_of(release):
        query = other.query + per_person(other.universe.records_per_person)
        made_of = (other.level, query, other.mechanism, other.scale, other.count)
        required.setdefault((other.universe.neighbours, *made_of), []).append((other.name, other.cost))
    for event in (event for event in charged if event.kind == "charge"):
        key = (event.neighbours, event.level, event.query, event.mechanism, Fraction(event.scale), event.count)
        charges = required.get(key)
        if not charges:
            problems.append(
                f"charged is {event.mechanism} {event.scale} on {event.query} at {event.level} for {event.neighbours}, "
                "which was not measured so"
            )
            continue
        name, cost = charges.pop()
        if Fraction(event.cost) != cost:
            problems.append(f"{name}: charged with {event.cost}, it costs {cost}")
    problems += [f"{name}: was not charged" for left in required.values() for name, _ in left]
    return problems
