"""Releases of marginals with combinations that cannot occur and exact numbers: in tables, records and judges."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.clique_population import Population
from releases.small import run
from releases.wide import ATTRIBUTES, CLIQUES, SPEC, records, write_wide

from auditor.check.release import check_release
from auditor.program import audit
from features.marginals.cliques import AttributeSizes, junction_tree, marginal
from features.marginals.linear import NoisyTable, upward
from features.marginals.records import WholeRecords
from features.marginals.whole import ExactTable, First, Seed, whole_numbers
from features.marginals.zeros import are_carried, carried
from geography.errors import InputError
from pipeline.errors import BudgetRefusedError, RefusedError, SpecError
from pipeline.execution.progress import Silent
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: No record of `releases.wide` has these; that nobody has the third school follows for the table of school and work.
KNOWN = """name = "wide"
structural_zeros = [
    { age = ["child", "young", "middle", "old"], school = "third" },
    { work = "no", car = "yes" },
    "age in (middle, old) and school == none",
]
"""
#: Two attributes at the top, one of them below, and how many there are in each block.
EXACT = '[invariants]\ncounty = ["tenure * rooms"]\ntract = ["tenure"]\nblock = ["total"]\n[publish]'
LEVELS = {"county": 1, "tract": 3, "block": 5}
FOLDERS = {
    ("tenure", "rooms"): "",
    ("work", "tenure", "car"): "work-tenure-car",
    ("school", "work"): "school-work",
    ("age", "sex", "school"): "age-sex-school",
}


def _is_impossible(row: dict[str, str]) -> bool:
    """The same by itself."""
    return (
        row.get("school") == "third"
        or (row.get("work"), row.get("car")) == ("no", "yes")
        or (row.get("age") in ("middle", "old") and row.get("school") == "none")
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release charged to a ledger, which lies in the folder above."""
    folder = tmp_path_factory.mktemp("known")
    with pytest.MonkeyPatch.context() as patch:
        _ledger(folder, patch, "zeros", "zeros", "zeros", *_EXACT_OF_ALL)
        charged = ('key = "insecure-test:7"', 'dataset = "people"')
        spec = write_wide(folder / "in", ('name = "wide"\n', KNOWN), ("[publish]", EXACT), charged)
        return run(spec, folder / "out")


#: What each universe publishes exactly: the sums of what the release's own does.
_EXACT_OF_ALL = (
    *("county:tenure * rooms", "tract:tenure", "block:total", "county:tenure", "tract:tenure", "block:total"),
    *("county:total", "tract:total", "block:total") * 2,
)


def _ledger(folder: Path, patch: pytest.MonkeyPatch, *exact: str) -> None:
    place, state = folder / "ledger.sqlite", folder / "state"
    with Ledger.open(str(place), create=True, state=state) as ledger:
        ledger.open_dataset("people", population="x", framework="zcdp", budget=Fraction(4), neighbours="change-one")
        ledger.allow_exact("people", *exact)
    patch.setenv("SPINEWISE_LEDGER", str(place))
    patch.setenv("SPINEWISE_STATE", str(state))


def _true(attributes: tuple[str, ...], level: str) -> Counter[tuple[str, ...]]:
    table = records()
    columns = [table["block"].str[: LEVELS[level]], *(table[name] for name in attributes)]
    return Counter(zip(*columns, strict=True))


def _histogram(root: Path, clique: tuple[str, ...], level: str) -> pd.DataFrame:
    folder = root / "public"
    folder = folder / "companions" / FOLDERS[clique] if FOLDERS[clique] else folder
    return pq.read_table(folder / "histograms" / f"{level}.parquet").to_pandas()


