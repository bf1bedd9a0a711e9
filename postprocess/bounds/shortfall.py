"""By how many persons constraints contradict each other, and a proof of it: the programme with slack, by duality."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from postprocess.arrays import IntArray
from postprocess.bounds.programme import TOLERANCE, Rows, Section, balance, limits


@dataclass(frozen=True, order=True)
class RowKey:
    """One answer of a statement at a level of a section, in all its geounits: its lower (`at_least`) or upper bound."""

    level: int
    statement: int
    answer: int
    at_least: bool


@dataclass(frozen=True, eq=False)
class Shortfall:
    """The least number of persons by which the bounds have to be relaxed, and the geounits whose bounds require it.

    Attributes:
        persons: the smallest sum of violations.
        rows: the bounds that a proof of that rests on, with the positions of their geounits in the section's level.
    """

    persons: float
    rows: dict[RowKey, IntArray]


def shortfall(part: Section, among: Collection[RowKey] | None = None) -> Shortfall:
    """The smallest violation of the section's bounds (only of those in `among`), with a proof by duality."""
    sums, demands = Rows(), Rows()
    keys: list[RowKey] = []
    key_of: list[IntArray] = []
    geounit_of: list[IntArray] = []
    n_columns = 0
    above: IntArray | None = None
    for level in range(len(part.rows)):
        n, n_atoms = part.size(level)
        columns = n_columns + np.arange(n * n_atoms).reshape(n, n_atoms)
        n_columns += n * n_atoms
        for number, statement in enumerate(part.statements[level]):
            group = part.group(level, statement)
            least, most = limits(statement)
            for answer in range(least.shape[1]):
                inside = np.flatnonzero(group == answer)
                for at_least, limit in ((True, least[:, answer]), (False, most[:, answer])):
                    key = RowKey(level, number, answer, at_least)
                    geounits = np.flatnonzero(limit > 0 if at_least else limit < np.inf)
                    if not len(geounits) or (among is not None and key not in among):
                        continue
                    sign = -1.0 if at_least else 1.0
                    of = np.repeat(np.arange(len(geounits)), len(inside))
                    entries = columns[geounits[:, None], inside[None, :]].ravel()
                    free = np.full(len(geounits), -np.inf)
                    demands.add(of, entries, sign, free, sign * limit[geounits])
                    key_of.append(np.full(len(geounits), len(keys)))
                    geounit_of.append(geounits)
                    keys.append(key)
        if above is not None:
            balance(part, level, above, columns, sums)
        above = columns
    n_slack = demands.n_rows
    if not n_slack:
        return Shortfall(0.0, {})
    demands.more(np.arange(n_slack), n_columns + np.arange(n_slack), -1.0)
    cost = np.concatenate([np.zeros(n_columns), np.ones(n_slack)])
    equalities = {"A_eq": sums.matrix(len(cost)), "b_eq": np.concatenate(sums.low)} if sums.n_rows else {}
    from scipy.optimize import linprog

    result = linprog(
        cost, A_ub=demands.matrix(len(cost)), b_ub=np.concatenate(demands.high), method="highs", **equalities
    )
    if result.status != 0:
        return Shortfall(0.0, {})
    proof = np.abs(result.ineqlin.marginals) > TOLERANCE
    keys_of_rows, geounits = np.concatenate(key_of), np.concatenate(geounit_of)
    rows = {key: geounits[proof & (keys_of_rows == number)] for number, key in enumerate(keys)}
    return Shortfall(
        float(result.fun), {key: geounits_of_key for key, geounits_of_key in rows.items() if len(geounits_of_key)}
    )
