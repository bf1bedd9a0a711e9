"""A table is left out where nothing measured determines one of its numbers, unless the spec names its levels."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import DETAIL_IN_COUNTIES, write_town

from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec

_TOPDOWN = ("[publish]", '[postprocess]\nestimator = "topdown"\n\n[publish]')


def opened(folder: Path, *changes: tuple[str, str]) -> PublicSide:
    spec = load_spec(write_town(folder, *changes))
    return open_listed(spec, spec.universes())


def levels(side: PublicSide) -> dict[str, tuple[str, ...]]:
    return {table.name: table.levels for table in side.universes[0].tables}


def test_what_nothing_determines_is_left_out(tmp_path: Path) -> None:
    """The detail below counties; `sex` names its levels, and stays without margins; another spec reads the same."""
    side = opened(tmp_path, DETAIL_IN_COUNTIES)
    every = ("county", "tract", "block")
    assert levels(side) == {"total": every, "sex": ("county", "tract"), "detail": ("county",)}
    assert [line.split(":")[0] for line in side.remarks] == ["tables.sex", "tables.detail", "tables.detail"]
    assert "published without margins" in side.remarks[0]
    assert "the numbers of level 'tract' are divided in proportion to what is measured" not in side.remarks[0]
    assert "the numbers of level 'county' are divided in proportion to what is measured" in side.remarks[0]
    assert all("left out" in line for line in side.remarks[1:])
    again = ReleaseSpec.from_public_dict(side.spec.public_dict())
    assert {table.name: table.levels for table in again.universes()[0].tables} == levels(side)


@pytest.mark.parametrize(("estimator", "expected"), [("full", ("county", "tract", "block")), ("topdown", ("block",))])
def test_the_estimator_decides_what_is_used(tmp_path: Path, estimator: str, expected: tuple[str, ...]) -> None:
    """Detail measured in blocks alone: the full estimator adds it up, the other looks at each level by itself."""
    detail_below = (
        DETAIL_IN_COUNTIES[0],
        'county = { share = "1/4", queries = { total = "1" } }\ntract = { share = "1/4", queries = { total = "1" } }\n'
        'block = "1/2"\n\n[invariants]',
    )
    side = opened(tmp_path, detail_below, *([_TOPDOWN] if estimator == "topdown" else []))
    assert levels(side)["detail"] == expected
