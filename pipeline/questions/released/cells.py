"""A question as sums of the cells of a release: whether it is one, and which cells each of its numbers adds up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import InputError
from pipeline.published import PublishedRelease
from pipeline.questions.domain import Domain
from pipeline.questions.manifest import AnswerManifest
from pipeline.questions.resolve import resolve
from pipeline.questions.resolved import QuestionAxis, Resolved, records_of_unit
from pipeline.questions.text import QuestionError, parse
from postprocess.arrays import BoolArray, IntArray
from postprocess.marginal import Marginal


class NoSumOfCellsError(InputError):
    """The numbers of a question are no sums of the counts of a release; the message is a sentence that says why."""


@dataclass(frozen=True, eq=False)
class SumsOfCells:
    """The numbers of a question as answers of a query on a release's cells, of which some are not asked for.

    Attributes:
        question: by the release's schema.
        level: of the areas that are told apart.
        query: on the cells; of each attribute what is not asked for is the last group.
        positions: `(size,)` of each number in a place the answer of the query.
    """

    question: Resolved
    level: str
    query: Marginal
    positions: IntArray

    def spread(self, values: IntArray) -> IntArray:
        """Numbers `(n, size)` as answers of the query, zeros where nothing is asked for."""
        out = np.zeros((len(values), self.query.size), dtype=np.int64)
        out[:, self.positions] = values
        return out

    def picked(self, answers: NDArray[Any]) -> NDArray[Any]:
        """The numbers `(n, size)` among answers of the query."""
        out: NDArray[Any] = answers[:, self.positions]
        return out


def sums_of_cells(asked: Resolved, dataset: str, geography: str, release: PublishedRelease) -> SumsOfCells:
    """What the numbers of a question add up of a release's own cells.

    Args:
        asked: the question, as it was looked up where it was asked.
        dataset: whose records.
        geography: fingerprint of its areas.
        release: any version of the release.

    Raises:
        NoSumOfCellsError: they are no sums of them.
        InputError: the release is of another dataset, other areas or another schema than the question.
    """
    universe, where = release.universes[0], release.run.root
    if universe.dataset and universe.dataset != dataset:
        raise InputError(f"{where}: it is of the dataset {universe.dataset!r}, and the answer of {dataset!r}")
    if release.spine.fingerprint() != geography:
        raise InputError(f"{where}: its areas are not those of the answer")
    question = _question_in(asked, release)
    level = question.level or release.spine.levels[0].name
    if question.level is None and len(release.spine.levels[0]) > 1:
        raise NoSumOfCellsError(
            f"the question is of everywhere together, and the release has {len(release.spine.levels[0])} areas at its "
            f"uppermost level {level!r}: ask by {level!r} and add up"
        )
    axes = {axis.attribute.name: axis for axis in question.axes}
    parts = [_groups(axes.get(one.name), len(one.values)) for one in universe.schema.attributes]
    query = Marginal("question", *map(tuple, zip(*parts, strict=True)))
    codes = [np.zeros(question.size, dtype=np.int64) for _ in parts]
    distinguished = np.unravel_index(np.arange(question.size), question.sizes) if question.order else ()
    for number, code in zip(question.order, distinguished, strict=True):
        codes[universe.schema.names.index(question.axes[number].attribute.name)] = code
    return SumsOfCells(question, level, query, np.asarray(np.ravel_multi_index(codes, query.sizes), dtype=np.int64))


def sums_of_answer(manifest: AnswerManifest, release: PublishedRelease) -> SumsOfCells:
    """The same of an answer; ReleaseError where its manifest is damaged."""
    return sums_of_cells(manifest.plan().question, manifest.dataset, manifest.geography, release)


def _question_in(asked: Resolved, release: PublishedRelease) -> Resolved:
    """The question with its names looked up in the release's spec.

    Raises:
        NoSumOfCellsError: it is of something else than the release's counts.
        InputError: the release has another schema.
    """
    universe, parsed = release.universes[0], parse(asked.text)
    if parsed.statistic not in ("count", "most common"):
        of = "" if parsed.amount is None else f" of {parsed.amount.text!r}"
        raise NoSumOfCellsError(f"a {parsed.statistic}{of} is no count of records")
    if universe.unit.left_out:
        raise NoSumOfCellsError(
            "of units with several records, answer and release each choose which are counted, so that their true "
            "numbers may differ"
        )
    if reason := universe.source.refusal("sum"):
        raise NoSumOfCellsError(reason)
    at_most = release.spec.privacy.at_most
    units = None if at_most is None else records_of_unit(at_most)
    domain = Domain(release.spec.geography.level_names, universe.schema, {}, units=units)
    known = {*universe.schema.names, *(recode.name for recode in universe.schema.recodes), *domain.levels}
    named = [*parsed.by, *(condition.name for condition in parsed.where)]
    if parsed.amount is not None:
        named.append(parsed.amount)
    if strange := [word.text for word in named if word.text not in known]:
        raise NoSumOfCellsError(f"the release tells no records apart by {strange[0]!r}, as the question does")
    for whole in (False, True):
        try:
            question = resolve(parsed, domain, whole=whole)
        except QuestionError:
            break
        if question.content() == asked.content():
            return question
    raise InputError(f"{release.run.root}: its attributes or their values are not those that the question was asked of")


def _groups(axis: QuestionAxis | None, n_values: int) -> tuple[IntArray, BoolArray]:
    """The groups of an attribute's values, and which of them are asked for."""
    if axis is None:
        return np.zeros(n_values, dtype=np.int64), np.ones(1, dtype=bool)
    n_groups = len(axis.labels) or 1
    groups = np.where(axis.keep, axis.group, n_groups).astype(np.int64)
    return groups, np.arange(n_groups + (not axis.keep.all())) < n_groups
