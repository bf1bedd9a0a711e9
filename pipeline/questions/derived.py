"""What an answer states that follows from its question, domain and budget: all but key, records, ledger and software.

The program that answers and whoever verifies an answer compute it by this one function, so that no field of
`answer.json` that follows from others can be another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from pipeline.model.schema import AmountAttribute, ListedAttribute
from pipeline.privacy.budget import Framework, Neighbours
from pipeline.questions.intervals import half_width
from pipeline.questions.manifest import AmountStated, EndsStated, PartStated, RankStated, note_of
from pipeline.questions.quantiles import Ranked
from pipeline.questions.resolved import Resolved
from pipeline.questions.sensitivity import Measured, measured
from pipeline.questions.stated_domain import DomainStated
from pipeline.questions.windows import MADE_WITH, bought

__all__ = ["Terms", "derived", "note"]


@dataclass(frozen=True)
class Terms:
    """On which terms a question is asked.

    Attributes:
        dataset: the ledger's, charged.
        framework, neighbours: of the dataset.
        records: of one person that may change together.
        budget: rho or epsilon, exact.
    """

    dataset: str
    framework: Framework
    neighbours: Neighbours
    records: int
    budget: Fraction

    def context(self, question: Resolved) -> tuple[str, ...]:
        """What the fingerprints of a question have beside the question itself."""
        made_with = () if question.rank is None else MADE_WITH[self.framework]
        return (self.dataset, self.framework, str(self.budget), self.neighbours, str(self.records), *made_with)

    def parts(self, question: Resolved, n_places: int) -> tuple[Measured | Ranked, ...]:
        """What is measured or chosen, with its mechanism.

        Args:
            question: what is asked.
            n_places: how many places it has numbers for.

        Raises:
            InputError: there is no mechanism for the budget.
        """
        if (rank := question.rank) is not None:
            return bought(rank, self.framework, self.neighbours, self.budget, self.records)
        numbers = question.numbers_of_unit(n_places)
        return measured(question.parts, self.framework, self.neighbours, self.budget, self.records, numbers)


def derived(question: Resolved, domain: DomainStated, terms: Terms, n_places: int) -> dict[str, Any]:
    """The fields of an answer's manifest that follow from its question.

    Args:
        question: what is asked.
        domain: what its words stand for.
        terms: on which it is asked.
        n_places: how many places it has numbers for.

    Raises:
        InputError: there is no mechanism for the budget.
    """
    parts = terms.parts(question, n_places)
    return {
        "question": question.text,
        "statistic": question.statistic,
        "place": question.place,
        "terms": question.terms,
        "amount": None if question.amount is None else _amount(question.amount),
        "ends": None if question.ends is None else _ends(question, question.ends),
        "domain": domain,
        "number": None if question.number is None else str(question.number),
        "least": question.least,
        "framework": terms.framework,
        "neighbours": terms.neighbours,
        "records_per_person": terms.records,
        "budget": str(terms.budget),
        "parts": tuple(RankStated.of(one) if isinstance(one, Ranked) else PartStated.of(one) for one in parts),
        "fingerprint": question.fingerprint(*terms.context(question)),
        "note": note(question, parts),
    }


def note(question: Resolved, parts: Sequence[Measured | Ranked]) -> str:
    """What an answer says of its numbers."""
    half = next((half_width(one.noise) for one in parts if isinstance(one, Measured)), 0)
    chosen = next((one for one in parts if isinstance(one, Ranked)), None)
    number = question.number
    share = number if number is not None and number < 1 else None
    return note_of(question.statistic, question.least, half, chosen, share) + _of_units(question, parts)


def _of_units(question: Resolved, parts: Sequence[Measured | Ranked]) -> str:
    """What it adds where units are counted, or their totals summed."""
    if question.of == "unit":
        most = next(one.numbers for one in parts if isinstance(one, Measured))
        where = "each once" if most == 1 else f"each once in every number that it has a record in, up to {most}"
        return f" Units are counted, {where}."
    if question.of == "total":
        return " Amounts of a unit are taken down until they are within the ends together."
    return ""


def _amount(amount: AmountAttribute) -> AmountStated:
    missing = None if amount.missing is None else str(amount.missing)
    low, high, unit = str(amount.low), str(amount.high), str(amount.unit)
    ends: Literal["record", "total"] = "total" if amount.total else "record"
    return AmountStated(name=amount.name, low=low, high=high, unit=unit, missing=missing, ends=ends)


def _ends(question: Resolved, ends: ListedAttribute) -> EndsStated:
    missing = None if ends.missing is None else str(ends.missing)
    return EndsStated(name=question.clipped, listed=ends.values, missing=missing)