def _sums(root: Path, clique: tuple[str, ...], attributes: tuple[str, ...], level: str) -> Counter[tuple[str, ...]]:
    table = _histogram(root, clique, level)
    columns = [table[name].astype(str) for name in ("geocode", *attributes)]
    found: Counter[tuple[str, ...]] = Counter()
    for *key, count in zip(*columns, table["count"], strict=True):
        found[tuple(key)] += count
    return found


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_what_is_exact_is_the_truth_in_every_table_that_has_it(made: Path) -> None:
    for level, exact in (("county", ("tenure", "rooms")), ("tract", ("tenure",)), ("block", ())):
        for clique in FOLDERS:
            shared = tuple(name for name in exact if name in clique)
            assert _sums(made, clique, shared, level) == _true(shared, level)
    # What is exact at a level is not below it, where there is noise.
    assert _sums(made, ("tenure", "rooms"), ("tenure", "rooms"), "tract") != _true(("tenure", "rooms"), "tract")
    assert _sums(made, ("tenure", "rooms"), ("tenure",), "block") != _true(("tenure",), "block")


def test_impossible_cells_are_empty_where_noise_would_have_put_somebody(made: Path) -> None:
    microdata = pq.read_table(made / "public" / "microdata.parquet").to_pandas().astype(str)
    assert len(microdata) == 1500
    assert not any(map(_is_impossible, microdata.to_dict("records")))
    noisy = []
    for clique in FOLDERS:
        cells = [dict(zip(clique, values, strict=True)) for values in product(*(ATTRIBUTES[name] for name in clique))]
        never = np.array([_is_impossible(cell) for cell in cells])
        shown = open_release(made).query(" * ".join(clique)).at("block")
        for column in np.array([" * ".join(cell.values()) for cell in cells])[never]:
            assert not shown[[column, f"{column}:low90", f"{column}:high90"]].to_numpy().any()
        folder = made / "public" / ("companions/" + FOLDERS[clique] if FOLDERS[clique] else "")
        file = folder / "measurements" / "block" / f"{'.'.join(clique)}.parquet"
        noisy.append(np.stack(pq.read_table(file)["value"].to_pylist())[:, never])
    assert [one.shape[1] for one in noisy] == [0, 2, 3, 12]
    assert all((one > 0).mean() > 0.2 for one in noisy[1:])


def test_exact_numbers_have_no_interval_and_others_hold_the_truth(made: Path) -> None:
    shown = open_release(made).query("tenure").at("tract")
    for value in ATTRIBUTES["tenure"]:
        assert (shown[f"{value}:low90"] == shown[value]).all()
        assert (shown[f"{value}:high90"] == shown[value]).all()
    inside, points = [], []
    for clique in FOLDERS:
        truth = _true(clique, "block")
        shown = open_release(made).query(" * ".join(clique)).at("block")
        for values in product(*(ATTRIBUTES[name] for name in clique)):
            low, high = (shown[f"{' * '.join(values)}:{end}90"] for end in ("low", "high"))
            true = np.array([truth[area, *values] for area in shown.index])
            inside += ((low <= true) & (true <= high)).tolist()
            points += (low == high).tolist()
    assert np.mean(inside) > 0.88
    assert np.mean(points) < 0.5


