"""The size of the work of a wide schema is that of its positive cells, of which its measured numbers are a guess."""

from __future__ import annotations

from geography.build import spine_from_prefixes
from pipeline.cost.model import cost_of
from pipeline.cost.size import POSITIVE_ANSWERS, POSITIVE_SHARE, Size
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from postprocess.families.wide import WIDE

SPEC = """
name = "wide"
[privacy]
rho = "1"
[geography]
file = "f.csv"
column = "id"
levels = {{ state = 1, area = 3 }}
[schema.attributes]
age = {ages}
job = {jobs}
[strategy.levels]
state = "1/2"
area = "1/2"
[strategy.queries]
age = "1/2"
{detail} = "1/2"
[publish]
margins = false
"""
SPINE = spine_from_prefixes([f"1{i:02d}" for i in range(20)], {"state": 1, "area": 3})


def _spec(n_ages: int, n_jobs: int, detail: str) -> ReleaseSpec:
    ages, jobs = ([str(i) for i in range(n)] for n in (n_ages, n_jobs))
    return parse_spec(SPEC.format(ages=ages, jobs=jobs, detail=detail).replace("'", '"'))


def _size(n_ages: int, n_jobs: int, detail: str) -> Size:
    return Size.of(_spec(n_ages, n_jobs, detail).universes()[0], SPINE)


def test_up_to_a_limit_all_possible_cells_are_in_one_problem() -> None:
    size = _size(64, 64, "detailed")
    assert (size.possible, size.at_top, size.at_once) == (WIDE, WIDE, 0)


def test_beyond_it_is_the_positive_ones_where_the_detail_is_measured() -> None:
    size = _size(116, 400, "detailed")
    assert size.possible == 46_400
    assert size.at_top == POSITIVE_SHARE * 46_400
    # 40 persons in each of 20 areas are in 800 cells at most; all areas have the same matrix, which is there once, its
    # resolvent once, and one of them once more.
    assert size.at_once == 3 * 800**2


def test_where_it_is_not_persons_may_be_anywhere() -> None:
    size = _size(116, 400, "job")
    assert (size.at_top, size.at_once) == (46_400, 0)


def test_where_two_attributes_are_measured_together_persons_are_in_all_cells_of_their_answers() -> None:
    """The third attribute, of 3 values, is in no query with others: each answer is spread over 3 cells."""
    spec = SPEC.replace("job = {jobs}", 'job = {jobs}\nsex = ["a", "b", "c"]')
    ages, jobs = ([str(i) for i in range(n)] for n in (116, 40))
    text = spec.format(ages=ages, jobs=jobs, detail='"age * job"').replace("'", '"')
    size = Size.of(parse_spec(text).universes()[0], SPINE)
    assert size.possible == 13_920
    assert size.at_top == POSITIVE_ANSWERS * 13_920


def test_persons_in_households_are_in_one_problem_all_the_same() -> None:
    size = Size.of(_spec(116, 400, "detailed").universes()[0], SPINE, joined=True)
    assert (size.at_top, size.at_once) == (46_400, 0)


def test_a_wide_schema_fits_where_a_matrix_of_all_its_cells_would_not() -> None:
    """15 bytes for each two of 46,400 cells are 32 GB."""
    assert cost_of(_spec(116, 400, "detailed"), SPINE, 1).peak_mb < 3_000
