"""A finished release as an audit sees it: its spec, what is published, and the truth beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.confidential.fingerprints import bound_fingerprints
from pipeline.errors import InputError
from pipeline.model.query import Query
from pipeline.model.universe import Universe
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.published import PublishedRelease, open_finished
from pipeline.records.tabulate import update_with_counts
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.status import MADE_ELSEWHERE

__all__ = ["Expected", "expected_measurements", "expected_positive", "input_fingerprints", "open_audited", "truth_of"]


@dataclass(frozen=True, eq=False)
class Expected:
    """A measurement that the spec calls for.

    Attributes:
        noise: computed from the spec's fractions by the formula in docs/privacy.md, not by the code that measures.
        cost: rho or epsilon, exact.
        rows: the level's geounits that have this noise; None where all do.
        at: `(len(rows),)` their positions in the file.
        measured: the level's geounits that have a row in the file; None where all do.
        also: the levels below that these geounits stand for too, since those are bypassed; "" for none.
    """

    universe: Universe
    level: str
    query: Query
    noise: NoiseSpec
    cost: Fraction
    path: Path
    rows: NDArray[np.int64] | None = None
    at: NDArray[np.int64] | None = None
    measured: NDArray[np.int64] | None = None
    also: str = ""

    @property
    def name(self) -> str:
        """The universe, level and query, such as "units block status"."""
        standing = f"(also for {self.also})" if self.also else ""
        return " ".join(part for part in (self.universe.name, self.level, self.query.name, standing) if part)

    def of(self, rows: NDArray[np.generic]) -> NDArray[np.generic]:
        """Those of the level's rows that have this noise."""
        return rows if self.rows is None else rows[self.rows]


def open_audited(folder: Path) -> PublishedRelease:
    """The finished release in `folder`, if how its noise was drawn can be audited.

    Raises:
        InputError: there is no finished release, or another program drew the noise; ReleaseError: it is damaged.
    """
    release = open_finished(folder, check_hashes=False)
    if release.manifest.status == MADE_ELSEWHERE:
        raise InputError(
            f"{release.run.root}: was estimated from measurements that were made elsewhere; how they were drawn cannot "
            "be audited"
        )
    return release


def truth_of(release: PublishedRelease, universe: Universe, level: str) -> sp.csr_array:
    """The confidential histogram of a level, `(n, n_cells)`; ReleaseError where restricted/ does not hold it."""
    path = release.run.universe(universe.name).true_histogram(level)
    return read_histogram(path, release.spine.level(level).geocodes, universe.schema, signed=universe.measure.signed)


def input_fingerprints(release: PublishedRelease, key: MasterKey) -> dict[str, str]:
    """What the noise of each universe is bound to, from the confidential leaves of all."""
    own = {}
    for universe in release.universes:
        digest = hashlib.sha256()
        update_with_counts(digest, truth_of(release, universe, release.spine.level_names[-1]))
        own[universe.name] = key.keyed_hash(f"input/{universe.name}", digest.digest())
    return bound_fingerprints(key, release.universes, own)


def budget_masks(shares: Sequence[Fraction], spine: Spine) -> list[NDArray[np.int64]]:
    """Per level, `(n,)`: the levels whose shares a geounit's measurement has, a bit for each; 0 where it has none.

    Found from the top down: a geounit that is the only one below another passes its share on to the geounit that has
    the other's.
    """
    masks = [np.zeros(len(level), dtype=np.int64) for level in spine.levels]
    owner = np.zeros((0, 2), dtype=np.int64)
    owned = np.zeros(0, dtype=np.bool_)
    for number, level in enumerate(spine.levels):
        own = np.stack([np.full(len(level), number), np.arange(len(level))], axis=1)
        alone = np.zeros(len(level), dtype=np.bool_)
        if number:
            alone = (np.bincount(level.parents)[level.parents] == 1) & owned[level.parents]
            own[alone] = owner[level.parents][alone]
        owner, owned = own, alone | (shares[number] > 0)
        if shares[number] > 0:
            for above in range(number + 1):
                np.bitwise_or.at(masks[above], owner[owner[:, 0] == above, 1], 1 << number)
    return masks


def expected_measurements(
    run: RunDirectory, universes: Sequence[Universe], spine: Spine | None = None
) -> Iterator[Expected]:
    """Every measurement of every universe of which all answers are drawn.

    Without a spine, those of geounits that stand for their own level alone.


    A record that changes moves two answers of a query at a level by one each, and one that is added or removed moves
    one. So sigma^2 = D / (2 rho) with D = 2 or 1, and b = D / epsilon, rho or epsilon being the total times the level's
    and the query's share; of the total without the shares of private choices, where there are some. Where a person has
    k records, all of them may leave one answer for another: that is k^2 times the D of the Gaussian, k for the Laplace.
    """
    for universe in universes:
        masks = None
        rest = universe.own_budget
        for selection in universe.selections:
            rest -= selection.share * universe.own_budget
        shares = [level.share for level in universe.strategy.levels]
        if universe.bypass and spine is not None:
            masks = budget_masks(shares, spine)
        for number, level in enumerate(universe.strategy.levels):
            groups = [(1 << number, None)] if masks is None else _groups(number, masks[number])
            measured = None if masks is None else np.flatnonzero(masks[number])
            for measured_query in level.everywhere:
                path = run.universe(universe.name).measurement(level.level, measured_query.query.name)
                for mask, rows in groups:
                    share = sum((share for bit, share in enumerate(shares) if mask >> bit & 1), Fraction(0))
                    names = [universe.level_names[bit] for bit in range(number + 1, len(shares)) if mask >> bit & 1]
                    cost = rest * share * measured_query.share
                    yield Expected(
                        universe,
                        level.level,
                        measured_query.query,
                        _noise(universe, cost),
                        cost,
                        path,
                        rows,
                        None if rows is None or measured is None else np.searchsorted(measured, rows),
                        measured,
                        ", ".join(names),
                    )


def expected_positive(run: RunDirectory, universes: Sequence[Universe]) -> Iterator[Expected]:
    """What is drawn only where the released parent is positive; with the noise and cost of a whole measurement."""
    for universe in universes:
        rest = universe.own_budget * (1 - sum((one.share for one in universe.selections), Fraction(0)))
        for level in universe.strategy.levels:
            for one in level.where_positive:
                cost = rest * level.share * one.share
                path = run.universe(universe.name).positive(level.level, one.query.name)
                yield Expected(universe, level.level, one.query, _noise(universe, cost), cost, path)


def _groups(number: int, masks: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64] | None]]:
    """The geounits of a level by the levels that they stand for; their own level alone comes first, if there or not."""
    own = 1 << number
    others = [int(mask) for mask in np.unique(masks) if mask not in (0, own)]
    return [(mask, np.flatnonzero(masks == mask)) for mask in (own, *others)]


def _noise(universe: Universe, cost: Fraction) -> NoiseSpec:
    moved = {"change-one": 2, "add-remove": 1}[universe.neighbours]
    records = universe.unit.records * universe.reach
    if universe.framework == "zcdp":
        return NoiseSpec("discrete_gaussian", Fraction(moved * records * records, 2) / cost)
    return NoiseSpec("discrete_laplace", moved * records / cost)
