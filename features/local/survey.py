"""A survey as the source of noisy numbers: randomised reports of the leaves, and counts of a central release above."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from features.local.collect.mechanism import LocalMechanism
from features.local.collected import Collected
from geography.spine import Spine
from pipeline.model.draw import Draw
from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.model.public_key import public_key
from pipeline.model.query import Query
from pipeline.model.source import (
    VARIANCE,
    CountErrors,
    ReadExact,
    ReadStored,
    SimulatedCounts,
    Source,
    ToCounts,
    Wanted,
)
from pipeline.model.strategy import Central
from pipeline.model.texts.message import marked
from pipeline.model.universe import Universe
from postprocess.arrays import FloatArray, IntArray, adding_up
from postprocess.marginal import Marginal

if TYPE_CHECKING:
    import scipy.sparse as sp

_REFUSED: Final[Mapping[Wanted, str]] = {
    "question": "collect: nobody has the true answers that a question is about; ask the release, with "
    "`spinewise query`",
    "sum": "the release is made from randomised answers, whose true counts nobody has",
    "elsewhere": "collect: measurements that were made elsewhere are noisy counts of records; a release from reports "
    "is made from the reports, with `spinewise run`",
    "audit": "is made from reports that were randomised by their senders: there are no true counts, and no noise was "
    "drawn here that could be audited; `spinewise verify`, also with `--constraints` or `--records`, recomputes it",
    "noisy counts": "a release from reports has no noisy counts, but totals of reports; they are in measurements/",
}
_NO_PLAN: Final = (
    "collect.respondents: missing; a plan needs to know how many respondents are expected in a leaf, such as "
    "respondents = 40"
)


@dataclass(frozen=True, eq=False)
class Survey(Source):
    """Reports that respondents randomised before they sent them, alone or beside a central release.

    Attributes:
        collected: how answers were randomised.
        central: counts that another release has measured of those who sent reports; None where there is none.
        parameters: of the mechanism, as the spec states them.
    """

    collected: Collected
    central: Central | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)

    has_truth = False
    sums_without_bias = False
    template = ("features.local", "survey.html.j2")

    @property
    def mechanism(self) -> LocalMechanism:
        """By which every respondent randomised the answer."""
        return self.collected.mechanism

    @property
    def releases(self) -> tuple[Central, ...]:
        """The central release."""
        return () if self.central is None else (self.central,)

    @property
    def expected_reports(self) -> int | None:
        """See `Source.expected_reports`."""
        return self.collected.respondents

    @property
    def variance_of_report(self) -> float:
        """See `Source.variance_of_report`."""
        return float(self.collected.noise_per_report / self.collected.n_cells)

    def refusal(self, wanted: Wanted) -> str:
        """See `Source.refusal`: whatever needs true counts, or noise that was drawn here."""
        if wanted == "plan":
            return _NO_PLAN if self.collected.respondents is None else ""
        return _REFUSED.get(wanted, "")

    def sizes(self, read: ReadExact) -> IntArray | None:
        """The number of reports of each leaf, which is the one invariant."""
        (numbers,) = read().values()
        return numbers[:, 0]

    def draws(
        self,
        universe: Universe,
        spine: Spine | None,  # noqa: ARG002
        sizes: IntArray | None,
    ) -> tuple[Draw, ...]:
        """See `Source.draws`: of leaves those with equally many reports are of one kind; above, of what was copied."""
        leaves = universe.strategy.levels[-1]
        (measured,) = leaves.queries
        copied = tuple(
            Draw(level, measured.query, (release.noise(level),), copied=True)
            for release in self.releases
            for level in release.shares
        )
        if sizes is None:
            expected = self.collected.noise(self.collected.respondents or 1)
            return (*copied, Draw(leaves.level, measured.query, (expected,)))
        distinct, kinds = np.unique(sizes, return_inverse=True)
        noises = tuple(self.collected.noise(number) for number in distinct.tolist())
        return (*copied, Draw(leaves.level, measured.query, noises, kinds=kinds))

    def _is_copied(self, level: str) -> bool:
        return self.central is not None and level in self.central.shares

    def measured(self, query: Query) -> Marginal:
        """Of words, any other word is the rest, and is not measured."""
        counted = self.collected.counted
        return query if counted.all() else Marginal(query.name, query.groups, (counted,))

    def to_counts(self, level: str, sizes: IntArray | None) -> ToCounts | None:
        """Debiases totals of reports; those of a central release are counts."""
        if sizes is None or self._is_copied(level):
            return None
        return partial(self._debiased, sizes)

    def _debiased(self, reports: IntArray, totals: NDArray[np.signedinteger], first: int) -> FloatArray:
        """See `source.ToCounts`; a cell that is the rest of the reports has 0 (`Marginal.answered`).

        Args:
            reports: `(n_leaves,)` of each leaf.
            totals: of the leaves from number `first` on.
        """
        counts = self.collected.debiased(totals.astype(np.int64), reports[first : first + len(totals)])
        return np.where(self.collected.counted, counts, 0.0)

    def files(self, reports: Path) -> tuple[Path, ...]:
        """What is said of the reports."""
        return (reports,)

    def stored(self, level: str) -> tuple[str, str]:
        """See `Source.stored`."""
        if self._is_copied(level):
            return marked("{query}: noisy answers of another release"), VARIANCE
        return (
            marked("{query}: totals of randomised reports as they were published"),
            marked("Variance of each count that is made from them"),
        )

    def truth_for_simulation(
        self,
        spine: Spine,
        read: ReadStored,
        seed: int,
        released: object,  # noqa: ARG002
    ) -> tuple[sp.csr_array, ...]:
        """Answers that stand in for the truth, see `stand_ins`."""
        from features.local.stand_ins import stand_ins  # with scipy, which counting reports does not need

        return stand_ins(self.collected, spine, *read(), seed)

    def simulated(self, seed: int, universe: str) -> SimulatedCounts:
        """Reports that respondents with the simulated answers might have sent; runs of two universes share none."""
        return partial(self._simulated, seed, universe)

    def _simulated(self, seed: int, universe: str, replicate: int, first: int, counts: IntArray) -> FloatArray:
        """See `source.SimulatedCounts`: debiased counts of new reports, drawn from the public seed."""
        key = public_key("spinewise simulated reports 1", seed, universe, replicate, first)
        generator = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
        return self._debiased(counts.sum(axis=1), self.collected.totals_of(counts, generator), 0)

    def errors(self) -> ErrorsOfReports:
        """How the errors of debiased counts depend on the counts."""
        return ErrorsOfReports(self.collected, mixed=bool(self.releases))

    def view(self, reports: Path) -> dict[str, Any]:
        """How many reports there are, by their public file, and what one of them promises.

        `moved`: by how much 1,000 reports of a word that is not listed typically move a count; None without words.
        """
        found = json.loads(reports.read_bytes())
        return {
            "used": found["used"],
            "unused": sum(found["not used"].values()),
            "ratio": decimal_text(self.mechanism.ratio),
            "epsilon": epsilon_text(Fraction(self.mechanism.epsilon)),
            "central": "".join(one.release.name for one in self.releases),
            "moved": None if self.collected.shift is None else round(1000 * self.collected.shift),
        }

    @property
    def deployment(self) -> tuple[str, str]:
        """See `Source.deployment`; a mixed design is in two places, for which the registry has one word."""
        if self.central is None:
            return "Local", ""
        return (
            "Varies",
            "Local: respondents randomised their reports, of the smallest areas. Central: the counts of the release "
            f"{self.central.release.name} at the levels {', '.join(self.central.shares)} were measured of the true "
            "answers of the same persons, which its maker has.",
        )

    @property
    def post_processing(self) -> str:
        """See `Source.post_processing`."""
        source = "the reports" if self.central is None else f"the reports and {self.central.release.name}"
        alone = " alone" if self.central is None else ""
        return (
            f"From {source}{alone}: debiased counts, then level by level non-negative whole numbers that add up to the "
            "number of reports of each area; margins from simulated reports."
        )

    @property
    def randomisers(self) -> Sequence[str]:
        """The mechanism of the reports, and the noise of the central release."""
        stated = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        return (
            f"- {self.mechanism.name.replace('_', ' ')} by every respondent: {stated}",
            *(
                f"- {release.noise(level)} on the counts of {release.release.name}: {level}"
                for release in self.releases
                for level in release.shares
            ),
        )


def survey_of(universe: Universe) -> Survey:
    """The source of a universe that is made from reports, for what is done with these alone."""
    assert isinstance(universe.source, Survey)
    return universe.source


# -- errors of counts of reports -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ErrorsOfReports(CountErrors):
    """By what the standard errors of counts differ from those that estimation states.

    Attributes:
        collected: how answers were randomised.
        mixed: whether counts of a central release, whose errors do not depend on the counts, are part of estimates.
    """

    collected: Collected
    mixed: bool

    def __call__(
        self,
        answers: IntArray,
        cells: IntArray,
        counts: IntArray,
        reports: IntArray,
        standard: FloatArray,
    ) -> FloatArray:
        """See `Collected.own_errors`; `standard` are the stated errors.

        Of an estimate with the variance V, where reports alone have V_r, the reports have the weight w = V / V_r. They
        add w^2 V_r = w V to the variance, what is known otherwise adds the rest: so the factor f of reports alone
        becomes sqrt(w f^2 + 1 - w).
        """
        factors = self.collected.own_errors(answers, cells, counts, reports)
        if not self.mixed:
            return factors
        alone = self.variances(answers, cells, reports)
        weight = np.clip(standard**2 / np.where(alone > 0, alone, 1), 0, 1)
        return np.asarray(np.sqrt(weight * factors**2 + 1 - weight))

    def variances(self, answers: IntArray, cells: IntArray, persons: IntArray) -> FloatArray:
        """See `Collected.stated_variances`."""
        return self.collected.stated_variances(answers, cells, persons)

    def alone(self, stored: IntArray, sizes: IntArray) -> FloatArray:
        """Debiased counts `(n, n_cells)` of areas with such totals; of each area they add up to its reports."""
        return adding_up(self.collected.debiased(stored, sizes), sizes)
