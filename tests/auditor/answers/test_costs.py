"""The second program on answers: sensitivities against all pairs of neighbours; every field is bound."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from releases.asked import UNITS, ask, ledger_of, write_workers

from auditor.answers.audit import FORM_ALONE, NOT_HERE, audit_answer
from auditor.answers.costs import _moved_record, _moved_total, least_reach, moved_losses
from auditor.answers.draws import losses
from auditor.keys import read_key
from auditor.mechanisms import law_of
from auditor.reading.findings import FormError
from pipeline.privacy.noise import mechanisms

MOVED = {"change-one": 2, "add-remove": 1}


def asked(neighbours: str, quantile: str = "1/2", *, zcdp: bool = True) -> Any:
    return SimpleNamespace(moved=MOVED[neighbours], quantile=Fraction(quantile), together=1, zcdp=zcdp)


def pairs(neighbours: str, records: list[Any]) -> Iterator[tuple[Any, Any]]:
    """A record, or none, before and after."""
    if neighbours == "add-remove":
        yield from ((None, one) for one in records)
    else:
        yield from itertools.combinations(records, 2)


@pytest.mark.parametrize("neighbours", MOVED)
@pytest.mark.parametrize(("low", "high"), [(0, 5), (-3, 3), (-5, 1), (2, 6), (1, 1), (-4, -2)])
def test_what_a_record_moves_is_the_most_of_all_pairs(neighbours: str, low: int, high: int) -> None:
    l1 = l2 = 0
    records = [(at, value) for at in range(2) for value in range(low, high + 1)]
    for before, after in pairs(neighbours, records):
        moved: Counter[int] = Counter()
        for sign, record in ((-1, before), (1, after)):
            if record is not None:
                moved[record[0]] += sign * record[1]
        l1, l2 = max(l1, sum(map(abs, moved.values()))), max(l2, sum(x * x for x in moved.values()))
    assert _moved_record(asked(neighbours), low, high) == (l1, l2)
    reach = least_reach(MOVED[neighbours], l1, l2)
    assert MOVED[neighbours] * reach >= l1
    assert MOVED[neighbours] * reach**2 >= l2
    assert MOVED[neighbours] * (reach - 1) < l1 or MOVED[neighbours] * (reach - 1) ** 2 < l2


@pytest.mark.parametrize("neighbours", MOVED)
def test_what_a_unit_moves_in_total_is_no_less_than_any_pair(neighbours: str) -> None:
    low, high = -2, 3
    units = [
        one for one in itertools.product(range(-2, 4), repeat=3)
        if sum(max(x, 0) for x in one) <= high and sum(min(x, 0) for x in one) >= low
    ]  # fmt: skip
    zero = (0, 0, 0)
    every = ((zero, one) for one in units) if neighbours == "add-remove" else itertools.combinations(units, 2)
    moves = [[a - b for a, b in zip(one, other, strict=True)] for one, other in every]
    l1, l2 = _moved_total(asked(neighbours), low, high)
    assert max(sum(map(abs, move)) for move in moves) == l1
    assert max(sum(x * x for x in move) for move in moves) <= l2


@pytest.mark.parametrize("neighbours", MOVED)
@pytest.mark.parametrize("zcdp", [True, False])
@pytest.mark.parametrize("quantile", ["1/2", "1/4", "3/4", "2/5", "0", "1"])
@pytest.mark.parametrize("ties", [0, 1, 2])
def test_losses_move_by_no_more_than_is_paid_for(quantile: str, ties: int, neighbours: str, zcdp: bool) -> None:
    """All histograms of two groups with three candidates and up to three records each, and all their neighbours."""
    question = asked(neighbours, quantile, zcdp=zcdp)
    part = {"times": 1, "ties": 0 if quantile in ("0", "1") else ties, "beyond": 1}
    histograms = list(itertools.product(range(4), repeat=3))
    found = {one: losses(part, question.quantile, one) for one in itertools.product(range(5), repeat=3)}

    def moved(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        return max(abs(x - y) for x, y in zip(found[one], found[other], strict=True))

    def more(one: tuple[int, ...], at: int) -> tuple[int, ...]:
        return tuple(count + (number == at) for number, count in enumerate(one))

    apart = max(moved(one, more(one, at)) for one in histograms for at in range(3))
    within = max(
        moved(more(one, a), more(one, b)) for one in histograms for a, b in itertools.combinations(range(3), 2)
    )
    power = 2 if zcdp else 1
    dearest = apart**power if neighbours == "add-remove" else max(2 * apart**power, within**power)
    assert dearest <= moved_losses(question)
    assert 4 * dearest > moved_losses(question)


@pytest.mark.parametrize("scale", ["1/3", "1", "8", "333/7", "2500", "12345"])
def test_half_widths_are_those_of_the_first_program(scale: str) -> None:
    for mechanism in ("discrete_gaussian", "discrete_laplace"):
        spec = mechanisms.NOISES[mechanism](Fraction(scale))
        assert law_of(mechanism).half_width(float(Fraction(scale))) == spec.half_width()


SMALL = ('between = ["0", "60000"]\nunit = "100"', 'between = ["0", "60000"]\nunit = "10000"')
QUESTIONS = ("count by county having count >= 3", "mean wages by sex", "quantile 1/4 wages", "count units by county")
#: Where the ledger has the charge: only it knows, see `ledger verify` and the audit with --ledger.
FREE = {f"receipts.0.{name}" for name in ("ledger", "number", "hash")}


def wrong(root: Path) -> list[str]:
    """What the second program says of an answer; a form that it refuses is said too."""
    try:
        found = list(audit_answer(root, read_key(root / "restricted" / "key")[0], insecure=True, ledger=None))
    except FormError as error:
        return [str(error)]
    return [f"{one.check}: {one.detail}" for one in found if not one.passed]


def changes(content: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """Each leaf of JSON with another value in its place, as the whole content."""
    if isinstance(content, dict | list):
        for key, value in content.items() if isinstance(content, dict) else enumerate(content):
            for place, other in changes(value, f"{at}.{key}" if at else str(key)):
                whole = content.copy()
                whole[key] = other
                yield place, whole
        return
    others: dict[type, Any] = {bool: not content, int: (content or 0) + 1 if isinstance(content, int) else 1}
    if isinstance(content, str):
        if at.split(".")[0] not in FORM_ALONE:
            yield at, "5" if content != "5" else "7"
        yield at, f"{content}x" if at != "release" else f"{content} x"
        yield at, f"{content}+There are 80 men"
    elif content is None:
        yield at, 3
    else:
        yield at, others[type(content)]


@pytest.mark.parametrize(
    ("text", "of"), [(QUESTIONS[1], 4), *(pytest.param(text, 1, marks=pytest.mark.slow) for text in QUESTIONS)]
)
def test_a_change_of_any_field_is_found(text: str, of: int, tmp_path: Path) -> None:
    """One in `of` changes is tried."""
    with ledger_of(tmp_path, budget="100"):
        copy = ask(write_workers(tmp_path, UNITS, SMALL, n=60), text, "1/4")
    assert wrong(copy) == []
    missed, tried = [], 0
    for place in ("restricted/question.json", "public/answer.json"):
        sound = json.loads((copy / place).read_bytes())
        free = set(NOT_HERE) if place.startswith("public") else set()
        for at, changed in changes(sound):
            if at.split(".")[0] in free or at in FREE:
                continue
            if (".group." in at or ".keep." in at) and at.split(".")[-1] != "0":
                continue  # one of each list
            (copy / place).write_text(json.dumps(changed), "utf-8")
            tried += 1
            if tried % of == 0 and not wrong(copy):
                missed.append(at)
        (copy / place).write_text(json.dumps(sound), "utf-8")
    assert missed == []
    assert tried > 60