def test_a_chain_of_exact_tables_is_kept_at_its_levels_by_the_mathematics_alone() -> None:
    """Two attributes at the top, one in the middle, the total below; the rest adds up and agrees."""
    rng = np.random.default_rng(4)
    domain = AttributeSizes(("a", "b", "c", "d"), (3, 4, 2, 3))
    cliques = [(0, 1), (1, 2, 3)]
    tree = junction_tree(domain, cliques, first=(), chain=((3,), (1, 3)))
    assert tree.bags[0] == (1, 2, 3)
    assert [stage.table for stage in tree.stages[0]] == [(3,), (1, 3), (1, 2, 3)]
    parents = (np.zeros(3, dtype=np.int64), np.array([0, 0, 1, 2, 2, 2]))
    values = rng.integers(0, domain.sizes, (500, 4))
    people = Population(tree, WholeRecords(np.sort(rng.integers(0, 6, 500)), values), parents, (1, 3, 6))
    tables = ((1, 3), (3,), ())
    exact = [ExactTable(clique, people.table(clique, level)) for level, clique in enumerate(tables)]
    levels = [
        [
            NoisyTable(one, people.table(one, level) + rng.normal(0, 9, (n, domain.size(one))), np.full(n, 81.0))
            for one in cliques
        ]
        + [NoisyTable(exact[level].clique, exact[level].numbers, np.zeros(n))]
        for level, n in enumerate(people.sizes)
    ]
    up = upward(levels, parents, domain, people.sizes)
    for alike in (True, False):
        released = whole_numbers(tree, up, parents, Seed(2), First(exact), alike=alike)
        for level, one in enumerate(exact):
            np.testing.assert_array_equal(marginal(released[level][0], tree.bags[0], one.clique, domain), one.numbers)
            shared = [marginal(released[level][n], bag, (1,), domain) for n, bag in enumerate(tree.bags)]
            np.testing.assert_array_equal(shared[0], shared[1])
        for number, (above, below) in enumerate(pairwise(released)):
            for whole, parts in zip(above, below, strict=True):
                sums = np.zeros_like(whole)
                np.add.at(sums, parents[number], parts)
                np.testing.assert_array_equal(sums, whole)
    wrong = [exact[0], None, exact[2]]
    with pytest.raises(InputError, match="of level 2 are exact at level 1, too"):
        whole_numbers(tree, up, parents, Seed(2), First(wrong))


@pytest.mark.parametrize(
    "cliques", [[(0, 1), (1, 2), (2, 3)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (3,)], [(0,), (1,), (2,), (3,)]], ids=str
)
def test_entries_that_are_carried_mean_what_whole_records_can_have(cliques: list[tuple[int, ...]]) -> None:
    """Of each table, against all records gone through; also of tables that share no attribute."""
    attributes = {"a": ("0", "1", "2"), "b": ("0", "1"), "c": ("0", "1", "2"), "d": ("0", "1")}
    domain = AttributeSizes(tuple(attributes), tuple(map(len, attributes.values())))
    tree = junction_tree(domain, cliques)
    rng = np.random.default_rng(1)
    moved = 0
    for _ in range(40):
        entries = [
            {
                domain.names[a]: tuple(v for v in attributes[domain.names[a]] if rng.random() < 0.6) or ("0",)
                for a in one
            }
            for one in (*cliques, cliques[1])
        ]
        possible = [
            record
            for values in product(*attributes.values())
            if not any(
                all(record[name] in chosen for name, chosen in entry.items())
                for record in [dict(zip(attributes, values, strict=True))]
                for entry in entries
            )
            for record in [dict(zip(attributes, values, strict=True))]
        ]
        if not possible:
            with pytest.raises(InputError, match="no record is possible"):
                carried(tree, attributes, entries)
            continue
        found = carried(tree, attributes, entries)
        assert are_carried(tree, attributes, found)
        for bag, own in zip(tree.bags, found, strict=True):
            names = [domain.names[a] for a in bag]
            expected = {tuple(record[name] for name in names) for record in possible}
            left = {
                values
                for values in product(*(attributes[name] for name in names))
                if not any(
                    all(dict(zip(names, values, strict=True))[name] in chosen for name, chosen in entry.items())
                    for entry in own
                )
            }
            assert left == expected
        moved += not are_carried(tree, attributes, [[e for e in entries if {*e} <= {*bag}] for bag in _names(tree)])
    assert (moved > 5) == any(tree.separators)


def _names(tree: Any) -> list[tuple[str, ...]]:
    return [tuple(tree.domain.names[a] for a in bag) for bag in tree.bags]


# -- what it discloses ------------------------------------------------------------------------------------------------


