"""The memory of the report: of the covariances of its tables, by which a reader compares areas and adds them up.

They are worked out for each class of alike areas, table by table and level by level, where margins are published (see
`features/report/ahead.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from geography.spine import Spine
from pipeline.cost.size import alike_matrices, basis_of_spec
from pipeline.model.universe import Universe
from pipeline.release.long_tables import is_long
from postprocess.linear.pairs import rows_of

#: Bytes of a matrix for each geounit, beyond which covariances are left out of the page: several are held at once.
MOST_HELD = 4_000_000_000
#: Those up to which they are worked out beside other steps.
MOST_AHEAD = 400_000_000
#: Bytes per number of all matrices, and per factor of the table and level that has most: of 1/128 of England, as
#: benchmarks/bench_scale.py makes it, and of 1,689 areas with ages.
HELD_BYTES, FACTOR_BYTES = 48.0, 72.0


def held_bytes(universe: Universe, geounits: int) -> int:
    """Bytes of a matrix for each geounit: what covariances would take if no two areas were alike."""
    basis = basis_of_spec(universe)
    return 8 * geounits * basis.n_blocks * basis.n_asymmetric**2


@dataclass(frozen=True)
class Reported:
    """The covariances of a universe's tables; all 0 where the report has none.

    Attributes:
        matrices: numbers of the matrices of all classes of areas, upward and after both passes.
        widest: numbers of the factors of the table and level that has most: of each class, level above, and row of the
            table.
        ahead: whether they are worked out beside other steps.
    """

    matrices: int = 0
    widest: int = 0
    ahead: bool = True

    @classmethod
    def of(cls, universe: Universe, spine: Spine, *, margins: bool) -> Reported:
        """Those of a universe's tables, if margins are published."""
        held = held_bytes(universe, sum(len(level) for level in spine.levels))
        if not margins or held > MOST_HELD:
            return cls()
        basis = basis_of_spec(universe)
        block, a = basis.n_blocks * basis.n_asymmetric**2, basis.n_asymmetric
        upward, final = alike_matrices(spine, whole=not universe.bounds)
        matrices = (sum(upward) + sum(final)) * block
        # For each level above a factor of every combination; and one covariance, with its own level, too.
        factors = [
            final[level] * basis.n_blocks * len(rows_of(basis, table.query)) * (level * a + level + 1)
            for level, name in enumerate(spine.level_names)
            for table in universe.tables
            if name in table.levels and not universe.measure.signed and not is_long(table.query.size)
        ]
        return cls(matrices, max(factors, default=0), held <= MOST_AHEAD)

    @property
    def bytes(self) -> float:
        """What the process holds that works them out."""
        return HELD_BYTES * self.matrices + FACTOR_BYTES * self.widest
