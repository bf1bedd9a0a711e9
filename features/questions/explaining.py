"""What a question would cost and how near its answer would be, told without reading a record or spending anything."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from features.questions.request import CheckedQuestion
from pipeline.errors import InputError, SpinewiseError
from pipeline.estimation.question_answers import PartByPartError, check_size, estimated_together
from pipeline.execution.settings import load_settings
from pipeline.privacy.ledger.dataset import ANSWER
from pipeline.privacy.ledger.ledger import Ledger, amount_text
from pipeline.published import PublishedRelease, open_finished
from pipeline.questions.quantiles import CLIP, EXTREMES, Ranked
from pipeline.questions.released.cells import NoSumOfCellsError, SumsOfCells, sums_of_cells
from pipeline.questions.sensitivity import MeasuredPart
from pipeline.questions.tables import half_width_at_once
from pipeline.questions.windows import n_numbers, typical_reach
from pipeline.release.layout import RunDirectory
from postprocess.statistics import typical_half_width


@dataclass(frozen=True)
class PartExplained:
    """One part of what would be measured.

    Attributes:
        statistic: count or sum, or what is chosen by rank.
        mechanism: in words, with its exact scale.
        reach: how far a record moves a number, in persons or units of the amount, or a loss.
        half_width: of the 90 % interval of one number, in persons or in the amount; of a choice, how many records lie
            between it and the true one at most.
        near: the same as a sentence.
        moves: how far one person moves numbers, as a sentence.
        cost: exact.
    """

    statistic: str
    mechanism: str
    reach: int
    half_width: str
    cost: str
    near: str
    moves: str


@dataclass(frozen=True)
class Published:
    """What a finished release says to the same question already.

    Attributes:
        directory: of the release.
        half_width: the median of half the widths of its 90 % intervals, of those of any width, in persons.
        enough: whether that is no wider than what the budget would buy.
        combined: the same of the answer combined with it; None where it cannot be, or the release was not named.
    """

    directory: str
    half_width: float
    enough: bool
    combined: float | None


@dataclass(frozen=True)
class Explanation:
    """What a question would do; nothing in it depends on a record.

    Attributes:
        question: canonical text.
        numbers: that it asks for in each part.
        dataset: that would be charged; `unit` rho or epsilon.
        cost: exact; `left`: for questions of the dataset before, exact; None where there is no such ledger or dataset.
        affordable: whether the ledger would allow it.
        published: what a release says already; None where there is none, or where it does not answer the question.
        remark: why the ledger says nothing, or "".
        remarks: what the numbers will be.
    """

    question: str
    numbers: int
    unit: str
    cost: str
    dataset: str
    left: str | None
    affordable: bool
    parts: tuple[PartExplained, ...]
    published: Published | None
    remark: str
    remarks: str

    def __str__(self) -> str:
        """For people, a line each."""
        lines = [f"question   {self.question}", f"numbers    {self.numbers:,}"]
        for part in self.parts:
            lines.append(f"{part.statistic:<10} {part.mechanism}; {part.moves}; {part.near}; {self.unit} = {part.cost}")
        lines.append(
            f"cost       {self.unit} = {self.cost}, once for all places and groups, charged to {self.dataset!r}"
        )
        if self.left is None:
            lines.append(f"ledger     {self.remark}")
        else:
            verdict = "" if self.affordable else "; not enough: the question would be refused"
            lines.append(
                f"ledger     {self.unit} = {amount_text(Fraction(self.left))} is left of {self.dataset!r}{verdict}"
            )
        lines += self._told_by_the_release()
        lines.append(f"answer     {self.remarks}")
        return "\n".join(lines)

    def _told_by_the_release(self) -> list[str]:
        if self.published is None:
            return []
        near = f"{self.published.half_width:,.1f}"
        text = f"release    {self.published.directory} answers this already, typically +- {near}, and costs nothing"
        advice = "; that is no wider than what is asked for here" if self.published.enough else ""
        if self.published.combined is not None:
            advice += f"; combined with the answer it would be +- {self.published.combined:,.1f}"
        return [text + advice]


def explain_question(checked: CheckedQuestion, release: Path | None = None) -> Explanation:
    """What the question would do; it opens the ledger to read what is left, and no file of records.

    Args:
        checked: the question.
        release: directory of a finished release from the same spec; by default where `run` would have put it.

    Raises:
        InputError: a release is named and is none.
    """
    left, remark = _left(checked)
    parts = tuple(_part(checked, one) for one in checked.plan.parts)
    cost = checked.plan.cost
    return Explanation(
        question=checked.question.text,
        numbers=len(checked.work.geocodes) * checked.question.size,
        unit=checked.unit,
        cost=str(cost),
        dataset=checked.plan.dataset,
        left=None if left is None else str(left),
        affordable=left is not None and left >= cost,
        parts=parts,
        published=_published(checked, release),
        remark=remark,
        remarks=checked.plan.note,
    )


def _part(checked: CheckedQuestion, one: MeasuredPart | Ranked) -> PartExplained:
    if isinstance(one, MeasuredPart):
        half, held = one.mechanism.half_width(), "90 % interval: the number"
        if checked.question.statistic == "most common":
            half = half_width_at_once(one.mechanism, checked.question.sizes[-1])
            held = "90 %, all of a group at once: each"
        value = half * checked.question.unit_of(one.part.name)
        width = f"{value.numerator:,}" if value.denominator == 1 else f"{float(value):,.6g}"
        if (rank := checked.question.rank) is not None:
            framework = checked.plan.promise.framework
            held = (
                f"{n_numbers(rank.candidates, framework)} numbers around it make its interval of about 90 % or more, "
                f"with ends typically {typical_reach(one, rank, framework):,} records away: each"
            )
        near, moves = f"{held} +- {width}", _moves(checked, one)
        return PartExplained(one.part.name, str(one.mechanism), one.reach, width, str(one.budget), near, moves)
    near = f"at most {one.within:,} records lie between it and the true one, with a probability of 90 %"
    if one.beyond and checked.question.statistic in EXTREMES:
        side = "above" if checked.question.statistic == "max" else "below"
        near = (
            f"about {one.beyond:,} records are {side} it in groups of clearly more, fewer than {2 * one.beyond:,} "
            "with a probability of 90 %"
        )
    if one.part.name == CLIP:
        near = f"at most {one.within:,} records too many or too few are above it, with a probability of 90 %"
    name, records = checked.question.statistic, one.within
    name = str(checked.question.number) if name == "quantile" else name
    moves = f"a record moves a loss by up to {one.reach:,}{_several(checked)}"
    return PartExplained(name, str(one.mechanism), one.reach, f"{records:,} records", str(one.budget), near, moves)


def _moves(checked: CheckedQuestion, one: MeasuredPart) -> str:
    """How far one person moves the numbers of a part, in words."""
    if one.part.of == "unit":
        where = "one number" if one.numbers == 1 else f"up to {one.numbers:,} numbers"
        return f"a unit is counted in {where}, once each"
    if one.part.of == "total":
        return f"a unit moves all numbers together by up to {one.reach:,}"
    return f"a record moves a number by up to {one.reach:,}{_several(checked)}"


def _several(checked: CheckedQuestion) -> str:
    records = checked.plan.promise.records
    return "" if records == 1 else f", and one person has up to {records} records"


def _left(checked: CheckedQuestion) -> tuple[Fraction | None, str]:
    settings = load_settings()
    try:
        with Ledger.open(settings.ledger, state=settings.state) as ledger:
            state = ledger.dataset(checked.plan.dataset)
    except InputError as error:
        return None, str(error)
    return (Fraction(0), "") if state.closed else (state.left_for(state.purpose_of(ANSWER)), "")


def _published(checked: CheckedQuestion, release: Path | None) -> Published | None:
    """What the release says; a sum or a mean, or what it has no cells for, it does not answer."""
    folder = load_settings().out / checked.spec.name if release is None else release
    if release is None and not RunDirectory(folder).manifest.is_file():
        return None
    question = checked.question
    (first, *_) = checked.plan.parts
    if question.statistic != "count" or not isinstance(first, MeasuredPart):
        return None
    from pipeline.reading.reader import open_reader
    from pipeline.reading.release import Release

    opened = open_reader(folder)
    if any(opened.schema.names.count(axis.attribute.name) == 0 for axis in question.axes):
        return None
    level = question.level or opened.levels[0]
    if question.level is None and checked.work.spine.levels[0].geocodes.size > 1:
        return None
    try:
        asked = Release(opened).query(" * ".join(question.terms) or "total")
        for axis in question.axes:
            if not axis.keep.all():
                kept = [value for value, keep in zip(axis.attribute.values, axis.keep, strict=True) if keep]
                asked = asked.where(**{axis.attribute.name: kept})
        frame = asked.at(level)
    except SpinewiseError:
        return None
    lows = [name for name in frame.columns if str(name).endswith(":low90")][: question.size]
    widths = [(frame[str(name).replace(":low90", ":high90")] - frame[name]).to_numpy() / 2 for name in lows]
    own = first.mechanism.half_width()
    inexact = np.concatenate(widths)
    inexact = inexact[inexact > 0]
    typical = float(np.median(inexact)) if inexact.size else 0.0
    combined = None if release is None else foretold(checked, release, first.mechanism.variance)
    return Published(str(folder), typical, bool(typical <= own), combined)


def foretold(checked: CheckedQuestion, release: Path, variance: float) -> float | None:
    """Half the width that combined 90 % intervals would typically have, of those with any; None where there are none.

    It depends on no record: variances follow from the noise alone.

    Args:
        checked: the question.
        release: finished.
        variance: of the noise of the answer.
    """
    try:
        opened = open_finished(release, check_hashes=False)
        sums = _sums(checked, opened)
        nothing = np.zeros((len(opened.spine.level(sums.level)), len(sums.positions)), dtype=np.int64)
        found = estimated_together(opened, sums, nothing, variance).both.variances
    except InputError:
        return None
    return typical_half_width(found)


def _sums(checked: CheckedQuestion, release: PublishedRelease) -> SumsOfCells:
    return sums_of_cells(checked.question, checked.plan.dataset, checked.work.spine.fingerprint(), release)


def why_not(checked: CheckedQuestion, release: Path) -> str | None:
    """Why the answer of a question could not be combined with a release, in a sentence; None where it can.

    Raises:
        InputError: there is no such release, or it is of other areas, another schema or dataset.
        ReleaseError: a file of it was changed.
    """
    opened = open_finished(release, check_hashes=True)
    try:
        check_size(opened)
        _sums(checked, opened)
    except (NoSumOfCellsError, PartByPartError) as error:
        return str(error)
    return None
