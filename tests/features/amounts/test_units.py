"""Amounts of units with several records: which records are summed, and how much of each, as by hand."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from releases.jobs import BLOCKS, JOBS, SORTS, Job, jobs, write_jobs
from releases.wages import BALANCES, write_wages

from features.amounts.means import means_of
from pipeline.inputs.geography import read_spine
from pipeline.model.schema import AmountAttribute
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.records.units import tabulate_units
from pipeline.release.tables import ReleasedTable
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def tabulated(spec: Path, universe: Universe, secret: str = "1") -> NDArray[np.int64]:
    """What is counted or summed of each block and cell, as the run does it."""
    loaded = load_spec(spec)
    own, *others = loaded.universes()
    key = MasterKey.from_text(f"insecure-test:{secret}")
    amounts = tuple(amount for each in others for amount in each.measure.amounts)
    counts, _ = tabulate_units(
        universe.require_input(), universe.schema, read_spine(loaded.geography),
        lambda data: key.keyed_hash("unit/", data).encode(), whole=own.schema, amounts=amounts,
    )  # fmt: skip
    return counts.toarray()


def by_hand(rows: list[Job], high: int) -> list[list[int]]:
    """Tens by block and sort, of persons all of whose jobs are counted: fractions first, then the largest parts."""
    sums: dict[tuple[str, str], int] = defaultdict(int)
    for person in {row[0] for row in rows}:
        own = [row for row in rows if row[0] == person]
        wages = [min(row[4], high) for row in own]
        shares = [Fraction(wage * min(high, sum(wages)), sum(wages)) for wage in wages]
        whole = [int(share) for share in shares]
        lacking = min(high, sum(wages)) - sum(whole)
        for wage in sorted(set(wages), key=lambda one: (Fraction(one * high, sum(wages)) % 1, one), reverse=True):
            same = [i for i, other in enumerate(wages) if other == wage and shares[i] != whole[i]]
            if same and len(same) <= lacking:
                lacking -= len(same)
                for i in same:
                    whole[i] += 1
        for row, units in zip(own, whole, strict=True):
            sums[row[1], row[3]] += units
    return [[sums[block, sort] for sort in SORTS] for block in BLOCKS]


def test_sums_are_of_totals_within_their_ends_as_by_hand(tmp_path: Path) -> None:
    spec = write_jobs(tmp_path, (f"at_most = {JOBS}", "at_most = 6"))
    wages = load_spec(spec).universes()[1]
    found = tabulated(spec, wages)
    assert found.tolist() == by_hand(jobs(), 50)
    # Six jobs of 40 each become 8, and two left over cannot be shared by six alike.
    alone = [row for row in jobs() if row[0] == "rich"]
    assert by_hand(alone, 50)[BLOCKS.index("A12")] == [24, 24]


@pytest.mark.parametrize("ends", ["total", "record"])
def test_counts_and_all_sums_are_of_the_same_records(tmp_path: Path, ends: str) -> None:
    """Hours are 40 for each job here, so that the sum tells how many jobs it is of."""
    spec = write_jobs(tmp_path, ('ends = "total"', f'ends = "{ends}"'))
    lines = (tmp_path / "jobs.csv").read_text("utf-8").splitlines()
    same = [",".join([*line.split(",")[:4], "40", line.split(",")[5]]) for line in lines[1:]]
    (tmp_path / "jobs.csv").write_text("\n".join([lines[0], *same]) + "\n", encoding="utf-8")
    own, wages, hours = load_spec(spec).universes()
    counts = tabulated(spec, own).reshape(len(BLOCKS), 2, 2).sum(axis=1)
    persons = {row[0]: sum(other[0] == row[0] for other in jobs()) for row in jobs()}
    assert counts.sum() == sum(min(JOBS, n) for n in persons.values())
    assert (tabulated(spec, hours) == 40 * counts).all()
    assert (tabulated(spec, wages) <= 50 * counts).all()
    assert (tabulated(spec, own, "2") != tabulated(spec, own, "1")).any()


def test_a_mean_of_an_amount_is_made_from_ends_half_a_step_further_out() -> None:
    """30 units of 2 euros by 5 records: reaches of 6.5 and 7.5 units, of 1.5 and 2.5 records."""
    sums, counts = (
        ReleasedTable(
            "total",
            "block",
            "total",
            np.array(["b"]),
            ("total",),
            np.array([[n]]),
            np.array([[float(low)]]),
            np.array([[float(high)]]),
        )
        for n, low, high in ((30, 24, 37), (5, 4, 7))
    )
    found = means_of("wages", AmountAttribute.of("wages", Fraction(0), Fraction(200), Fraction(2)), sums, counts).means
    assert found is not None
    assert found.lows is not None
    assert found.highs is not None
    low, high = float(found.lows[0, 0]) / 2, float(found.highs[0, 0]) / 2
    assert (30 - 5 * low) ** 2 == pytest.approx(6.5**2 + (2.5 * low) ** 2, rel=1e-12)
    assert (30 - 5 * high) ** 2 == pytest.approx(7.5**2 + (1.5 * high) ** 2, rel=1e-12)
    assert low < 6 < high


_SUMS = (
    *BALANCES,
    (
        'queries = { total = "1/4", sex = "1/4", detailed = "1/2" }\nlevels = {',
        'queries = { total = "1/2", sex = "1/2" }\nlevels = {',
    ),
    ("publish = {", "tables = { total = 'total', sex = 'sex', detailed = 'detailed' }\npublish = {"),
)


def test_sums_below_0_are_left_out_with_the_numbers_of_records_that_their_intervals_need(tmp_path: Path) -> None:
    """The release measures no detail, the amount does; the spec that is left can be read again."""
    spec = load_spec(write_wages(tmp_path, *_SUMS))
    side = open_listed(spec, spec.universes())
    every = ("county", "tract", "block")
    assert [{table.name: table.levels for table in one.tables} for one in side.universes] == 2 * [
        {"total": every, "sex": every}
    ]
    told = [line for line in side.remarks if line.startswith("companions.wages.tables.detailed: ")]
    assert [line.partition("at level ")[2].partition(",")[0] for line in told] == [f"'{level}'" for level in every]
    again = ReleaseSpec.from_public_dict(side.spec.public_dict())
    assert [[table.name for table in one.tables] for one in again.universes()] == 2 * [["total", "sex"]]
    for changes in (_SUMS[len(BALANCES) :], (*_SUMS, ("replicates = 4", "margins = false"))):
        spec = load_spec(write_wages(tmp_path, *changes))  # not below 0, or without intervals
        side = open_listed(spec, spec.universes())
        assert [table.name for table in side.universes[1].tables] == ["total", "sex", "detailed"]
