"""Releases of marginals: records that change or cannot be, what judges find and readers see; real data."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.asked import ledger_of
from releases.browser import chromium, opened
from releases.made_case import made_case
from releases.policy import runs_its_own_scripts_alone
from releases.small import run
from releases.wide import ATTRIBUTES, CHARGED, CLIQUES, LEVELS, leaves, manifest_of, write_wide

import pipeline.confidential.measure
import pipeline.confidential.steps
from auditor.check.release import check_release
from auditor.form import read_form
from auditor.program import audit
from auditor.statements import parts_problems
from features.marginals.cliques import AttributeSizes, junction_tree
from features.marginals.zeros import are_carried, carried
from pipeline.errors import BudgetRefusedError, InputError, RefusedError, SpecError
from pipeline.execution.steps import Silent
from pipeline.reading.release import open_release
from pipeline.records.tabulate import tabulate
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec


@pytest.fixture
def declared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release of the matrix whose cliques its spec declares; two folders above it are its inputs."""
    return made_case(tmp_path_factory, "marginals") / "out" / "wide"


@pytest.fixture
def known(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That with combinations that cannot occur, exact numbers and amounts."""
    return made_case(tmp_path_factory, "cliques_known") / "out" / "wide"


def _appended(table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([table, table.iloc[[7]]])


def _moved_home(table: pd.DataFrame) -> pd.DataFrame:
    """As many records as before, one of them in another block."""
    block = table["block"].to_numpy().copy()
    block[7] = next(leaf for leaf in leaves() if leaf != block[7])
    return table.assign(block=block)


def _other_value(table: pd.DataFrame) -> pd.DataFrame:
    """As many records in every block, one of them with another value of what two cliques share."""
    other = {name: next(one for one in ATTRIBUTES[name] if one != table[name][7]) for name in ("work", "tenure")}
    return table.assign(**{name: [*table[name][:7], value, *table[name][8:]] for name, value in other.items()})


@pytest.mark.parametrize(
    ("change", "reading"), [(_appended, 2), (_moved_home, 3), (_other_value, 3), (_other_value, 4)]
)
def test_records_that_change_between_two_readings_are_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pd.DataFrame], pd.DataFrame], reading: int
) -> None:
    """Each clique reads the file again; only the owner of the directory is told which numbers differ."""
    spec, readings = write_wide(tmp_path / "in"), list[object]()

    def tabulated(*given: Any) -> object:
        readings.append(given)
        if len(readings) == reading:
            file = tmp_path / "in" / "persons.csv"
            change(pd.read_csv(file, dtype=str, keep_default_na=False)).to_csv(file, index=False)
        return tabulate(*given)

    monkeypatch.setattr(pipeline.confidential.measure, "tabulate", tabulated)
    with pytest.raises(RefusedError) as refused:
        run(spec, tmp_path / "out")
    assert refused.value.exit_status == 2
    assert "records that were counted" not in str(refused.value)
    text = refused.value.reason()
    assert text.startswith(f"companions.{'-'.join(CLIQUES[reading - 1])}.input: these are not the records that were c")
    assert not list((tmp_path / "out").rglob("measurements"))
    assert [path.name for path in (tmp_path / "out").rglob("refused.txt")] == ["refused.txt"]


def test_what_the_ledger_does_not_allow_to_be_exact_as_often_is_refused(tmp_path: Path) -> None:
    """Each of four cliques publishes how many there are in a block."""
    exact = ("[publish]", '[invariants]\nblock = ["total"]\n[publish]')
    spec = write_wide(tmp_path / "in", exact, CHARGED)
    with (
        ledger_of(tmp_path, dataset="people", budget="4", exact=["block:total"] * 3),
        pytest.raises(BudgetRefusedError, match="block:total"),
    ):
        run(spec, tmp_path / "out")


@pytest.mark.slow
def test_noise_that_is_bound_to_each_clique_alone_is_caught_by_the_second_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stayed the same under one key would show which attributes did not change."""
    with monkeypatch.context() as planted:
        planted.setattr(pipeline.confidential.steps, "bound_fingerprints", lambda _key, _universes, own: dict(own))
        root = run(write_wide(tmp_path / "in"), tmp_path / "out")
    wrong = {f"{one.check}: {one.subject}": one.detail for one in audit(root) if not one.passed}
    assert wrong.keys() == {"key: commitment and records", "noise redrawn: measurements"}


def test_universes_that_add_up_and_disagree_are_caught_by_the_second_program(declared: Path, tmp_path: Path) -> None:
    """One table with a renter more and an owner less in one block, in all areas above it and in its own tables."""
    root = tmp_path / "changed"
    shutil.copytree(declared, root)
    folder = root / "public" / "companions" / "tenure-rooms"
    block = pq.read_table(folder / "histograms" / "block.parquet").to_pandas().astype({"geocode": str})
    row = block[(block["tenure"] == "owner") & (block["count"] > 1)].iloc[0]
    for level, width in LEVELS.items():
        path = folder / "histograms" / f"{level}.parquet"
        table = pq.read_table(path)
        changed = _with_renter(table.to_pandas(), row, width)
        pq.write_table(pa.Table.from_pandas(changed, table.schema, preserve_index=False).cast(table.schema), path)
    problems = check_release(root)
    assert any("the sum in public/companions/work-tenure-car/" in problem for problem in problems)
    assert not any("the sum over its children" in problem for problem in problems)


def _with_renter(table: pd.DataFrame, row: pd.Series, width: int) -> pd.DataFrame:
    table = table.astype({"geocode": str, "tenure": str, "rooms": str})
    area, rooms = row["geocode"][:width], row["rooms"]
    counts: Counter[tuple[str, ...]] = Counter(
        {(str(area), str(tenure), str(room)): int(count) for area, tenure, room, count in table.to_numpy()}
    )
    counts[area, "owner", rooms] -= 1
    counts[area, "renter", rooms] += 1
    rows = sorted((*key, count) for key, count in counts.items() if count)
    return pd.DataFrame(rows, columns=["geocode", "tenure", "rooms", "count"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parts_at": [["block", [["tenure * rooms", 0]]]]}, "its part is 1 of 6"),
        ({"parts_at": None}, "has 0 of the 3/2 of all cliques at block; its part is 1 of 6"),
    ],
)
def test_other_parts_than_stated_are_found_by_the_second_program(known: Path, change: Any, told: str) -> None:
    spec = manifest_of(known)["spec"]
    assert parts_problems(read_form(spec), spec) == []
    changed = {**spec, "marginals": {**spec["marginals"], **change}}
    assert any(told in one for one in parts_problems(read_form(changed), changed))


def test_a_table_across_cliques_is_refused_with_the_clique_that_it_needs(declared: Path) -> None:
    release = open_release(declared)
    needed = r"the clique age x car \(8 cells\) would be needed"
    with pytest.raises(InputError, match=needed):
        release.query("age * car")
    pd.testing.assert_frame_equal(
        release.table("tenure.rooms", "tract"), release.companion("tenure-rooms").table("tenure.rooms", "tract")
    )


Record = dict[str, str]


@pytest.mark.parametrize(
    "cliques", [[(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (3,)], [(0,), (1,), (2,), (3,)]], ids=str
)
def test_entries_that_are_carried_mean_what_whole_records_can_have(cliques: list[tuple[int, ...]]) -> None:
    """Of each table, against all records gone through; also of tables that share no attribute."""
    attributes = {"a": ("0", "1", "2"), "b": ("0", "1"), "c": ("0", "1", "2"), "d": ("0", "1")}
    domain = AttributeSizes(tuple(attributes), tuple(map(len, attributes.values())))
    tree = junction_tree(domain, cliques)
    names = [[domain.names[a] for a in bag] for bag in tree.bags]
    rng = np.random.default_rng(1)
    moved = 0
    for _ in range(40):
        entries = [
            {"abcd"[a]: tuple(one for one in attributes["abcd"[a]] if rng.random() < 0.6) or ("0",) for a in clique}
            for clique in (*cliques, cliques[1])
        ]
        possible = _without(_all(attributes), entries)
        if not possible:
            with pytest.raises(InputError, match="no record is possible"):
                carried(tree, attributes, entries)
            continue
        found = carried(tree, attributes, entries)
        assert are_carried(tree, attributes, found)
        for bag, own in zip(names, found, strict=True):
            expected = {tuple(record[name] for name in bag) for record in possible}
            left = _without(_all({name: attributes[name] for name in bag}), own)
            assert {tuple(record.values()) for record in left} == expected
        moved += not are_carried(tree, attributes, [[one for one in entries if {*one} <= {*bag}] for bag in names])
    assert (moved > 5) == any(tree.separators)


def _all(attributes: Mapping[str, Sequence[str]]) -> list[Record]:
    return [dict(zip(attributes, values, strict=True)) for values in product(*attributes.values())]


def _without(records: Iterable[Record], entries: Iterable[Mapping[str, Sequence[str]]]) -> list[Record]:
    """The records that no entry has as impossible."""

    def has(record: Record, entry: Mapping[str, Sequence[str]]) -> bool:
        return all(record[name] in chosen for name, chosen in entry.items())

    return [record for record in records if not any(has(record, entry) for entry in entries)]


def _third_school(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(school=["third", *table["school"].astype(str)[1:]])


def _outside(table: pd.DataFrame) -> pd.DataFrame:
    row = int(np.flatnonzero(table["wages"] == "1..9999")[0])
    return table.assign(wages_drawn=[*table["wages_drawn"][:row], 10_000, *table["wages_drawn"][row + 1 :]])


def _lower_ends(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(wages_drawn=table["wages"].astype(str).str.partition("..")[0].astype(int))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            _third_school,
            ["1 records, and the structural zeros of school-work", "the structural zeros of age-sex-school"],
        ),
        (_outside, ["has 10000 as 'wages_drawn', and '1..9999' as 'wages'"]),
        (_lower_ends, ["as 'wages', in which the public seed draws "]),
        (None, ["it lacks 'hours_drawn'"]),
    ],
)
def test_records_that_cannot_be_are_named_by_the_second_program(
    known: Path, tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame] | None, told: Sequence[str]
) -> None:
    root = Path(shutil.copytree(known, tmp_path / "changed"))
    file = root / "public" / "microdata.parquet"
    table = pq.read_table(file)
    if change is None:
        pq.write_table(table.drop_columns(["hours_drawn"]), file)
    else:
        changed = pa.Table.from_pandas(change(table.to_pandas()), preserve_index=False).cast(table.schema)
        pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)
    problems = check_release(root)
    assert all(any(text in problem for problem in problems) for text in told), problems


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda spec: spec["companions"][1][1].update(structural_zeros=[]), "school = third is impossible in age-sex-"),
        (lambda spec: spec["companions"][2][1].update(invariants=[]), "block in the release, and total is not in age-"),
        (lambda spec: spec["companions"][0][1]["invariants"].pop(), "is exact at block in the release, and total is "),
        (lambda spec: spec["invariants"].pop(0), "tenure is exact at county in work-tenure-car, and tenure is not in "),
    ],
)  # fmt: skip
def test_universes_that_say_other_things_of_the_records_are_found_by_both(
    known: Path, tmp_path: Path, change: Callable[[Any], object], told: str
) -> None:
    root = Path(shutil.copytree(known, tmp_path / "changed"))
    file, manifest = root / "public" / "manifest.json", manifest_of(root)
    assert ReleaseSpec.from_public_dict(manifest["spec"]).public_dict() == manifest["spec"]
    change(manifest["spec"])
    with pytest.raises(SpecError, match=r"structural_zeros: these leave|invariants: these are not|the companions are"):
        ReleaseSpec.from_public_dict(manifest["spec"])
    file.write_text(json.dumps(manifest), "utf-8")
    assert any(told in one for one in check_release(root)), check_release(root)


