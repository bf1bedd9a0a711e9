"""Of several reports of a respondent each row has the same chance, whatever their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from features.local.confidential import Deduplicator

KEY = b"a key of the tests, thirty-two b"
Drawing = Callable[[str, Sequence[tuple[str, ...]]], tuple[str, ...]]


def drawn(who: str, sent: Sequence[tuple[str, ...]], key: bytes = KEY) -> tuple[str, ...]:
    """The report that is used."""
    drawing = Deduplicator(key)
    for row, one in enumerate(sent):
        assert drawing.add(who, one) == (row == 0)
    exchanged = drawing.exchanged()
    return exchanged[0][1] if exchanged else sent[0]


def greatest(_: str, sent: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """A fault: the choice follows the reports."""
    return max(sent)


def among_different(who: str, sent: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """A fault: a report that is repeated has no more chances than another."""
    return drawn(who, sorted(set(sent)))


def p_value(draw: Drawing) -> float:
    """Whether 3,000 respondents with three reports of their own keep the probabilities of the mechanism."""
    rng = np.random.default_rng(5)
    shares = np.array([0.7, 0.2, 0.1])
    sent = rng.choice(3, (3000, 3), p=shares)
    kept = [int(draw(f"p{n}", [("A1", str(value)) for value in row])[1]) for n, row in enumerate(sent)]
    return float(chisquare(np.bincount(kept, minlength=3), 3000 * shares).pvalue)


def test_what_is_used_has_the_probabilities_of_one_report() -> None:
    assert p_value(drawn) > 0.01


@pytest.mark.parametrize("fault", [greatest, among_different])
def test_a_choice_that_follows_the_reports_is_seen(fault: Drawing) -> None:
    assert p_value(fault) < 1e-6


def test_every_row_has_the_same_chance_over_keys() -> None:
    sent: list[tuple[str, ...]] = [("A1", "0"), ("A1", "0"), ("A2", "0"), ("A1", "1")]
    kept = [sent.index(drawn("somebody", sent, number.to_bytes(16, "big"))) for number in range(2000)]
    assert chisquare(np.bincount(kept, minlength=4)[[0, 2, 3]], [1000, 500, 500]).pvalue > 0.01


def test_the_order_does_not_matter() -> None:
    sent: list[tuple[str, ...]] = [("A1", "0"), ("A1", "0"), ("A2", "0"), ("A1", "1")]
    for who in ("ann", "ben", "cem"):
        assert len({drawn(who, list(order)) for order in permutations(sent)}) == 1
    assert len({drawn(f"p{number}", sent) for number in range(30)}) == 3
    # Parts are not run together: what one respondent sent is not what another did.
    assert Deduplicator(KEY)._number("a", "bc") != Deduplicator(KEY)._number("ab", "c")
