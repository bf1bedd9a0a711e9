"""The form of privacy statements, as manifests hold them; `statements` works them out."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from pipeline.model.exact import decimal_text, epsilon_text
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.budget import Framework

About = Literal["record", "attribute", "place", "group", "person", "household"]

#: From this epsilon on, the odds have more digits than anybody reads.
_LARGE: Final = 50
#: The natural logarithm of 10, rounded down.
_LOG_OF_TEN: Final = Decimal("2.302585092994045")


def odds(epsilon: str) -> str:
    """By which factor the odds of a guess may improve, exp(epsilon), rounded up: to two digits, or to a power of ten.

    "" where there is no limit.

    >>> odds("1.5"), odds("16.4802"), odds("1000")
    ('4.5', '15,000,000', '10^435')
    """
    number = Decimal(epsilon)
    if number.is_infinite():
        return ""
    if number > _LARGE:
        return f"10^{math.ceil(number / _LOG_OF_TEN)}"
    factor = Context(prec=2, rounding=ROUND_CEILING).plus(Context(prec=40).exp(number))
    return format(factor, ",f")


def promise(statement: Statement | None, delta: str) -> str:
    """A statement in a line, such as "epsilon = 16.49 at delta = 1e-10: the effect of ..."; "" without one."""
    if statement is None:
        return ""
    about = statement.words.rsplit(": epsilon", 1)[0]
    return f"epsilon = {statement.epsilon}{'' if delta == '0' else f' at delta = {delta}'}: {about}"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Statement(_Model):
    """One promise.

    Attributes:
        about: what is protected; `of` names the attribute, the level within which, the size of the group, or the
            companion whose records are the households.
        budget: rho or epsilon, exact.
        epsilon: that holds at the account's delta: the least of the bounds that are sound; see `exact.epsilon_text`.
        zcdp: the bound from rho; None in the pure framework.
        losses: the bound from the distribution of the privacy loss, two numbers moved in each query; None where it is
            not computed (pure framework, groups, and what `pld.pld_epsilon` leaves out).
        records: how many records change together: 1, or 2 that swap where the invariants leave nothing less; the size
            of a group; the members of a household; 0 where the invariants leave nothing to promise, epsilon is
            "infinity" then.
        words: the guarantee as text.
    """

    about: About
    of: str
    budget: str
    epsilon: str
    zcdp: str | None
    losses: str | None
    records: int = 1
    words: str


def statement_of(
    about: About,
    of: str,
    framework: Framework,
    budget: Fraction,
    delta: Fraction,
    words: str,
    records: int,
    losses: float | None = None,
) -> Statement:
    """A statement: under zCDP the least of the bounds from rho and losses, else the budget; rounded up.

    Args:
        about, of: what it is about, and which one of these.
        framework: of the budget, rho for "zcdp", else epsilon.
        budget: that what is bounded costs.
        delta: at which epsilon holds under zCDP.
        words: what is bounded.
        records: how many records change together.
        losses: the epsilon from the distribution of losses.
    """
    zcdp, at = None, ""
    if framework == "zcdp":
        zcdp = zcdp_epsilon(budget, delta)
        at = f" at delta = {decimal_text(delta)}"
    epsilon = epsilon_text(min((bound for bound in (zcdp, losses) if bound is not None), default=budget))
    return Statement(
        about=about,
        of=of,
        budget=str(budget),
        epsilon=epsilon,
        zcdp=None if zcdp is None else epsilon_text(zcdp),
        losses=None if losses is None else epsilon_text(losses),
        records=records,
        words=f"{words}: epsilon = {epsilon}{at}",
    )


class EpsilonComparison(_Model):
    """The epsilon of a record by other ways of counting, at the same delta.

    Attributes:
        basic, advanced, moments: sound, and larger; see `conversion`.
        one_number: the distribution of losses as if each query were one number with sensitivity sqrt 2. NOT a bound.
        gaussian: of real-valued Gaussian noise of the same sigma^2. NOT a bound for noise on the whole numbers.
    """

    basic: str
    advanced: str
    moments: str
    one_number: str | None
    gaussian: str


class PrivacyAccount(_Model):
    """All statements about one universe ("" is the release's own, others are its companions).

    Attributes:
        places: for each level but the lowest, top first.
    """

    universe: str
    record: Statement
    attributes: tuple[Statement, ...]
    places: tuple[Statement, ...]
    groups: tuple[Statement, ...]
    comparison: EpsilonComparison | None
