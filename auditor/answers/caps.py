"""Whether no unit is counted more often, or for more, than is paid for; by the records that restricted/ keeps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from auditor.answers.costs import ends_of, numbers_of_unit
from auditor.answers.kept import Answer
from auditor.reading.errors import FormError


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


def _as_they_are(
    answer: Answer, record: NDArray[np.int64], counted: NDArray[np.int64], unit: NDArray[np.int64]
) -> Iterator[str]:
    """Whether records count as what they are, but for amounts taken down and the number of a unit's records."""
    if answer.by_records:
        size = len(answer.axes[-1].values)
        if (counted // size != record).any():
            yield "records are counted as others than they are"
        spread = np.ones(len(unit), dtype=bool)
        order = np.lexsort((counted % size, unit))
        same = unit[order][1:] == unit[order][:-1]
        spread[1:] = ~same | ((counted % size)[order][1:] == (counted % size)[order][:-1])
        if not spread.all():
            yield "a unit is counted with several numbers of its records"
        return
    if answer.of_total and answer.amount is not None:
        step = int(np.prod(answer.shape[answer.amount + 1 :], dtype=np.int64))
        size = answer.shape[answer.amount]
        before, after = (keys // step % size for keys in (record, counted))
        if (record - before * step != counted - after * step).any():
            yield "records are counted as others than they are"
        lower, upper = (values + answer.first for values in (before, after))
        if (np.abs(upper) > np.abs(lower)).any() or (np.sign(upper) * np.sign(lower) < 0).any():
            yield "amounts are counted as larger than they are"
        return
    if (record != counted).any():
        yield "records are counted as others than they are"


def _numbers(
    answer: Answer, unit: NDArray[np.int64], at: NDArray[np.int64], holding: NDArray[np.bool_]
) -> Iterator[str]:
    most = min(answer.together, numbers_of_unit(answer))
    unit, at = unit[holding], at[holding]
    _, times = np.unique(np.stack([unit, at]), axis=1, return_counts=True)
    if (times > 1).any():
        yield f"{int((times > 1).sum())} times a unit is counted twice in one number"
    several = np.bincount(unit, minlength=1)
    if several.max(initial=0) > most:
        yield f"{int((several > most).sum())} units are counted in more than {most} numbers"


def _within(answer: Answer, unit: NDArray[np.int64], value: NDArray[np.int64]) -> Iterator[str]:
    low, high, _ = ends_of(answer)
    amounts = value + answer.first
    for sign, most in ((1, high), (-1, -low)):
        totals = np.zeros(int(unit.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(totals, unit, np.maximum(sign * amounts, 0))
        if (totals > most).any():
            side = "above" if sign > 0 else "below"
            yield f"{int((totals > most).sum())} units have more than {most} units of the amount {side} 0"
