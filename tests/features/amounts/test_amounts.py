"""Companions of amounts: what a spec can state, which records are summed as by hand, and clips that are others."""

from __future__ import annotations

import shutil
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from releases.command import feature_module
from releases.jobs import BLOCKS, JOBS, SORTS, jobs, write_jobs
from releases.jobs import Job as JobRow
from releases.made_case import made_case
from releases.mutant import resealed
from releases.wages import BALANCES, LABELS, OVER, write_wages

import pipeline.records.columns as columns
from auditor.check.release import examine
from auditor.form import read_form
from auditor.program import audit
from auditor.reading.files import Places
from features.amounts.means import means_of
from pipeline.confidential.charge import _layout
from pipeline.errors import RecordsError, SpecError
from pipeline.execution.job import Job
from pipeline.execution.steps import Silent
from pipeline.execution.workers import Workers
from pipeline.inputs.geography import read_spine
from pipeline.model.schema import AmountAttribute
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.records.columns import AmountNumbers
from pipeline.records.tabulate import tabulate, tabulate_units
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.tables import ReleasedTable
from pipeline.runs.open_public import open_listed
from pipeline.spec.release_spec import ReleaseSpec, load_spec

_UNIT = 'unit = "10"\n'


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('between = ["0", "500"]\n', "", "companions.wages.between: missing"),
        (_UNIT, "", "companions.wages.unit: missing"),
        ('amount = "wage"\n', "", "companions.wages.between: only for a companion of an amount"),
        ('["0", "500"]', '["0", "500.5"]', "both whole multiples of a unit"),
        ('["0", "500"]', '["500", "0"]', "the lower end must be below"),
        ('["0", "500"]', '["0", "x"]', "companions.wages.between"),
        ('["0", "500"]', '["0"]', "companions.wages.between: found a list of 1 entry; at least 2 are needed"),
        ('["0", "500"]', '["0", "1", "2"]', "found a list of 3 entries; at most 2 are allowed"),
        ('["0", "500"]', "[0]", 'write it in quotes, "0"'),
        (_UNIT, _UNIT + "structural_zeros = [ { sex = \"f\" } ]\n", "companions.wages.structural_zeros: not for"),
        (_UNIT, _UNIT + "structural_zeros = \"sex == f\"\n", "companions.wages.structural_zeros: not for"),
        (_UNIT, _UNIT + 'input = { file = "p.csv", form = "microdata", geocode = "b" }\n', "records are the release"),
        (_UNIT, _UNIT + "records_per_person = 2\n", "the records are the same"),
        ('"microdata", geocode', '"long", geocode', 'only for records of the form "microdata"'),
        ('{ rho = "2" }', '{ rho = "2", unit = "p", at_most = 3 }', "its units are the release's own; leave it out"),
        (_UNIT, _UNIT + 'ends = "total"\n', "companions.wages.ends: found 'total', and no units"),
        (_UNIT, _UNIT + 'ends = "unit"\n', "companions.wages.ends"),
        (_UNIT, _UNIT + 'tables.sex = { query = "sex", cumulative = true }\n', "sex.cumulative: only for counts"),
        ('{ rho = "2" }', '{ rho = "2", dataset = "other" }', "privacy.dataset: found 'other', and 'none'"),
        ('{ sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q', '{ sex = ["m", "f"] }\nstrategy.q',
         "has other values of it"),
        ('{ sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q', '{ age = ["m", "f"] }\nstrategy.q',
         "has no such attribute"),
        ('sex = ["f", "m"], job = ["none", "part", "full"] }\nstrategy.q',
         'job = ["none", "part", "full"], sex = ["f", "m"] }\nstrategy.q', "in another order"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_key(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = write_wages(tmp_path, (old, new))
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert sentence in str(refused.value)


def test_an_amount_may_be_below_0_where_the_release_counts_the_same_answers(tmp_path: Path) -> None:
    below = ('["0", "500"]', '["-300", "400"]')
    wages = load_spec(write_wages(tmp_path, below)).universes()[1]
    (amount,) = wages.measure.amounts
    assert (wages.measure.signed, amount.first, amount.last, wages.reach) == (True, -30, 40, 50)
    head = ("publish = {", 'tables.some = { query = "sex", levels = ["tract"] }\npublish = {')
    with pytest.raises(SpecError) as refused:
        load_spec(write_wages(tmp_path, below, head)).universes()
    assert "companions.wages.tables.total: sums that may be below 0 have intervals only where" in str(refused.value)
    assert "companions.wages.tables.sex" in str(refused.value), "at county and block"
    load_spec(write_wages(tmp_path, head)).universes()
    load_spec(write_wages(tmp_path, below, head, ("replicates = 4", "margins = false"))).universes()


def test_the_noise_of_another_clip_unit_column_or_stand_in_is_other_noise(tmp_path: Path) -> None:
    """Two columns with equal sums would else have equal noise, which shows that they agree everywhere."""
    prints = {load_spec(write_wages(tmp_path, *changes)).universes()[1].privacy_fingerprint() for changes in (
        [], [('"500"', '"600"')], [(_UNIT, 'unit = "5"\n')], [('["0"', '["100"')],
        [('amount = "wage"', 'amount = "balance"')], [('missing = "0"\n', '')], [('missing = "0"', 'missing = "1"')],
    )}  # fmt: skip
    assert len(prints) == 7


def test_what_is_no_amount_is_refused_by_row_and_column_without_the_value(tmp_path: Path) -> None:
    universe = load_spec(path := write_wages(tmp_path, ('missing = "0"\n', ""))).universes()[1]
    spine = read_spine(load_spec(path).geography)
    for amount in ("many", "1,5", "0x10", "inf", "nan", "1e9999", "--3", ""):
        (tmp_path / "persons.csv").write_text(
            f'block,sex,job,wage\nA00,f,full,12.5\nA00,m,full,"{amount}"\n', encoding="utf-8"
        )
        with pytest.raises(RecordsError, match=r"(?s)row 2.*'wage'|'wage'.*row 2") as refused:
            tabulate(universe.require_input(), universe.schema, spine)
        for quoted in (f"'{amount or 'nothing'}'", f'"{amount or "nothing"}"'):
            assert quoted not in str(refused.value)


def test_amounts_are_read_exactly(tmp_path: Path) -> None:
    """As decimals: 4.999... rounds down however many nines there are, and halves go up."""
    spec = load_spec(write_wages(tmp_path))
    universe = spec.universes()[1]
    rows = {
        "4." + "9" * 30: 0,
        "5": 1,
        "5e0": 1,
        "-7": 0,
        "499.9": 50,
        "1e12": 50,
        "": 0,
        "14.99999999999999999999": 1,
        "-3e5": 0,
    }
    for amount, units in rows.items():
        (tmp_path / "persons.csv").write_text(f"block,sex,job,wage\nA00,f,full,{amount}\n", encoding="utf-8")
        assert tabulate(universe.require_input(), universe.schema, read_spine(spec.geography)).sum() == units, amount


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


def by_hand(rows: list[JobRow], high: int) -> list[list[int]]:
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


@pytest.mark.parametrize("unit", [Fraction(2), Fraction(1, 100)])
def test_a_mean_of_an_amount_is_made_from_ends_half_a_step_further_out(unit: Fraction) -> None:
    """30 units, of 2 euros or a cent, by 5 records: reaches of 6.5 and 7.5 units, of 1.5 and 2.5 records."""
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
    made = means_of("wages", AmountAttribute.of("wages", Fraction(0), 100 * unit, unit), sums, counts)
    found = made.means
    assert found is not None
    for of in (made.sums, found):
        assert of.lows is not None
        assert of.highs is not None
    ends = np.array([made.sums.lows, made.sums.highs, found.lows, found.highs], dtype=float).ravel() / float(unit)
    assert ends[:2].tolist() == pytest.approx([24, 37])
    low, high = ends[2:].tolist()
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


@pytest.fixture
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The case of the matrix with counts beyond the clip: its spec, and out/."""
    return made_case(tmp_path_factory, "wages")


def test_a_clip_that_is_forgotten_in_reading_is_seen_by_hand(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of what the case shows: amounts clipped before they are looked at are never beyond the clip."""
    spec = load_spec(made / "wages.toml")
    universe, spine = spec.universes()[1], read_spine(spec.geography)
    sound = tabulate(universe.require_input(), universe.schema, spine)
    assert sound.toarray()[:, [2, 5]].sum() >= 5

    class Clipped(AmountNumbers):
        def __getitem__(self, text: str) -> int:
            return min(super().__getitem__(text), 1)

    monkeypatch.setattr(columns, "AmountNumbers", Clipped)
    counted = tabulate(universe.require_input(), universe.schema, spine)
    assert counted.sum() == sound.sum()
    assert counted.toarray()[:, [2, 5]].sum() == 0


def test_every_column_of_sums_and_means_is_judged(made: Path, tmp_path: Path) -> None:
    """Each number and each end of an interval, one at a time: 10 more is found from the public files alone."""
    copy = Path(shutil.copytree(made / "out" / "wages", tmp_path / "wages"))
    path = Places(copy).of("", "amounts", "wages", "detailed", "tract")
    kept, whole = path.read_bytes(), pq.read_table(path)
    assert len(whole.column_names) > 6 * len(LABELS)
    for place, name in enumerate(whole.column_names[1:], 1):
        field, values = whole.schema.field(place), whole.column(place).to_pylist()
        at = next(row for row, value in enumerate(values) if value is not None)
        values[at] += 10
        pq.write_table(whole.set_column(place, field, pa.array(values, field.type)), path)
        assert examine(copy).problems, name
        path.write_bytes(kept)


@pytest.mark.parametrize(
    ("companion", "key", "value"),
    [
        ("wages", "between", ["0", "300"]),
        ("over", "between", ["0", "300"]),
        ("wages", "amount", "balance"),
        ("over", "count_clipped", "balance"),
    ],
)
def test_another_clip_or_column_in_the_public_spec_is_found(
    made: Path, tmp_path: Path, companion: str, key: str, value: object
) -> None:
    """By the second program, as the noise depends on both; a clip of sums that is stated lower by the checker, too."""
    copy = Path(shutil.copytree(made / "out" / "wages", tmp_path / "wages"))
    stated = fingerprints(copy)
    resealed(copy, lambda manifest: dict(manifest["spec"]["companions"])[companion].update({key: value}))
    changed = fingerprints(copy)
    assert {name for name in stated if stated[name] != changed[name]} == {companion}
    assert not all(found.passed for found in audit(copy))
    if (companion, key) == ("wages", "between"):
        problems = examine(copy).problems
        assert any("sums that so many records cannot have" in text or "units for" in text for text in problems)


def fingerprints(release: Path) -> dict[str, str]:
    """Of the second program, of each universe."""
    form = read_form(read_manifest(RunDirectory(release).manifest).spec)
    return {one.name: one.fingerprint() for one in form.universes}


_PRIVACY = 'privacy = { rho = "2", key = "insecure-test:1" }'
_UNITS = (_PRIVACY, _PRIVACY.replace(" }", ', unit = "sex", at_most = 2 }'))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ([_UNITS], "companions.over.count_clipped: what is clipped of units with several records"),
        ([('{ rho = "1" }', '{ rho = "1", unit = "sex", at_most = 2 }')], "companions.over.privacy.unit: not for"),
        ([('{ rho = "1" }', '{ rho = "1", at_most = 2 }')], "companions.over.privacy.unit: missing"),
        ([('count_clipped = "wage"', 'count_clipped = "wage"\nends = "total"')], "companions.over.ends: not with"),
    ],
)  # fmt: skip
def test_what_is_clipped_of_units_with_several_records_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], sentence: str
) -> None:
    """It would be charged for a single record."""
    with pytest.raises(SpecError) as refused:
        load_spec(write_wages(tmp_path, OVER, *changes)).universes()
    assert sentence in str(refused.value)


