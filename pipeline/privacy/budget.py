"""The noise that a share of the budget buys: its scale as an exact fraction, and its variance.

The variance of a measurement is `noise_for(...).variance`. Its arguments are those of `model.draw`: the shares of
level and query, and `Universe.strategy_budget`, into which goes how far one person moves a number.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from statistics import NormalDist
from types import MappingProxyType
from typing import Final, Literal

from geography.errors import InputError

Mechanism = Literal["discrete_gaussian", "discrete_laplace"]
#: "local": every report was randomised where it was made; no noise is drawn, and no ledger is charged.
Framework = Literal["zcdp", "pure", "local"]
Neighbours = Literal["change-one", "add-remove"]

FRAMEWORKS: Final[tuple[Framework, ...]] = ("zcdp", "pure")
NEIGHBOURS: Final[tuple[Neighbours, ...]] = ("change-one", "add-remove")
#: What the budget of a framework is called.
BUDGET_NAMES: Final = MappingProxyType({"zcdp": "rho", "pure": "epsilon", "local": "epsilon"})

#: Numbers that neighbours move by one each, of those that a mechanism is used on at one level.
MOVED: Final = MappingProxyType({"change-one": 2, "add-remove": 1})

# A sampler tabulates about 9 sigma or 44 b outcomes on either side of zero; the limits keep that below a million.
LARGEST_SCALE: Final = MappingProxyType({"discrete_gaussian": Fraction(10**10), "discrete_laplace": Fraction(20_000)})

# Least squares divides by variances; below these scales its weights, and sums of them, are beyond floats. A budget that
# makes such noise protects nobody.
LEAST_SCALE: Final = MappingProxyType(
    {"discrete_gaussian": Fraction(1, 10**100), "discrete_laplace": Fraction(1, 10**50)}
)

_SYMBOL: Final = MappingProxyType({"discrete_gaussian": "sigma^2", "discrete_laplace": "b"})
_VARIANCE_FLOOR = 1e-6  # of the variance of the continuous distribution with the same scale
_GAUSSIAN_LIMIT = 10.0  # from this sigma^2 on, the variance equals sigma^2 to float precision


@dataclass(frozen=True)
class NoiseSpec:
    """One noise distribution on the whole numbers, centred at zero.

    Attributes:
        mechanism: `discrete_gaussian`, P(k) proportional to exp(-k^2 / (2 sigma^2)) (Canonne, Kamath and Steinke 2020,
            arXiv 2004.00010, definition 1), or `discrete_laplace`, P(k) proportional to exp(-|k| / b) (Ghosh,
            Roughgarden and Sundararajan 2012).
        scale: sigma^2 (persons squared) of the Gaussian or b (persons) of the Laplace, exact.

    Raises:
        InputError: the mechanism is unknown, or the scale is not positive, below `LEAST_SCALE` or above
            `LARGEST_SCALE`.

    >>> round(NoiseSpec("discrete_laplace", Fraction(1, 2)).variance, 6)
    0.362031
    """

    mechanism: Mechanism
    scale: Fraction

    def __post_init__(self) -> None:
        if self.mechanism not in LARGEST_SCALE:
            raise InputError(f"noise mechanism: found {self.mechanism!r}; allowed are {', '.join(LARGEST_SCALE)}")
        object.__setattr__(self, "scale", exact(self.scale, f"noise scale {_SYMBOL[self.mechanism]}"))
        symbol, largest = _SYMBOL[self.mechanism], LARGEST_SCALE[self.mechanism]
        if self.scale <= 0:
            raise InputError(f"noise scale: found {symbol} = {self.scale}; it must be above 0")
        if self.scale < (least := LEAST_SCALE[self.mechanism]):
            raise InputError(
                f"noise scale: found {symbol} = {rounded_text(self.scale, 4)}; at least {rounded_text(least, 1)} is "
                "needed: a budget so large protects nobody"
            )
        if self.scale > largest:
            raise InputError(
                f"noise scale: found {symbol} = {rounded_text(self.scale, 4)}; at most {largest} is allowed: "
                "give this query a larger share of the budget, or do not measure it"
            )

    def rho(self, moved: int) -> Fraction:
        """The zCDP loss of one use in which `moved` (m) of the numbers move by one each.

        Gaussian: rho = m / (2 sigma^2), m the squared L2 sensitivity (Canonne, Kamath and Steinke 2020: theorem 4 for
        one number, theorem 14 for several; zCDP adds up, Bun and Steinke 2016, arXiv 1605.02065, lemma 1.7). Laplace:
        rho = m / (2 b^2), as an epsilon-private mechanism is epsilon^2 / 2-zCDP (the same, proposition 1.4), here m of
        1 / b each.
        """
        return moved / (2 * self.scale ** (1 if self.mechanism == "discrete_gaussian" else 2))

    def epsilon(self, moved: int) -> Fraction | None:
        """The pure loss of such a use: of Laplace noise m / b, m the L1 sensitivity; None of Gaussian, which has none.

        Ghosh, Roughgarden and Sundararajan 2012 (doi 10.1137/09076828X), definition 2.1 and theorem 2.2.
        """
        return None if self.mechanism == "discrete_gaussian" else moved / self.scale

    def __str__(self) -> str:
        return f"{self.mechanism.replace('_', ' ')}, {_SYMBOL[self.mechanism]} = {self.scale}"

    @property
    def variance(self) -> float:
        """Exact variance of the discrete noise (persons squared), to float precision.

        Gaussian: by summation, and sigma^2 where the difference (below 80 sigma^2 exp(-19 sigma^2)) is beyond a float.
        Laplace: 1 / (cosh(1/b) - 1) = 1 / (2 sinh^2(1 / (2b))).

        Least squares divides by variances, so it is never less than a millionth of the variance of the continuous
        distribution of the same scale (sigma^2 or 2 b^2), nor less than the smallest normal float: with a huge budget
        the noise is zero except with negligible probability, and its true variance would underflow. The floor acts
        below sigma^2 = 0.028 and b = 0.051.
        """
        scale = float(self.scale)
        if self.mechanism == "discrete_gaussian":
            floor, exact = _VARIANCE_FLOOR * scale, _gaussian_variance(scale)
        else:
            floor, exact = _VARIANCE_FLOOR * 2.0 * scale * scale, _laplace_variance(scale)
        return max(exact, floor, sys.float_info.min)


def farthest(framework: Framework, numbers: int, share: float) -> float:
    """How many standard deviations from its mean one of so many noisy numbers, or sums of these, is at most.

    Far out, where few are, the tail of a sum of Laplace noise is no heavier than that of one with all of the variance.

    Args:
        framework: "zcdp" (Gaussian noise) or "pure" (Laplace).
        numbers: that are compared.
        share: the probability that one of them is farther off all the same.

    >>> round(farthest("zcdp", 1, 0.1), 3), round(farthest("pure", 1, 0.1), 3)
    (1.645, 1.628)
    """
    tail = share / (2 * max(1, numbers))
    return -NormalDist().inv_cdf(tail) if framework == "zcdp" else -math.log(2 * tail) / math.sqrt(2)


def noise_for(
    framework: Framework, total: Fraction, level_share: Fraction, query_share: Fraction, neighbours: Neighbours
) -> NoiseSpec:
    """Noise of one query at one level, which gets total * level_share * query_share of the budget.

    A person is in one answer of the query at one geounit of the level. Neighbours that add or remove a record move one
    answer by 1; neighbours that change a record move two answers by 1 each (L1 sensitivity 2, L2 sensitivity sqrt 2).

    - `zcdp`, budget rho: discrete Gaussian with sigma^2 = D / (2 rho), D the squared L2 sensitivity, 2 for change-one
      and 1 for add-remove (Canonne, Kamath and Steinke 2020, theorem 4 and, for several answers at once, theorem 14).
    - `pure`, budget epsilon: discrete Laplace with b = s / epsilon, s the L1 sensitivity, 2 for change-one and 1 for
      add-remove.

    Args:
        framework: "zcdp" (discrete Gaussian) or "pure" (discrete Laplace).
        total: the whole budget, rho or epsilon, above 0.
        level_share: the level's part of it, above 0 and at most 1.
        query_share: the query's part of the level's, above 0 and at most 1.
        neighbours: "change-one" or "add-remove".

    Raises:
        InputError: a value is out of range, or the noise is larger than `LARGEST_SCALE` or smaller than `LEAST_SCALE`.
        TypeError: a number is not exact (an int or a Fraction).
    """
    if framework not in FRAMEWORKS:
        raise InputError(f"privacy framework: found {framework!r}; allowed are {', '.join(FRAMEWORKS)}")
    if neighbours not in NEIGHBOURS:
        raise InputError(f"neighbours: found {neighbours!r}; allowed are {', '.join(NEIGHBOURS)}")
    total = exact(total, "total budget")
    if total <= 0:
        raise InputError(f"total budget: found {total}; it must be above 0")
    shares = {"level share": exact(level_share, "level share"), "query share": exact(query_share, "query share")}
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise InputError(f"{name}: found {share}; it must be above 0 and at most 1")
    part = total * math.prod(shares.values())
    sensitivity = 2 if neighbours == "change-one" else 1  # both D and s
    if framework == "zcdp":
        return NoiseSpec("discrete_gaussian", sensitivity / (2 * part))
    return NoiseSpec("discrete_laplace", sensitivity / part)


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


def _gaussian_variance(sigma2: float) -> float:
    if sigma2 >= _GAUSSIAN_LIMIT:
        return sigma2
    if sigma2 < 1e-3:  # exp(-1 / (2 sigma^2)) < 1e-217
        return 0.0
    outcomes = range(1, math.ceil(40 * math.sqrt(sigma2)) + 2)  # 40 sigma: exp(-800) is 0 beside anything
    weights = [math.exp(-k * k / (2 * sigma2)) for k in outcomes]
    return 2 * math.fsum(k * k * w for k, w in zip(outcomes, weights, strict=True)) / (1 + 2 * math.fsum(weights))


def _laplace_variance(b: float) -> float:
    if b < 2e-3:  # exp(-1 / b) < 1e-217
        return 0.0
    return 0.5 / math.sinh(0.5 / b) ** 2
