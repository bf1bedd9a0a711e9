"""Margins of error beside the numbers of the tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flows.estimate import Estimation
from pipeline.universe import Table


class Margins:
    """The margins of error of one universe's tables, computed once and looked up table by table."""

    def __init__(self, estimation: Estimation) -> None:
        self.estimation = estimation

    def compute(self) -> None:
        """Compute the margins of all tables, as a step of its own."""

    def of(self, table: Table, level: int) -> NDArray[np.float64] | None:
        """Half the width of a 90 % interval for each number of a table, `(n, size)`; None where none are published."""
