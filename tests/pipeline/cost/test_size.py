"""The arrays of a wide schema are of its positive cells, of which its measured numbers are a guess."""

from __future__ import annotations

import pytest

from geography.build import spine_from_prefixes
from pipeline.cost.memory import check_memory, fitting, memory_of
from pipeline.cost.size import POSITIVE, POWER, WIDE_RECORDS, Size
from pipeline.errors import InputError
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

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


def test_beyond_it_is_the_positive_ones_where_the_detail_is_measured() -> None:
    size = _size(116, 400, "detailed")
    assert size.possible == 46_400
    assert size.at_top == POSITIVE * (20 * WIDE_RECORDS) ** POWER
    # The top is alone; its family has three matrices of its cells, and one of its own for each of 20 areas.
    numbers = 3 * size.at_top**2 + 20 * (POSITIVE * WIDE_RECORDS**POWER) ** 2
    assert list(size.families) == pytest.approx([0, 4.5 * numbers])


def test_the_population_counts_where_the_spec_states_it() -> None:
    """20 leaves of 40 persons: fewer cells are positive than of 400, and no more of a leaf than it has persons."""
    sizes = []
    for ages, jobs in (116, 400), (58, 58):
        values = {"ages": [str(i) for i in range(ages)], "jobs": [str(i) for i in range(jobs)], "detail": "detailed"}
        text = SPEC.format(**values).replace("'", '"')
        stated = text.replace('rho = "1"', 'rho = "1"\npopulation = 800')
        sizes += [Size.of(parse_spec(one).universes()[0], SPINE) for one in (text, stated)]
    assert sizes[1].at_top / sizes[0].at_top == pytest.approx(0.1**POWER)
    assert sizes[3].stack <= sizes[2].stack
    assert sizes[3].filled < sizes[3].geounits * 800


def test_where_it_is_not_persons_may_be_anywhere() -> None:
    size = _size(116, 400, "job")
    assert (size.at_top, size.families) == (46_400, (0,))


def test_a_wide_schema_fits_where_a_matrix_of_all_its_cells_would_not() -> None:
    """15 bytes for each two of 46,400 cells are 32 GB."""
    assert memory_of(_spec(116, 400, "detailed"), SPINE, 1).peak_mb < 3_000


#: Values of 27 attributes, in 13 cliques of three, as in `benchmarks/bench_marginals.py --part wide`.
SIZES = (10, 6, 5, 2, 8, 4, 3, 9, 2, 7, 5, 4, 2, 12, 3, 6, 2, 5, 8, 4, 3, 2, 10, 4, 6, 3, 5)
TOGETHER = """
name = "together"
[privacy]
rho = "1"
[geography]
file = "f.csv"
column = "id"
levels = {{ state = 1, county = 2, tract = 4, group = 5, block = 7 }}
[schema.attributes]
{attributes}
[marginals]
cliques = {cliques}
[strategy.levels]
state = "1/5"
county = "1/5"
tract = "1/5"
group = "1/5"
block = "1/5"
[publish]
margins = {margins}
replicates = 3
"""


def _together(*, margins: bool) -> ReleaseSpec:
    attributes = "\n".join(f"a{one} = {[str(n) for n in range(size)]}" for one, size in enumerate(SIZES))
    cliques = [[f"a{first + n}" for n in range(3)] for first in range(0, len(SIZES) - 2, 2)]
    text = TOGETHER.format(attributes=attributes, cliques=cliques, margins=str(margins).lower())
    return parse_spec(text.replace("'", '"'))


def test_universes_that_are_estimated_together_are_all_in_memory_at_once_in_one_process() -> None:
    """What the benchmark of 25,000 blocks took: 2.3 GB, with simulated runs 4.4. The largest universe takes 0.5."""
    blocks = [f"1{c}{t:02d}{g}{b:02d}" for c in range(5) for t in range(50) for g in range(3) for b in range(33)]
    spine = spine_from_prefixes(blocks, {"state": 1, "county": 2, "tract": 4, "group": 5, "block": 7})
    assert spine.n_leaves == 24_750
    for margins, used in ((False, 2_300), (True, 4_400)):
        spec = _together(margins=margins)
        one, four = memory_of(spec, spine, 1, engine=False), memory_of(spec, spine, 4, engine=False)
        assert used < one.peak_mb < 1.5 * used
        assert one.peak_mb < four.peak_mb < one.peak_mb + 600
        # In parts there is no less: no universe is estimated in parts.
        assert memory_of(spec, spine, 1, engine=False, most_cells=1, part_cells=1) == one
    short = fitting(_together(margins=True), spine, 2, 3_000_000_000, engine=False)
    with pytest.raises(InputError, match=r"together: the run can take up to [56]\.\d GB .* 3\.0 GB are available"):
        check_memory(_together(margins=True), short)
    assert fitting(_together(margins=True), spine, 2, 7_000_000_000, engine=False).fits
