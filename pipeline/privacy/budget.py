"""How a budget is counted, and how far one record, or one person, moves numbers."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal

from geography.errors import InputError

#: "local": every report was randomised where it was made; no noise is drawn, and no ledger is charged.
Framework = Literal["zcdp", "pure", "local"]
Neighbours = Literal["change-one", "add-remove"]

FRAMEWORKS: Final[tuple[Framework, ...]] = ("zcdp", "pure")
NEIGHBOURS: Final[tuple[Neighbours, ...]] = ("change-one", "add-remove")
#: What the budget of a framework is called.
BUDGET_NAMES: Final = MappingProxyType({"zcdp": "rho", "pure": "epsilon", "local": "epsilon"})

#: Numbers that neighbours move by one each, of those that a mechanism is used on at one level.
MOVED: Final = MappingProxyType({"change-one": 2, "add-remove": 1})


def budget_of_one(framework: Framework, budget: Fraction, records: int) -> Fraction:
    """The budget for one record's change, where `records` of them that change together are to cost `budget`.

    So many records move the answers of a query at a level by at most as many times what one moves, in L1 and in L2: all
    may leave one answer and enter another. Noise made for this budget therefore has D = 2 records^2 (change-one) or
    records^2 (add-remove), and s = 2 records or records (Bun and Steinke 2016, proposition 1.9, as an equality for the
    Gaussian; Dwork and Roth 2014, theorem 2.2).

    Raises:
        InputError: `records` is below 1.

    >>> budget_of_one("zcdp", Fraction(1), 2)
    Fraction(1, 4)
    """
    if records < 1:
        raise InputError(f"records per person: found {records}; at least 1 is needed")
    return budget / records ** (2 if framework == "zcdp" else 1)


def reach_between(low: int, high: int, neighbours: Neighbours) -> int:
    """How far one record moves numbers to which it adds a whole number from `low` to `high`, each to at most one.

    The least whole R such that a record's change is at most as if `MOVED` numbers moved by R each, in L1 and in L2.
    With A = max(|low|, |high|):

    - add-remove: one number moves by at most A, so R = A.
    - change-one, to another number: two move by at most A each, L2 squared <= 2 A^2; within its number: one moves by
      at most high - low <= 2 A, L2 squared <= (high - low)^2, which is above 2 A^2 where the ends have other signs.

    >>> reach_between(0, 600, "change-one"), reach_between(-300, 300, "change-one")
    (600, 425)
    """
    furthest = max(abs(low), abs(high))
    if neighbours == "add-remove":
        return furthest
    within = (high - low) ** 2
    root = math.isqrt((within + 1) // 2)
    while MOVED[neighbours] * root**2 < within:
        root += 1
    return max(furthest, root)


def reach_of_total(low: int, high: int) -> int:
    """The same where a unit adds any number of whole numbers, to any of the numbers, that `low` and `high` bound.

    Those above 0 add up to at most `high`, those below 0 to at least `low` (`units.within_ends`); low <= 0 <= high.
    Let p and n be what a unit adds above and below 0, p' and n' what it adds in a neighbour, all without their signs.

    - add-remove: L1 <= sum p + sum n <= high - low; L2 <= L1.
    - change-one: the numbers move by p + n' and against it by p' + n, neither of them below 0, each with an L1 norm
      of at most high - low: L1 <= 2 (high - low), and L2 squared <= 2 (high - low)^2, as their product is not below 0.

    So R = high - low, however many records a unit has.

    >>> reach_of_total(0, 600), reach_of_total(-300, 300)
    (600, 600)
    """
    return high - low


def rounded_text(value: Fraction, digits: int) -> str:
    """The number to some digits, for people; also one that is beyond a float.

    >>> rounded_text(Fraction(200, 3), 3), rounded_text(Fraction(10) ** 400, 3), rounded_text(Fraction(1, 10**400), 3)
    ('66.7', '1.00e+400', '1.00e-400')
    """
    try:
        near = float(value)
    except OverflowError:
        near = 0.0
    if near or not value:
        return f"{near:.{digits}g}"
    context = Context(prec=digits, Emin=-999_999, Emax=999_999)
    return format(context.divide(Decimal(value.numerator), Decimal(value.denominator)), f".{digits - 1}e")


def exact(value: object, name: str) -> Fraction:
    """`value` as a Fraction; a float is refused, since its digits are not those that anyone wrote."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise TypeError(f"{name}: found {value!r} of type {type(value).__name__}; an int or a Fraction is needed")
    return Fraction(value)