def test_the_ledger_records_what_every_universe_publishes_exactly(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = json.loads((made / "public" / "manifest.json").read_text("utf-8"))
    (receipt,) = manifest["receipts"]
    exact = Counter((one["universe"], one["what"]) for one in receipt["exact"])
    assert sorted(what for _, what in exact) == sorted([*_EXACT_OF_ALL, *["zeros"] * 3])
    assert exact["", "county:tenure * rooms"] == exact["work-tenure-car", "zeros"] == 1
    assert Fraction(manifest["joint"]["budget"]) == 3
    # In the table of tenure and rooms nobody changes alone, in others they do: their age, and their work.
    assert [one["record"]["records"] for one in manifest["accounts"]] == [2, 1, 1, 1]
    assert manifest["joint"]["records"] == 1
    assert "the same block" in manifest["accounts"][3]["record"]["words"]
    folder = made.parents[1]
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "ledger.sqlite"))
    monkeypatch.setenv("SPINEWISE_STATE", str(folder / "state"))
    assert verify_release(RunDirectory(made), 1, Silent()) == []
    assert check_release(made) == []
    assert [one for one in audit(made, ledger=str(folder / "ledger.sqlite")) if not one.passed] == []


def test_one_that_the_ledger_does_not_allow_as_often_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ledger(tmp_path, monkeypatch, *["block:total"] * 3)
    charged = ('key = "insecure-test:7"', 'dataset = "people"')
    spec = write_wide(tmp_path / "in", ("[publish]", '[invariants]\nblock = ["total"]\n[publish]'), charged)
    with pytest.raises(BudgetRefusedError, match="block:total"):
        run(spec, tmp_path / "out")


def test_records_that_cannot_be_are_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    zeros = 'name = "wide"\nstructural_zeros = "age == child and school == first"\n'
    spec = write_wide(tmp_path / "in", ('name = "wide"\n', zeros))
    with pytest.raises(RefusedError) as refused:
        run(spec, tmp_path / "out")
    assert refused.value.reason().startswith("companions.age-sex-school.structural_zeros: ")
    assert not list((tmp_path / "out").rglob("measurements"))


# -- judges -----------------------------------------------------------------------------------------------------------


def _changed(made: Path, folder: Path) -> Path:
    root = folder / "changed"
    shutil.copytree(made, root)
    return root


def test_a_record_that_cannot_be_is_named_by_the_second_program(made: Path, tmp_path: Path) -> None:
    root = _changed(made, tmp_path)
    file = root / "public" / "microdata.parquet"
    table = pq.read_table(file)
    frame = table.to_pandas()
    frame["school"] = frame["school"].astype(object)
    frame.loc[5, "school"] = "third"
    changed = pa.Table.from_pandas(frame, preserve_index=False).cast(table.schema)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), file)
    problems = check_release(root)
    for name in ("school-work", "age-sex-school"):
        assert any(f"1 records, and the structural zeros of {name} leave none" in one for one in problems), problems


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
    made: Path, tmp_path: Path, change: Callable[[Any], object], told: str
) -> None:
    root = _changed(made, tmp_path)
    file = root / "public" / "manifest.json"
    manifest = json.loads(file.read_text("utf-8"))
    assert ReleaseSpec.from_public_dict(manifest["spec"]).public_dict() == manifest["spec"]
    change(manifest["spec"])
    with pytest.raises(SpecError, match=r"structural_zeros: these leave|invariants: these are not|the companions are"):
        ReleaseSpec.from_public_dict(manifest["spec"])
    file.write_text(json.dumps(manifest), "utf-8")
    assert any(told in one for one in check_release(root)), check_release(root)


# -- specs ------------------------------------------------------------------------------------------------------------

_CHOOSE = (
    'cliques = [["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]',
    'choose = { share = "1/10", attributes_share = "1/20" }',
)


def _spec(known: str, exact: str, *changes: tuple[str, str]) -> ReleaseSpec:
    text = SPEC.replace('name = "wide"', f'name = "wide"\n{known}').replace("[publish]", f"{exact}\n[publish]")
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return parse_spec(text, "wide.toml")