def layout_and_fingerprint(folder: Path, *changes: tuple[str, str]) -> tuple[str, str]:
    """What the ledger compares, and what the noise depends on, of the companion that counts by the clip."""
    folder.mkdir()
    spec = load_spec(write_wages(folder, OVER, *changes))
    universe, spine = spec.universes()[1], read_spine(spec.geography)
    job = Job(RunDirectory(folder), spec, spec.universes(), spine, Workers(1), Silent())
    return _layout(job, universe), universe.privacy_fingerprint()


def test_noise_and_ledger_tell_columns_and_stand_ins_with_equal_counts_apart(tmp_path: Path) -> None:
    """Else equal noise, and a second release for nothing, would show that two columns are clipped alike everywhere."""
    own = layout_and_fingerprint(tmp_path / "own")
    assert own == layout_and_fingerprint(tmp_path / "again")
    other = layout_and_fingerprint(tmp_path / "other", ('count_clipped = "wage"', 'count_clipped = "balance"'))
    lacking = layout_and_fingerprint(tmp_path / "lacking", ('missing = "0"\nprivacy', 'missing = "1"\nprivacy'))
    for changed in (other, lacking):
        assert all(old != new for old, new in zip(own, changed, strict=True))


def test_a_plan_foretells_sums_and_means_in_what_the_amount_is_in(made: Path) -> None:
    plan = feature_module("features.plan.release_plan").plan_release(made / "wages.toml", 1)
    assert [one.universe.name for one in plan.universes] == ["", "over", "wages"]
    assert {row.query for row in plan.universes[1].rows} == {"clipped", "detailed"}
    rows = {(row.level, row.query): row for row in plan.universes[2].rows}
    counts = {(row.level, row.query): row for row in plan.universes[0].rows}
    assert len(plan.amounts) == 9
    for row in plan.amounts:
        margin, counted = rows[row.level, row.query].margin90, counts[row.level, row.query].margin90
        assert margin is not None
        assert counted is not None
        assert row.sum_margin == pytest.approx(10 * margin)
        assert row.mean_margins[100] ** 2 == pytest.approx(((10 * margin) ** 2 + (250 * counted) ** 2) / 100**2)
