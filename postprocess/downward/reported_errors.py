"""Errors of simulated runs of reports, counted by cell, by the number of persons in the area, and by released size.

What a count from reports says of the truth depends on both: see `reported_intervals`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from postprocess.algebra import Basis
from postprocess.arrays import FloatArray, IntArray
from postprocess.downward.simulated_margins import REACH, ErrorCounts, PublishedTable, pairs_of, standard_errors
from postprocess.downward.sized_errors import ERROR_CLASSES, SizedErrors
from postprocess.linear.downward import AnswerVariances, LevelVariances
from postprocess.marginal import Marginal
from postprocess.statistics import EXACT_STANDARD

#: Octaves of numbers of persons.
PERSON_CLASSES = 40


class OwnErrors(Protocol):
    """By what the standard errors of counts differ from those of an average cell."""

    def __call__(
        self, answers: IntArray, cells: IntArray, counts: IntArray, persons: IntArray, standard: FloatArray, /
    ) -> FloatArray:
        """Factors: answer of each cell, answers that the counts are of, counts, persons in the geounit, these errors.

        All but the first are of one shape, or are broadcast to one.
        """
        ...

    def variances(self, answers: IntArray, cells: IntArray, persons: IntArray, /) -> FloatArray:
        """Of counts from reports alone, by the average cell."""
        ...


def person_class(persons: IntArray) -> IntArray:
    """The octave of each number of persons; 0 where there are none."""
    return octave_of(np.maximum(persons, 1).astype(np.float64))


def octave_of(numbers: FloatArray) -> IntArray:
    """The exponent of the power of 2 that each number, above 0, is at or above: exact, unlike a logarithm."""
    return np.asarray(np.frexp(numbers)[1] - 1, dtype=np.int64)


def owners_of(cells: IntArray, persons: IntArray, size: int) -> IntArray:
    """By what errors are told apart: a number for each cell and octave of persons."""
    return person_class(persons) * size + cells


def n_owners(marginal: Marginal) -> int:
    """Numbers of `owners_of`."""
    return PERSON_CLASSES * marginal.size


def units_of(marginal: Marginal, own: OwnErrors) -> IntArray:
    """Persons in a class of errors, `(n_owners,)`: as fine as the largest error that is likely there allows."""
    largest = np.sqrt(variances_of(marginal, own)) * REACH / ERROR_CLASSES
    return np.maximum(1, np.ceil(largest)).astype(np.int64)


def variances_of(marginal: Marginal, own: OwnErrors) -> FloatArray:
    """The variance of each owner's counts, `(n_owners,)`, at the most persons that it has."""
    persons = 2 ** np.arange(1, PERSON_CLASSES + 1, dtype=np.int64)[:, None]
    found = own.variances(marginal.cell_answer, np.arange(marginal.size)[None, :], persons)
    return np.broadcast_to(found, (PERSON_CLASSES, marginal.size)).ravel()


def count_reported(
    table: PublishedTable,
    basis: Basis,
    variances: LevelVariances | AnswerVariances,
    released: sp.csr_array,
    simulated: sp.csr_array,
    own: OwnErrors,
) -> ErrorCounts:
    """Errors t - r of one simulated run in one table, of some geounits of a level, as `count_errors`; by owner.

    Areas without persons have no errors.

    Args:
        table: whose.
        basis: of the problem.
        variances: of the geounits.
        released: `(n, n_cells)` what stands in for the truth.
        simulated: `(n, n_cells)` released anew.
        own: of the reports.
    """
    nothing, size = ErrorCounts.empty(table, basis, variances), table.marginal.size
    by_release = SizedErrors.none()
    persons: IntArray = np.rint(simulated.sum(axis=1)).astype(np.int64).ravel()
    units = units_of(table.marginal, own)
    by_class = standard_errors(table, basis, variances)
    uncertain = by_class >= EXACT_STANDARD
    some = persons > 0
    places = person_class(persons[some]) * len(uncertain) + variances.classes[some]
    areas = np.bincount(places, minlength=PERSON_CLASSES * len(uncertain)).reshape(PERSON_CLASSES, -1)
    zeros = (areas @ uncertain.astype(np.int64)).ravel()
    for rows, cells, truth, seen in pairs_of(table.marginal, released, simulated):
        counted = uncertain[variances.classes[rows], cells] & some[rows]
        rows, cells, truth, seen = rows[counted], cells[counted], truth[counted], seen[counted]
        owner = owners_of(cells, persons[rows], size)
        zeros -= np.bincount(owner, minlength=len(zeros))
        by_release += SizedErrors.of(owner, seen, (truth - seen) // units[owner])
    return replace(nothing, by_release=by_release + SizedErrors.of_zeros(zeros))