@pytest.mark.slow
def test_the_page_in_a_browser(declared: Path, tmp_path: Path) -> None:
    """At the width of a telephone the matrix scrolls in its frame, and its row heads stay; no other script runs."""
    page = RunDirectory(declared).report
    with chromium() as browser:
        runs_its_own_scripts_alone(browser, page, tmp_path, ready=True)
        narrow = opened(browser, page, width=360).page
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 360
        left = "document.querySelector('.matrix tbody th').getBoundingClientRect().left"
        before = narrow.evaluate(left)
        moved = narrow.evaluate(
            "(() => { const one = document.querySelector('.matrix').parentElement; one.scrollLeft = 60; "
            "return one.scrollLeft; })()"
        )
        assert moved > 0
        assert narrow.evaluate(left) == before


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "adult.toml"
YEARS = (20, 10, 5)


@pytest.mark.slow
def test_the_example_is_released_with_records_like_those_that_were_measured(shared_data: Path, tmp_path: Path) -> None:
    """CensusDP's published mean distance of all two-way tables at the top is .0452; columns by themselves have .08."""
    table = pd.read_parquet(shared_data / "adult.parquet")
    ages = np.arange(85)
    codes = {"all": np.full(85, "adult")}
    codes |= {f"years{n}": np.char.add(f"years{n}-", (ages // n).astype(str)) for n in YEARS}
    (tmp_path / "adult_files").mkdir()
    pd.DataFrame(codes).drop_duplicates().to_csv(tmp_path / "adult_files" / "areas.csv", index=False)
    table.assign(years5=codes["years5"][table["age"]]).to_parquet(tmp_path / "adult_files" / "persons.parquet")
    (tmp_path / "examples").mkdir()
    spec = tmp_path / "examples" / "adult.toml"
    spec.write_text(EXAMPLE.read_text("utf-8"))
    root = run(spec, tmp_path / "out")
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert check_release(root) == []
    records = pq.read_table(root / "public" / "microdata.parquet").to_pandas().drop(columns="geocode").astype(int)
    assert list(records.columns) == list(table.columns)
    distances = [_distance(table, records, pair) for pair in combinations(table.columns, 2)]
    assert len(distances) == 91
    assert np.mean(distances) < 0.0452
    rng = np.random.default_rng(1)
    shuffled = pd.DataFrame({name: rng.permutation(records[name]) for name in records})
    assert np.mean([_distance(table, shuffled, pair) for pair in combinations(table.columns, 2)]) > 0.07


def _distance(table: pd.DataFrame, records: pd.DataFrame, pair: tuple[str, str]) -> float:
    """Total variation distance of a two-way table."""
    one, other = (frame.groupby(list(pair)).size() / len(frame) for frame in (table, records))
    return float((one.sub(other, fill_value=0)).abs().sum() / 2)
