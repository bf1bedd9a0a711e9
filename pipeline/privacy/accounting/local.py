"""What is promised where every report was randomised by its sender: of one report, and of several.

A mechanism M is epsilon-locally private if P(M(v) = r) <= e^epsilon P(M(w) = r) for all values v, w and reports r
(Kasiviswanathan, Lee, Nissim, Raskhodnikova and Smith 2011, definition 2.2). Independent reports of one sender multiply
these ratios. One response that is drawn once and repeated has the ratio of one report; reports of a value that changes
show that it has changed, which has no bound.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Protocol

from pipeline.privacy.accounting.statement_models import PrivacyAccount, Statement
from pipeline.privacy.budget import Neighbours

__all__ = ["LocalLike", "local_account"]

#: Numbers of reports of one respondent that are stated.
REPORTS = (2, 3, 4, 5)


class _Mechanism(Protocol):
    @property
    def repeated(self) -> bool: ...


class Collected(Protocol):
    """How answers were randomised; see `pipeline.collect.collected`."""

    @property
    def mechanism(self) -> _Mechanism:
        """By which every respondent randomised the answer."""


class LocalLike(Protocol):
    """The part of a universe that its local promise depends on."""

    @property
    def name(self) -> str:
        """The companion's name; "" for the release's own universe."""

    @property
    def budget(self) -> Fraction:
        """The epsilon of one report."""

    @property
    def neighbours(self) -> Neighbours:
        """Always "change-one": that one took part is not hidden."""

    @property
    def collected(self) -> Collected | None:
        """How answers were randomised."""


def local_account(universe: LocalLike) -> PrivacyAccount:
    """All statements about the respondents of one universe."""
    assert universe.collected is not None
    memoised = universe.collected.mechanism.repeated
    one = "one respondent's having another answer, which was sent in one report"
    if memoised:
        one = "one respondent's having another answer, which was sent in any number of reports that repeat one response"
    return PrivacyAccount(
        universe=universe.name,
        framework="local",
        neighbours=universe.neighbours,
        delta="0",
        record=_statement("record", "", universe.budget, 1, f"the effect of {one}"),
        attributes=(),
        places=(),
        groups=tuple(
            _statement(
                "group",
                str(n),
                n * universe.budget,
                n,
                f"what can be learnt about one respondent from {n} reports, each drawn anew",
            )
            for n in REPORTS
            if not memoised
        ),
        comparison=None,
    )


def _statement(about: str, of: str, budget: Fraction, records: int, words: str) -> Statement:
    context = Context(prec=12, rounding=ROUND_CEILING)
    epsilon = format(context.divide(Decimal(budget.numerator), Decimal(budget.denominator)).normalize(context), "f")
    return Statement.model_validate(
        {
            "about": about,
            "of": of,
            "budget": str(budget),
            "epsilon": epsilon,
            "zcdp": None,
            "losses": None,
            "records": records,
            "words": f"{words}: epsilon = {epsilon}",
        }
    )
