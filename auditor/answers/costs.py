"""How far a person moves the numbers of a question, what that costs, and whether answer.json says so.

Sensitivities are found here from what a record can be, for all pairs of neighbours at once:

- a record adds a whole number from `low` to `high` to one number; add-remove moves that by A = max(|low|, |high|), a
  change in another number two by A each, within its own one by high - low; k records of one person k times as far;
- all records of a unit together add to all numbers at most `high` above 0 and `-low` below: a change moves L1 and L2 as
  if two numbers moved by high - low each;
- a unit that is counted is in n numbers by 1 each, before and after;
- of a rank a / b the losses move by max(a, b - a) at most in each group that a record leaves or enters, by b where it
  moves within one; a loss that can move up and down by c costs what a score of sensitivity c does;
- a record in a window moves numbers by the weights of the filter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from auditor.answers.kept import Answer
from auditor.mechanisms import NOISE
from auditor.reading.findings import FormError
from auditor.reading.values import BoolArray, IntArray, sums

#: Of windows under zcdp, and under pure budgets.
FILTERS: Final = {True: (8, 4, 3, 2, 2, 1, 1, 1), False: (1,)}
#: Parts that are chosen.
CHOSEN: Final = ("quantile", "clip")
#: Of the budget, for a choice.
_CHOICE: Final = {True: Fraction(7, 8), False: Fraction(15, 16)}
#: A choice may cost a little less than its share, since a root is no fraction.
_LESS: Final = Fraction(999, 1000)


@dataclass(frozen=True)
class DuePart:
    """A part as it has to be.

    Attributes:
        content: as the fingerprints have it.
        share: of the budget; exact, but of a choice the most that it may cost.
        mechanism: that it is drawn with; `count`: how many numbers it has.
        times: what its charge states beside how far a number moves.
    """

    content: list[Any]
    reach: int
    share: Fraction
    mechanism: str
    count: int
    times: dict[str, int]

    @property
    def name(self) -> str:
        """What its numbers are."""
        return str(self.content[0])

    @property
    def choice(self) -> bool:
        """Whether it is chosen."""
        return self.name in CHOSEN


def due_parts(answer: Answer) -> list[DuePart]:
    """All that the statistic is made of, with the sensitivities of this program."""
    budget, k, n = answer.budget, answer.together, answer.n_numbers
    records, noise = {"records": k}, NOISE[answer.zcdp]
    if answer.ranked:
        name, share = "clip" if answer.statistic == "clip" else "quantile", _CHOICE[answer.zcdp]
        choice = "exponential" if answer.zcdp else "permute_and_flip"
        around = FILTERS[answer.zcdp]
        # Two windows that share no number: the most that a change moves.
        reach = math.isqrt(sum(one * one for one in around)) if answer.zcdp else 1
        numbers = n * (n_windows(len(answer.candidates)) + len(around) - 1)
        content = [name, str(answer.quantile), len(answer.candidates), answer.lowest, "windows 2"]
        return [
            DuePart(content, 0, budget * share, choice, n, records),
            DuePart(["windows"], reach, budget * (1 - share), noise, numbers, records),
        ]
    names = {"sum": ["sum"], "mean": ["sum", "count"]}.get(answer.statistic, ["count"])
    share = budget / len(names)
    found = []
    for name in names:
        if name == "count" and answer.of_units:
            times = {"numbers": min(k, numbers_of_unit(answer))}
            found.append(DuePart([name, 1, 1, 0, "unit"], 1, share, noise, n, times))
            continue
        low, high, centre = (1, 1, 0) if name == "count" else ends_of(answer)
        total = name == "sum" and answer.of_total
        reach = least_reach(answer.moved, *(_moved_total if total else _moved_record)(answer, low, high))
        content = [name, low, high, centre, *(["total"] if total else [])]
        found.append(DuePart(content, reach, share, noise, n, {} if total else records))
    return found


def ends_of(answer: Answer) -> tuple[int, int, int]:
    """What a record adds to a sum, at least and at most, and what is taken off each amount."""
    first = answer.first
    last = first + len(answer.amounts.values) - 1
    centre = (first + last) // 2 if answer.statistic == "mean" and not answer.of_total else 0
    return first - centre, last - centre, centre


def numbers_of_unit(answer: Answer) -> int:
    """In how many numbers a unit could be, if it had enough records: it has one number of records everywhere."""
    sizes = [len(answer.axes[n].labels) for n in answer.order if not (answer.by_records and n == len(answer.axes) - 1)]
    return len(answer.places[0]) * math.prod(sizes)


def _moved_record(answer: Answer, low: int, high: int) -> tuple[int, int]:
    """L1 and L2 squared of what one record's change moves."""
    most, within = max(abs(low), abs(high)), high - low
    if answer.moved == 1:
        return most, most**2
    return max(2 * most, within), max(2 * most**2, within**2)


