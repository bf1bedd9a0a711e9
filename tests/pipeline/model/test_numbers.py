"""Amounts on an end, and whole numbers that are looked up by ranges: against what is written out one by one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.model.number_ranges import FileNumbers, expand_numbers, number_range, ranges_at_odds
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import AmountAttribute, ListedAttribute
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


NAMES = {"low": 0, "high": 1, "7": 2, "009": 3}
ENDS = st.integers(0, 40)
RANGES = st.tuples(ENDS, ENDS).map(lambda ends: f"{min(ends)}..{max(ends)}")
#: Pieces of texts that look like ranges, and of some that only have dots.
PIECES = st.lists(st.sampled_from(["0", "4", "09", "17", "-", "+", ".", "..", " ", "a", "9" * 15, ","]), max_size=6)
STATED = st.dictionaries(RANGES | ENDS.map(str) | st.sampled_from(["", "x"]), st.integers(0, 3), max_size=6)


@given(STATED)
def test_a_number_has_the_value_that_it_has_where_ranges_are_written_out(stated: dict[str, int]) -> None:
    found = FileNumbers(NAMES, stated)
    written = NAMES | {
        text: int(value) for text, value in expand_numbers({k: str(v) for k, v in stated.items()}).items()
    }
    for text in [*map(str, range(45)), *NAMES, "", "x", "1.5", *stated]:
        assert found.get(text) == written.get(text), text


@given(STATED)
def test_whatever_a_file_says_has_a_place_of_its_own(stated: dict[str, int]) -> None:
    found = FileNumbers(NAMES, stated)
    said = [text for text in dict.fromkeys([*map(str, range(45)), *NAMES, *stated]) if text in found]
    places = [found.place(text) for text in said]
    assert len(set(places)) == len(places)
    assert all(0 <= place < found.n_found for place in places)


def test_ends_may_be_far_apart_or_below_zero_and_numbers_written_otherwise() -> None:
    found = FileNumbers({}, {"-5000..-1": 0, "0..0": 1, "1..999999999999": 2})
    expected = {"-5000": 0, "-1": 0, "0": 1, "1": 2, "999999999999": 2, "1200.0": 2, "0047": 2, "+3": 2, "-0": 1}
    assert {text: found[text] for text in expected} == expected
    for text in ("-5001", "1000000000000", "1.5", "1e3", "", "one", "9" * 19, "1 000"):
        assert text not in found
    assert found.n_found == 3 + 5000 + 1 + 999_999_999_999
    assert found.place("0047") == found.place("47") != found.place("48")


@given(PIECES.map("".join))
def test_a_text_is_a_range_or_refused_or_looked_up_and_never_ignored(text: str) -> None:
    """Judged by hand: both sides of the first two dots whole numbers, or one of them written like one."""
    first, dots, last = text.partition("..")
    sides = [side.strip() for side in (first, last)]
    like = bool(dots) and "a" not in text and any(sign.isdigit() for sign in text)
    whole = [side.lstrip("+-").isdigit() and len(side) - len(side.lstrip("+-")) <= 1 for side in sides]
    try:
        found = number_range(text)
    except InputError:
        too_long = any(len(side.lstrip("+-").lstrip("0")) > 15 for side in sides)
        assert like
        assert not all(whole) or too_long or int(sides[0]) > int(sides[1])
        return
    assert (found is not None) == like
    if found is not None:
        assert (found.first, found.last) == tuple(map(int, sides))
        assert found.size > 0


@given(STATED)
def test_ranges_at_odds_are_those_in_which_a_number_would_have_two_values(stated: dict[str, int]) -> None:
    ranges = [(number_range(text), value) for text, value in stated.items()]
    means = [{value for one, value in ranges if one is not None and one.first <= n <= one.last} for n in range(41)]
    found = ranges_at_odds(stated)
    assert (found is not None) == any(len(values) > 1 for values in means)
    if found is not None:
        first, second, number = found
        assert stated[first] != stated[second]
        assert len(means[number]) > 1


def test_a_reading_is_that_of_its_numbers_and_a_long_range_is_itself() -> None:
    """Noise of answers is bound to it: short ranges are the numbers that they have always been."""

    def reading(**values: str) -> object:
        source = RecordSource(file="x.csv", form="microdata", geocode="b", values={"age": {**values}})  # type: ignore[arg-type]
        return source.reading(["age"])

    assert reading(**{"0..2": "a"}) == reading(**{"0..2": "a", "0": "a", "1": "a", "2": "a"})
    assert "('0..20000', 'a')" in str(reading(**{"0..20000": "a"}))
