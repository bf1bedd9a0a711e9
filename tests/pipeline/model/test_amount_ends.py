"""An amount exactly on an end, halfway between steps, or just beyond: the value that it counts as, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.model.schema import AmountAttribute, ClippedAttribute, ListedAttribute
from pipeline.records.columns import AmountNumbers


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("-200", 0), ("-100", 0), ("-100.00", 0), ("-75.01", 0), ("-75", 1), ("-50", 1), ("0", 2), ("24.99", 2),
        ("25", 3), ("299.99", 8), ("300", 8), ("300.01", 8), ("274.99", 7), ("275", 8), ("1e9", 8),
    ],
)  # fmt: skip
def test_an_amount_counts_as_the_nearest_step_and_halfway_as_the_upper_one(text: str, number: int) -> None:
    grid = AmountAttribute.of("wages", Fraction(-100), Fraction(300), Fraction(50))
    assert len(grid.values) == 9
    assert AmountNumbers(grid)[text] == number


@pytest.mark.parametrize(
    ("text", "side"),
    [("-100.01", "below"), ("-100", "within"), ("-99.99", "within"), ("300", "within"), ("300.01", "above")],
)
def test_an_amount_on_an_end_is_within_it(text: str, side: str) -> None:
    clipped = ClippedAttribute.of("wages_clipped", Fraction(-100), Fraction(300))
    assert clipped.values[AmountNumbers(clipped)[text]] == side


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("0", "20000"), ("19999.99", "20000"), ("20000", "20000"), ("20000.00", "20000"), ("20000.01", "40000"),
        ("40000", "40000"), ("40000.01", "60000"), ("60000", "60000"), ("60000.01", "60000"), ("1e9", "60000"),
    ],
)  # fmt: skip
def test_an_amount_on_a_listed_end_is_cut_off_by_that_end(text: str, end: str) -> None:
    """At the end that it is: counted at the next one, a clip with t above would be one that t - 1 are above."""
    ends = ListedAttribute.of("wages_ends", [Fraction(20_000), Fraction(40_000), Fraction(60_000)])
    assert ends.values[AmountNumbers(ends)[text]] == end


def test_a_record_without_an_amount_counts_as_what_is_missing() -> None:
    ends = ListedAttribute.of("wages_ends", [Fraction(1), Fraction(2)], Fraction(1))
    assert AmountNumbers(ends)[""] == 0
    grid = AmountAttribute.of("wages", Fraction(0), Fraction(2), Fraction(1), Fraction(2))
    assert AmountNumbers(grid)[""] == 2