def _moved_total(answer: Answer, low: int, high: int) -> tuple[int, int]:
    return answer.moved * (high - low), answer.moved * (high - low) ** 2


def least_reach(moved: int, l1: int, l2: int) -> int:
    """The least whole R with moved R >= l1 and moved R^2 >= l2."""
    found = max(-(-l1 // moved), math.isqrt(l2 // moved))
    while moved * found**2 < l2:
        found += 1
    return found


def moved_losses(answer: Answer) -> Fraction:
    """Of losses taken once: the sum over groups of squares (zcdp), or the sum, for all records of a person."""
    a, b, k = answer.quantile.numerator, answer.quantile.denominator, answer.together
    apart = max(a, b - a)
    if answer.zcdp:
        return Fraction((apart**2 if answer.moved == 1 else max(2 * apart**2, b**2)) * k**2)
    return Fraction((apart if answer.moved == 1 else max(2 * apart, b)) * k)


def n_windows(candidates: int) -> int:
    """Around a number on a grid of so many."""
    away, found = 2, 2
    while away < candidates:
        away, found = 2 * away, found + 2
    return found


def cost_problems(answer: Answer) -> list[str]:
    """What is wrong with the parts that answer.json states: sensitivity, mechanism, scale and cost of each."""
    dues, problems = due_parts(answer), []
    if [due.name for due in dues] != [str(part["name"]) for part in answer.stated["parts"]]:
        return [f"a {answer.statistic} is made of {', '.join(due.name for due in dues)}; other parts are stated"]
    if [due.content for due in dues if due.name != "windows"] != answer.content:
        problems.append("the parts of the question are not those of its statistic, amount and units")
    for due in dues:
        part = answer.parts[due.name]
        right = _choice(answer, due, Fraction(part["scale"])) if due.choice else _noise(answer, due)
        problems += [f"the {name} of the {due.name} is {one}, {part[name]} is stated" for name, one in right.items()
                     if part[name] != one]  # fmt: skip
        if due.choice:
            scale, stated = Fraction(part["scale"]) * part["times"], Fraction(part["budget"])
            costs = moved_losses(answer) * (scale**2 / 8 if answer.zcdp else scale)
            if not max(costs, due.share * _LESS) <= stated <= due.share:
                problems.append(f"the {due.name} costs {_shown(costs)}, its share is {_shown(due.share)}, "
                                f"{_shown(stated)} is stated")  # fmt: skip
    return problems


def _noise(answer: Answer, due: DuePart) -> dict[str, Any]:
    """What has to be stated of noise, whose scale is that of so many numbers moved by R each."""
    numbers, far = due.times.get("numbers", 1), due.reach * due.times.get("records", 1)
    moved = answer.moved * numbers
    return {
        "mechanism": due.mechanism,
        "scale": str(moved * far**2 / (2 * due.share) if answer.zcdp else moved * far / due.share),
        "budget": str(due.share),
        "reach": due.reach,
        "centre": 0 if due.name == "windows" else due.content[3],
        "numbers": numbers,
        **{"times": 1, "ties": 0, "beyond": 0},
    }


def _choice(answer: Answer, due: DuePart, scale: Fraction) -> dict[str, Any]:
    """What has to be stated of a choice with this scale.

    R of the losses is told to the ledger: m (e R k)^2 / 8, or m e R k, is what it charges. Where R is a root, losses
    are taken 70 times.
    """
    a, b = answer.quantile.numerator, answer.quantile.denominator
    apart = max(a, b - a)
    finer = answer.zcdp and answer.moved == 2 and 2 * apart**2 < b**2
    times = 70 if finer else 1
    reach = least_reach(answer.moved, 0, (times * b) ** 2) if finer else apart
    told = scale * reach * answer.together
    ties, beyond = ranks_of(answer, due, scale * times)
    return {
        "mechanism": due.mechanism,
        "budget": str(answer.moved * (told**2 / 8 if answer.zcdp else told)),
        "reach": reach,
        **{"centre": 0, "numbers": 1, "times": times, "ties": ties, "beyond": beyond},
    }


def ranks_of(answer: Answer, due: DuePart, scale: Fraction) -> tuple[int, int]:
    """Records of one step of which the middle is taken; and how many are beyond a maximum, minimum or clip.

    The latter is the least t with which all k - 1 others together are chosen in one of ten cases at most, by the
    exponential mechanism (k - 1) exp(-e t / 2), by permute-and-flip half of that; unless the question names it.
    """
    number = answer.number
    if answer.quantile not in (0, 1):
        return 0 if due.name == "clip" else math.ceil(6 / (scale * answer.quantile.denominator)), 0
    if due.name == "clip" and number is not None:
        return 0, int(number)
    chance = 0.1 if answer.zcdp else 0.2
    return 0, math.ceil(2 * math.log((len(answer.candidates) - 1) / chance) / float(scale) + 1e-9)


def _shown(amount: Fraction) -> str:
    return str(amount) if amount.denominator < 10**6 else f"{float(amount):.6g}"


def cap_problems(answer: Answer) -> Iterator[str]:
    """What is wrong with what is counted of units; nothing where records have none."""
    units = answer.units
    if units is None:
        return
    stated = answer.question["reading"][7] or 1
    if stated != answer.together:
        yield f"of a unit {stated} records are counted, and {answer.together} are paid for"
    if any((column < low).any() for column, low in ((units.unit, 0), (units.record, 0), (units.counted, -1))):
        raise FormError(f"{answer.restricted / 'units.parquet'}: holds numbers below 0")
    inside = units.counted >= 0
    unit, counted = units.unit[inside], units.counted[inside]
    cells, times = np.unique(counted, return_counts=True)
    counts = answer.counts
    if not np.array_equal(cells, counts.keys) or not np.array_equal(times, counts.counts):
        yield "the records that are counted of units are not those that the numbers were made of"
        return
    leaf, cell = np.divmod(counted, answer.n_cells)
    holding, at, value = answer.placed(leaf, cell)
    yield from _as_they_are(answer, units.record[inside], counted, unit)
    several = np.bincount(unit, minlength=1)
    if answer.of_units:
        yield from _numbers(answer, unit, at, holding)
    elif not answer.of_total or answer.statistic == "mean":
        if several.max(initial=0) > answer.together:
            yield f"{int((several > answer.together).sum())} units have more than {answer.together} records counted"
        have = np.bincount(units.unit, minlength=len(several))
        if not answer.of_total and (several[:] < np.minimum(have, answer.together)[: len(several)]).any():
            yield "of some units fewer records are counted than they have and may"
    if answer.of_total:
        yield from _within(answer, unit, value)


def _as_they_are(answer: Answer, record: IntArray, counted: IntArray, unit: IntArray) -> Iterator[str]:
    """Whether records count as what they are, but for amounts taken down and the number of a unit's records."""
    own = len(answer.axes) - answer.by_records
    before = np.unravel_index(record, (answer.n_leaves, *answer.shape[:own]))
    after = np.unravel_index(counted, (answer.n_leaves, *answer.shape))
    down = 1 + answer.amount if answer.of_total and answer.amount is not None else -1
    if any((one != other).any() for n, (one, other) in enumerate(zip(before, after, strict=False)) if n != down):
        yield "records are counted as others than they are"
    if down > 0:
        lower, upper = (codes[down] + answer.first for codes in (before, after))
        if (np.abs(upper) > np.abs(lower)).any() or (np.sign(upper) * np.sign(lower) < 0).any():
            yield "amounts are counted as larger than they are"
    if answer.by_records and len(set(zip(unit.tolist(), after[-1].tolist(), strict=True))) > len(np.unique(unit)):
        yield "a unit is counted with several numbers of its records"


def _numbers(answer: Answer, unit: IntArray, at: IntArray, holding: BoolArray) -> Iterator[str]:
    most = min(answer.together, numbers_of_unit(answer))
    unit, at = unit[holding], at[holding]
    _, times = np.unique(np.stack([unit, at]), axis=1, return_counts=True)
    if (times > 1).any():
        yield f"{int((times > 1).sum())} times a unit is counted twice in one number"
    several = np.bincount(unit, minlength=1)
    if several.max(initial=0) > most:
        yield f"{int((several > most).sum())} units are counted in more than {most} numbers"


def _within(answer: Answer, unit: IntArray, value: IntArray) -> Iterator[str]:
    low, high, _ = ends_of(answer)
    amounts = value + answer.first
    for sign, most in ((1, high), (-1, -low)):
        totals = sums(int(unit.max(initial=-1)) + 1, unit, np.maximum(sign * amounts, 0))
        if (totals > most).any():
            side = "above" if sign > 0 else "below"
            yield f"{int((totals > most).sum())} units have more than {most} units of the amount {side} 0"
