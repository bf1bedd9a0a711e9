"""A question as a plan: what is drawn for it, with which noise, at which cost. It follows from public things alone.

Whoever explains, answers, verifies or combines makes it of question, promise and budget by this one class, so that no
field of `answer.json` that follows from others can be another one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from pipeline.model.promise import Promise
from pipeline.questions.quantiles import CLIP, EXTREMES, Ranked
from pipeline.questions.resolved import Resolved
from pipeline.questions.sensitivity import MeasuredPart, measured
from pipeline.questions.windows import MADE_WITH, bought, columns_of

NOTE: Final = (
    "The numbers are unbiased: true numbers plus noise, neither rounded nor made non-negative. Each interval covers "
    "the true number, of amounts as they are clipped and rounded, with a probability of 90 %."
)
RANK_NOTE: Final = (
    "Each number is a step of the grid that was chosen by {chooser}. Each interval covers the true "
    "quantile, of amounts as they are clipped and rounded, with a probability of about 90 % or more, however the "
    "amounts lie; it is more where many lie around the quantile."
)
EXTREME_NOTE: Final = (
    "Each number is a step of the grid, chosen by {chooser}: in groups of clearly more than {beyond:,} "
    "records about {beyond:,} are {side} it, and with a probability of 90 % fewer than {twice:,} are, and at least one "
    "is at it or {side}; in smaller groups it says nothing. Each interval covers, with a probability of about 90 % or "
    "more, the {which} step that at most {beyond:,} records are {side}, of amounts as they are clipped and rounded. "
    "The number is not made to be the {extreme} amount, which is one record's: that may be {side} the interval."
)
CLIP_NOTE: Final = (
    "The clip is one of the listed ends, chosen by {chooser}; its interval has, with a probability of "
    "about 90 % or more, the least of them that {most} above, of amounts as they are, or else the last."
)
MOST_COMMON_NOTE: Final = (
    "The values are ordered by noisy counts, which are unbiased one by one; those of values that come first because of "
    "their noise are too large. All intervals of counts and of ranks in a group hold together with a probability of "
    "90 %."
)


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """A question, the promise that it is asked under, and its budget.

    Attributes:
        question: by numbers.
        dataset: the ledger's, charged.
        promise: of the dataset's framework and neighbours; its budget is what may be spent.
        numbers: in how many numbers a unit could be, if it had enough records; of units that are counted.
    """

    question: Resolved
    dataset: str
    promise: Promise
    numbers: int

    @cached_property
    def parts(self) -> tuple[MeasuredPart | Ranked, ...]:
        """What is measured or chosen, with its mechanism; InputError where there is none for the budget."""
        if (rank := self.question.rank) is not None:
            return bought(rank, self.promise)
        return measured(self.question.parts, self.promise, self.numbers)

    @property
    def cost(self) -> Fraction:
        """What it costs, exact: the budget, or a little less where a choice cannot use all of it."""
        return sum((one.budget for one in self.parts), Fraction(0))

    @property
    def columns(self) -> list[str]:
        """Of measurements.csv, beside the keys."""
        if (rank := self.question.rank) is not None:
            return [rank.name, *columns_of(rank.candidates, self.promise.framework)]
        return [part.name for part in self.question.parts]

    @property
    def context(self) -> tuple[str, ...]:
        """What the fingerprints of a question have beside the question itself."""
        promise = self.promise
        made_with = () if self.question.rank is None else MADE_WITH[promise.framework]
        of_promise = promise.framework, str(promise.budget), promise.neighbours, str(promise.records)
        return self.dataset, *of_promise, *made_with

    def fingerprint(self, *reading: str) -> str:
        """SHA-256 over question, promise and budget; with how records are read, over all that noise is bound to."""
        return self.question.fingerprint(*reading, *self.context)

    @property
    def note(self) -> str:
        """What an answer says of its numbers."""
        return _of_numbers(self) + _of_units(self)


def _of_numbers(plan: QuestionPlan) -> str:
    question, (first, *_) = plan.question, plan.parts
    if isinstance(first, Ranked):
        return _of_rank(plan, first)
    if question.statistic == "most common":
        return MOST_COMMON_NOTE
    if question.least is None:
        return NOTE
    least, half = question.least, first.mechanism.half_width()
    most = least - half - 1
    wrongly = f"one of {most:,} or fewer is listed with a probability of at most 5 %"
    if most < 0:
        wrongly = "an empty group is listed with a probability above 5 %: take a higher threshold, or a larger budget"
    return (
        f"Listed are the groups whose noisy number is at least {least:,}. A group of {least + half:,} or more is left "
        f"out with a probability of at most 5 %; {wrongly}. Numbers that are listed are too "
        "large on average, since noise upwards lists more groups; measurements.csv has all numbers, unbiased."
    )


def _of_rank(plan: QuestionPlan, chosen: Ranked) -> str:
    statistic, number, beyond, chooser = (
        plan.question.statistic, plan.question.number, chosen.beyond, chosen.mechanism.by,
    )  # fmt: skip
    if statistic == CLIP:
        shared = number is not None and number < 1
        most = f"at most {number} of the records are" if shared else f"at most {beyond:,} records are"
        return CLIP_NOTE.format(chooser=chooser, most=most)
    if statistic in EXTREMES:
        side, which, extreme = (
            ("above", "lowest", "largest") if statistic == "max" else ("below", "highest", "smallest")
        )
        ranks = {"beyond": beyond, "twice": 2 * beyond}
        return EXTREME_NOTE.format(chooser=chooser, side=side, which=which, extreme=extreme, **ranks)
    return RANK_NOTE.format(chooser=chooser)


def _of_units(plan: QuestionPlan) -> str:
    """What it adds where units are counted, or their totals summed."""
    if plan.question.of == "unit":
        most = next(one.numbers for one in plan.parts if isinstance(one, MeasuredPart))
        where = "each once" if most == 1 else f"each once in every number that it has a record in, up to {most}"
        return f" Units are counted, {where}."
    if plan.question.of == "total":
        return " Amounts of a unit are taken down until they are within the ends together."
    return ""
