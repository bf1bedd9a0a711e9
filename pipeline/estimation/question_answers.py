"""An answer's noisy counts and a release's measurements, estimated together by least squares."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.estimation.whole_spine import Computed
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.published import PublishedRelease
from pipeline.questions.released.cells import SumsOfCells
from postprocess.arrays import IntArray
from postprocess.downward.subtrees import cut_of
from postprocess.linear.one_more import LinearAnswers, linear_answers, with_one_more
from postprocess.problem import MeasuredAnswers

__all__ = ["JoinedEstimates", "PartByPartError", "check_size", "estimated_together"]


class PartByPartError(InputError):
    """The release is too large for an answer to be combined with it."""


@dataclass(frozen=True, eq=False)
class JoinedEstimates:
    """Linear unbiased estimates of an answer's counts, `(n_geounits, size)` each, in the order of the question.

    Attributes:
        release: from the release's measurements alone.
        both: from these and the answer.
    """

    release: LinearAnswers
    both: LinearAnswers


def estimated_together(
    release: PublishedRelease, sums: SumsOfCells, values: IntArray, variance: float
) -> JoinedEstimates:
    """The estimates of the release alone, and with the answer as one measurement more.

    The full estimator is used for both, whichever the release was made by, and neither non-negativity nor rounding.

    Args:
        release: finished; of its own universe.
        sums: what the answer's numbers are sums of.
        values: noisy counts `(n_geounits, size)`.
        variance: of the noise on each, persons squared.

    Raises:
        PartByPartError: the release is so large that it is estimated part by part.
        ReleaseError: a file of it is damaged.
    """
    check_size(release)
    universe, spine = release.universes[0], release.spine
    with Workers(1) as here:
        job = Job(release.run, release.spec, release.universes, spine, here, Silent(), readable=release.unchanged)
        problem = Computed(job, universe, full=True).problem
    level = spine.index_of(sums.level)
    query = sums.query
    further = MeasuredAnswers(query, sums.spread(values), variance)
    alone, both = (linear_answers(one, level, query) for one in (problem, with_one_more(problem, level, further)))
    return JoinedEstimates(_picked(alone, sums), _picked(both, sums))


def check_size(release: PublishedRelease) -> None:
    """Refuse a release that is estimated part by part.

    Raises:
        PartByPartError: it is.
    """
    universe, spine = release.universes[0], release.spine
    if cut_of(spine, universe.schema.n_cells) is not None:
        raise PartByPartError(
            f"{release.run.root}: it has {spine.n_leaves:,} areas of the lowest level with {universe.schema.n_cells:,} "
            "numbers each, and is estimated part by part; answers are combined with smaller releases only"
        )


def _picked(found: LinearAnswers, sums: SumsOfCells) -> LinearAnswers:
    return LinearAnswers(sums.picked(found.values), sums.picked(found.variances))
