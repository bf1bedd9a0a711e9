"""A spine of some areas of a list: what is kept, what is refused, and what is remembered of the rest."""

from __future__ import annotations

import numpy as np
import pytest

from geography.build import spine_from_prefixes, spine_within
from geography.errors import SpineError
from geography.spine import LeftOut

LEAVES = ["1101", "1102", "1201", "2101", "2201", "2202", "3101"]
WHOLE = spine_from_prefixes(LEAVES, {"state": 1, "county": 2, "block": 4})


def test_it_is_the_spine_of_the_leaves_in_the_areas() -> None:
    found = spine_within(WHOLE, {"state": ["3"], "county": ["21", "22"]})
    expected = spine_from_prefixes(LEAVES[3:], {"state": 1, "county": 2, "block": 4})
    assert found.fingerprint() == expected.fingerprint()
    assert found.left_out is not None
    assert found.left_out.codes is not None
    assert [codes.tolist() for codes in found.left_out.codes] == [["1"], ["11", "12"], LEAVES[:3]]


def test_the_codes_left_out_are_told_from_those_that_are_unknown() -> None:
    left_out = spine_within(WHOLE, {"state": ["2"]}).down_to("county").left_out
    assert left_out is not None
    assert left_out.has(1, np.array(["11", "31", "99", ""])).tolist() == [True, True, False, False]
    assert LeftOut().has(1, np.array(["99", ""])).tolist() == [True, False]  # nothing more is known of a release


@pytest.mark.parametrize(
    ("areas", "message"),
    [
        ({"state": ["2", "9"]}, "within.state: the list has no state '9'; it has 3: '1', '2', '3'"),
        ({"county": ["11"]}, "within: 1 geounit of level 'state' would be left in part: '1'; name all areas below it"),
        ({"region": ["1"]}, "level 'region' is not in the spine"),
    ],
)
def test_what_is_refused(areas: dict[str, list[str]], message: str) -> None:
    with pytest.raises(SpineError) as error:
        spine_within(WHOLE, areas)
    assert message in str(error.value)
