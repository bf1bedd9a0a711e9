"""What a period's published numbers have of the periods before: their true answers, less what is known of these.

With L the design and x the truths, w_t = sum over s <= t of L_ts x_s + z_t is what costs the budget. What the releases
before say of the sum over s < t is known to everybody, so it is taken away, rounded: v_t = w_t - rint(sum of L_ts y_s)
is published, y_s = v_s / L_ss the counts of period s. So v_t / L_tt is the count of period t with noise, in a release
that stands alone; and w_t follows from v_1 to v_t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from features.years.chain import InSeries
from features.years.noise import known
from pipeline.errors import ReleaseError
from pipeline.model.query import Query
from pipeline.release.measurements import open_measurement

__all__ = ["CarriedPeriods"]


@dataclass(frozen=True, eq=False)
class CarriedPeriods:
    """See `pipeline.confidential.measure.Carried`; of one level.

    Attributes:
        row: by how much each period so far is multiplied, the last is the release's own.
        before: the releases of the others, first to last.
        truths: confidential histograms `(n, n_cells)` of the level, of each of these.
        level: its name.
        geocodes: of its geounits.
    """

    row: tuple[int, ...]
    before: tuple[InSeries, ...]
    truths: tuple[sp.csr_array, ...]
    level: str
    geocodes: NDArray[np.str_]

    @property
    def times(self) -> int:
        """See `Carried.times`."""
        return self.row[-1]

    def answers(self, query: Query, start: int, stop: int) -> NDArray[np.int64]:
        """See `Carried.answers`: true answers of the periods before, multiplied, less what is known of their sum."""
        total: NDArray[np.int64] = np.zeros((stop - start, query.size), dtype=np.int64)
        counts = []
        for weight, one, truth in zip(self.row, self.before, self.truths, strict=False):
            total += weight * query.answer_csr(truth[start:stop])
            counts.append(self._counts(one, query, start, stop))
        return total - known(self.row[: len(counts)], counts) if counts else total

    def _counts(self, one: InSeries, query: Query, start: int, stop: int) -> NDArray[np.float64]:
        """The counts of a release before with their noise."""
        path = one.unchanged(one.run.main.measurement(self.level, query.name))
        with open_measurement(path, len(self.geocodes)) as file:
            part = file.read(start, stop)
        if not np.array_equal(part.geocodes, self.geocodes[start:stop]) or not part.header.row:
            raise ReleaseError(f"{path}: not of the geounits of level {self.level!r}; a series has one spine")
        return part.values / np.float64(part.header.row[-1])
