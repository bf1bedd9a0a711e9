"""Exact numbers as text: budgets and shares never pass through binary floating point."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

#: What a number may look like, for error messages.
EXACT_ALLOWED = 'a decimal or a fraction in quotes, such as "2.56", "1e-10" or "542/339"'

#: Digits after the point of a decimal, at most.
_MOST_DECIMALS = 12
_DECIMAL = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
_FRACTION = re.compile(r"[+-]?\d{1,40}/\d{1,40}", re.ASCII)


def parse_exact(text: str) -> Fraction:
    """The exact number that `text` states.

    >>> parse_exact("2.56"), parse_exact(".3"), parse_exact("1e-2"), parse_exact("542/339")
    (Fraction(64, 25), Fraction(3, 10), Fraction(1, 100), Fraction(542, 339))

    Raises:
        ValueError: it is neither a decimal nor a fraction, or the fraction's denominator is 0.
    """
    stripped = text.strip()
    if _FRACTION.fullmatch(stripped):
        numerator, denominator = stripped.split("/")
        if int(denominator) == 0:
            raise ValueError(f"found {text!r}; the number under the fraction's line cannot be 0")
        return Fraction(int(numerator), int(denominator))
    if _DECIMAL.fullmatch(stripped):
        return Fraction(stripped)
    raise ValueError(f"found {text!r}; allowed is {EXACT_ALLOWED}")


def exact_text(value: Fraction) -> str:
    """The exact number as a spec states it: a decimal if it has few digits, else a fraction.

    >>> exact_text(Fraction(1, 8)), exact_text(Fraction(1, 3)), exact_text(Fraction(2))
    ('0.125', '1/3', '2')
    """
    for digits in range(_MOST_DECIMALS + 1):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            return format(Decimal(scaled.numerator).scaleb(-digits), "f")
    return str(value)


def parse_shares(texts: Iterable[str]) -> dict[str, Fraction]:
    """Shares by name, of texts such as "questions=1/2". ValueError where one is none, or a name stands twice."""
    shares: dict[str, Fraction] = {}
    for text in texts:
        name, sign, share = text.partition("=")
        if not sign or name in shares:
            raise ValueError(f"found {text!r}; NAME=SHARE is needed, such as questions=1/2, each name once")
        shares[name] = parse_exact(share)
    return shares


def sum_text(shares: dict[str, Fraction]) -> str:
    """The sum of named shares and its terms: "11/10 (state 1/5, county 9/10)"."""
    return f"{sum(shares.values(), Fraction(0))} ({', '.join(f'{name} {share}' for name, share in shares.items())})"


def epsilon_text(value: float | Fraction) -> str:
    """An epsilon as everything states it: rounded up to four digits, of which at most four are after the point.

    So it is the same on every machine, and a text of it can be searched for: no file has other digits of it.

    >>> epsilon_text(16.4802), epsilon_text(Fraction(7, 2)), epsilon_text(0.00321), epsilon_text(math.inf)
    ('16.49', '3.5', '0.0033', 'infinity')
    """
    if value == math.inf:
        return "infinity"
    ten_thousandths = math.ceil(Fraction(value) * 10_000)
    context = Context(prec=4, rounding=ROUND_CEILING)
    return format(context.create_decimal((0, tuple(map(int, str(ten_thousandths))), -4)).normalize(context), "f")


def decimal_text(value: Fraction, digits: int = 12, *, up: bool = True) -> str:
    """`value` as a decimal; exact where that takes at most `digits` digits, else rounded up, or down if not `up`."""
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(context)
    return format(number, "f") if abs(number) >= Decimal("1e-6") or not number else str(number).lower()