def test_the_tree_begins_with_the_table_that_is_exact() -> None:
    universes = _spec("", EXACT.removesuffix("[publish]")).universes()
    assert [one.schema.names for one in universes] == list(FOLDERS)
    assert {(level, query.name) for level, query in universes[0].invariants} == {
        ("county", "tenure * rooms"),
        ("tract", "tenure"),
        ("block", "total"),
    }
    plain = _spec("", '[invariants]\nblock = ["total"]').universes()
    assert [one.schema.names for one in plain] == list(CLIQUES)
    assert [one.privacy_fingerprint() for one in plain] == [
        one.privacy_fingerprint() for one in _spec("", "").universes()
    ]


_AGES = "found age x car, which are in no clique together, "
_NEEDED = r"and the clique age x car \(8 cells\) would be needed"
_ADDED = ('rho = "3"', 'rho = "3"\nneighbours = "add-remove"')


@pytest.mark.parametrize(
    ("known", "exact", "changes", "told"),
    [
        (
            'structural_zeros = "age == child and car == yes"',
            "",
            (),
            rf"structural_zeros\[0\]: {_AGES}so records would be drawn that have it: .* work x tenure x car, {_NEEDED}",
        ),
        ('structural_zeros = "agee == child"', "", (), r"structural_zeros\[0\]: 'agee == child': 'agee' is not an"),
        ('structural_zeros = [{ agee = "x" }]', "", (), r"structural_zeros\[0\]\.agee: 'agee' is not an attribute;"),
        ('structural_zeros = [{ age = "kid" }]', "", (), r"structural_zeros\[0\]\.age: 'kid' is not a value of age;"),
        ('structural_zeros = [{ sex = ["f", "m"] }]', "", (), "structural_zeros: no record is possible; at least"),
        (
            'structural_zeros = [{ age = "old", sex = "f" }]',
            "",
            (_CHOOSE,),
            r"structural_zeros\[0\]: found age x sex; ",
        ),
        ("", 'block = ["total"]', (_CHOOSE,), r"invariants: not together with \[marginals\.choose\] yet"),
        (
            "",
            'county = ["age", "sex"]',
            (),
            r'invariants.county: found age and sex, which .* state "age \* sex" there, or leave some out',
        ),
        ("", 'county = ["age"]\nblock = ["sex"]', (), "invariants.county: found sex of each block and age, which are"),
        ("", 'county = ["age * car"]', (), f"invariants.county: {_AGES}so their number cannot be kept: {_NEEDED[4:]}"),
        ("", 'country = ["age"]', (), "invariants.country: 'country' is not a level; did you mean 'county'"),
        ("", 'county = ["agee"]', (), "invariants.county: 'agee' is not an attribute; did you mean 'age'"),
        ("", 'county = ["detailed"]', (), r"invariants.county: found 'detailed'; with \[marginals\] it is"),
        ("", 'county = ["age", "age"]', (), "invariants.county: 'age' is the same query as 'age'; name it"),
        ("", 'county = ["total"]', (_ADDED,), 'invariants: with neighbours = "add-remove", inputs that differ'),
    ],
)
def test_what_cannot_be_held_is_refused_in_one_sentence(
    known: str, exact: str, changes: tuple[tuple[str, str], ...], told: str
) -> None:
    with pytest.raises(SpecError, match=rf"^wide\.toml: {told}") as error:
        _spec(known, exact and f"[invariants]\n{exact}", *changes)
    assert len(str(error.value).splitlines()) == 1


def test_a_value_that_never_occurs_may_be_stated_before_pairs_are_chosen() -> None:
    universes = _spec('structural_zeros = [{ school = "third" }]', "", _CHOOSE).universes()
    for universe in universes:
        per_value = universe.schema.n_cells // 4
        assert universe.structural_zeros.sum() == (per_value if "school" in universe.schema.names else 0)
