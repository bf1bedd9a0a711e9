"""Releases of marginals from end to end: what is published against the records, the judges, and the ledger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.command import spinewise
from releases.killed import kill_at
from releases.small import public_bytes, run
from releases.wide import ATTRIBUTES, CLIQUES, leaves, records, write_wide

import pipeline.confidential.measure
import pipeline.confidential.steps
import spinewise as sw
from auditor.check.release import check_release
from auditor.form import read_form
from auditor.ledger import chain_problems, read_ledger
from auditor.parts import parts_problems
from auditor.program import audit
from features.marginals.cliques import AttributeSizes, Clique, junction_tree
from features.marginals.intervals import CliqueDesign
from features.marginals.whole import Seed
from geography.spine import Spine
from pipeline.confidential.custody import KeySource
from pipeline.errors import InputError, RefusedError
from pipeline.execution.progress import Silent
from pipeline.model.record_source import RecordSource
from pipeline.model.schema import Schema
from pipeline.privacy.budget import NoiseSpec
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.reading.release import Release, open_release
from pipeline.records.tabulate import tabulate
from pipeline.release.layout import RunDirectory
from pipeline.runs.record_sources import universes_to_rerun
from pipeline.runs.rerun import rerun_process, rerun_release
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

LEVELS = {"county": 1, "tract": 3, "block": 5}


@dataclass(frozen=True)
class Made:
    """A release: its spec, records and directory."""

    spec: Path
    root: Path

    @property
    def release(self) -> Release:
        return open_release(self.root)

    def table(self, clique: tuple[str, ...], level: str) -> pd.DataFrame:
        return self.release.query(" * ".join(clique)).at(level)

    def microdata(self) -> pd.DataFrame:
        return pq.read_table(self.root / "public" / "microdata.parquet").to_pandas().astype(str)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("wide")
    spec = write_wide(folder / "in")
    return Made(spec, run(spec, folder / "out"))


def _counted(table: pd.DataFrame, clique: tuple[str, ...], level: str) -> pd.DataFrame:
    """Counts of records by area of a level, a column for each combination of the values of a clique."""
    area = table.iloc[:, 0].astype(str).str[: LEVELS[level]]
    labels = table[list(clique)].agg(" * ".join, axis=1)
    counted = pd.crosstab(area, labels)
    columns = [" * ".join(one) for one in pd.MultiIndex.from_product([ATTRIBUTES[a] for a in clique])]
    areas = sorted({leaf[: LEVELS[level]] for leaf in leaves()})
    return counted.reindex(index=areas, columns=columns, fill_value=0)


def _counts(shown: pd.DataFrame) -> pd.DataFrame:
    return shown[[column for column in shown.columns if ":" not in column and column != "sum"]]


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_records_reproduce_every_clique_in_every_area(made: Made) -> None:
    """So whole numbers add up, and cliques agree: both are counts of the same records."""
    microdata = made.microdata()
    assert list(microdata.columns) == ["geocode", *ATTRIBUTES]
    for clique in CLIQUES:
        for level in LEVELS:
            published = _counts(made.table(clique, level))
            np.testing.assert_array_equal(published, _counted(microdata, clique, level))


def test_children_add_up_and_neighbours_agree_on_what_they_share(made: Made) -> None:
    """From the histograms alone, as they are published."""
    histograms = {}
    for folder in (made.root / "public", *(made.root / "public" / "companions").iterdir()):
        for level in LEVELS:
            table = pq.read_table(folder / "histograms" / f"{level}.parquet").to_pandas()
            names = tuple(name for name in table.columns if name not in ("geocode", "count"))
            histograms[names, level] = table.astype(dict.fromkeys(["geocode", *names], str))
    cliques = {names for names, _ in histograms}
    assert cliques == set(CLIQUES)

    def sums(names: tuple[str, ...], level: str, kept: list[str], width: int) -> dict[object, int]:
        table = histograms[names, level]
        table = table.assign(geocode=table["geocode"].str[:width])
        return dict(table.groupby(["geocode", *kept])["count"].sum())

    for names in cliques:
        for upper, lower in (("county", "tract"), ("tract", "block")):
            width = LEVELS[upper]
            assert sums(names, upper, list(names), width) == sums(names, lower, list(names), width)
    for one, other in combinations(sorted(cliques), 2):
        for level, width in LEVELS.items():
            shared = [name for name in one if name in other]
            assert sums(one, level, shared, width) == sums(other, level, shared, width)


def test_numbers_are_near_the_truth_and_most_truths_inside_their_intervals(made: Made) -> None:
    """Noise of a cell at the blocks: rho 3/8 a clique there, sigma^2 = 8 / 3."""
    truth, inside, narrow, errors = records(), list[bool](), list[bool](), list[float]()
    for clique in CLIQUES:
        for level in LEVELS:
            shown, true = made.table(clique, level), _counted(truth, clique, level)
            for column in true.columns:
                low, high = shown[f"{column}:low90"].to_numpy(), shown[f"{column}:high90"].to_numpy()
                inside += ((low <= true[column].to_numpy()) & (true[column].to_numpy() <= high)).tolist()
                middle, half = (low + high) / 2, (high - low) / 6
                narrow += (np.abs(true[column].to_numpy() - middle) <= half).tolist()
                errors += np.abs(shown[column].to_numpy() - true[column].to_numpy()).tolist()
    assert len(inside) == 18 * (32 + 12 + 12 + 10)
    assert np.mean(inside) > 0.88
    assert np.mean(narrow) < 0.88  # intervals of a third of the width do not hold what they promise
    assert 0 < np.mean(errors) < 1.5


def test_measurements_have_the_variance_that_the_budget_gives(made: Made) -> None:
    """Each of four cliques has rho 3/4, blocks half of it; change-one: sigma^2 = 2 / (2 rho)."""
    truth = records()
    noise = []
    for clique in CLIQUES:
        folder = (
            made.root / "public" if clique == ("school", "work") else made.root / "public/companions" / "-".join(clique)
        )
        table = pq.read_table(folder / "measurements" / "block" / f"{'.'.join(clique)}.parquet").to_pandas()
        assert set(table["variance"].round(9)) == {round(float(Fraction(8, 3)), 9)}
        noise.append(np.stack(table["value"].to_list()) - _counted(truth, clique, "block").to_numpy())
    drawn = np.concatenate([one.ravel() for one in noise])
    assert len(drawn) == 11 * 66
    assert abs(drawn.mean()) < 4 * (8 / 3 / len(drawn)) ** 0.5
    assert 0.8 < drawn.var() / (8 / 3) < 1.2
    assert not 0.8 < drawn.var() / (4 * 8 / 3) < 1.2  # what each clique would have, were the budget of each a quarter


def test_the_same_numbers_of_the_design_by_itself(made: Made) -> None:
    """The release is what the mathematics makes of the published measurements and nothing else."""
    domain = AttributeSizes(tuple(ATTRIBUTES), tuple(map(len, ATTRIBUTES.values())))
    tree = junction_tree(domain, [domain.clique(clique) for clique in CLIQUES])
    areas = [sorted({leaf[:width] for leaf in leaves()}) for width in LEVELS.values()]
    parents = [np.array([above.index(one[: len(above[0])]) for one in own]) for above, own in pairwise(areas)]
    noise: list[dict[Clique, NoiseSpec]] = []
    measured: list[dict[Clique, IntArray]] = []
    for level, share in zip(LEVELS, ("1/4", "1/4", "1/2"), strict=True):
        spec = NoiseSpec("discrete_gaussian", 1 / (Fraction(3, 4) * Fraction(share)))
        noise.append({domain.clique(clique): spec for clique in CLIQUES})
        measured.append({})
        for clique in CLIQUES:
            folder = (
                made.root / "public"
                if clique == ("school", "work")
                else made.root / "public/companions" / "-".join(clique)
            )
            table = pq.read_table(folder / "measurements" / level / f"{'.'.join(clique)}.parquet").to_pandas()
            measured[-1][domain.clique(clique)] = np.stack(table["value"].to_list())
    whole = CliqueDesign(tree, parents, noise).release(measured, Seed(0)).whole
    for number, bag in enumerate(tree.bags):
        names = tuple(domain.names[a] for a in bag)
        for level, tables in zip(LEVELS, whole, strict=True):
            np.testing.assert_array_equal(_counts(made.table(names, level)), tables[number])


# -- what it costs ----------------------------------------------------------------------------------------------------


def test_the_cost_is_the_sum_over_cliques_and_the_declared_budget(made: Made) -> None:
    manifest = json.loads((made.root / "public" / "manifest.json").read_text("utf-8"))
    budgets = [Fraction(one["budget"]) for one in manifest["privacy"]]
    assert budgets == [Fraction(3, 4)] * 4
    # Independently: rho of a Gaussian of variance v on a table of which one record changes two numbers by one is 1 / v.
    spent = sum(1 / Fraction(noise["scale"]) for one in manifest["privacy"] for noise in one["noise"] if noise["query"])
    assert spent == 3
    assert Fraction(manifest["joint"]["budget"]) == 3


def test_a_clique_with_more_of_the_budget_has_less_noise_and_all_of_them_cost_what_is_declared(tmp_path: Path) -> None:
    """One of four has 5 of 8 parts: rho 15/8, half of it in blocks; of even parts the variance is 8 / 3."""
    spec = write_wide(tmp_path / "in", ("[marginals]", '[marginals]\nparts = { "tenure * rooms" = 5 }'))
    root = run(spec, tmp_path / "out")
    truth, drawn = records(), {}
    for clique, expected in ((CLIQUES[3], Fraction(16, 15)), (CLIQUES[1], Fraction(16, 3))):
        file = root / "public/companions" / "-".join(clique) / "measurements" / "block" / f"{'.'.join(clique)}.parquet"
        table = pq.read_table(file).to_pandas()
        assert set(table["variance"].round(4)) == {round(float(expected), 4)}
        drawn[clique] = np.stack(table["value"].to_list()) - _counted(truth, clique, "block").to_numpy()
        assert 0.7 < drawn[clique].var() / float(expected) < 1.3
    manifest = json.loads((root / "public" / "manifest.json").read_text("utf-8"))
    assert [Fraction(one["budget"]) for one in manifest["privacy"]] == [Fraction(3, 8)] * 3 + [Fraction(15, 8)]
    assert sum(1 / Fraction(noise["scale"]) for one in manifest["privacy"] for noise in one["noise"]) == 3
    assert check_release(root) == []
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert [one for one in audit(root) if not one.passed] == []


def test_a_clique_that_is_not_measured_at_a_level_has_no_noise_there_and_others_have_its_part(tmp_path: Path) -> None:
    """Three cliques share the blocks' half of rho 3; the fourth has 2 of 5 parts of the county's quarter."""
    at = '[marginals.parts_at]\ncounty = { "tenure * rooms" = 2 }\nblock = { "tenure * rooms" = 0 }\n[strategy.levels]'
    spec = write_wide(tmp_path / "in", ("[strategy.levels]", at))
    root, truth = run(spec, tmp_path / "out"), records()
    rooms = root / "public/companions/tenure-rooms/measurements"
    assert sorted(path.name for path in rooms.iterdir()) == ["county", "tract"]
    variances = {
        level: {round(one, 9) for one in pq.read_table(rooms / level / "tenure.rooms.parquet")["variance"].to_pylist()}
        for level in ("county", "tract")
    }
    # rho 3/4 a level above the blocks, of which 2/5 and 1/4; sigma^2 = 2 / (2 rho).
    assert variances == {"county": {round(10 / 3, 9)}, "tract": {round(16 / 3, 9)}}
    file = root / "public/companions/age-sex-school/measurements/block/age.sex.school.parquet"
    table = pq.read_table(file).to_pandas()
    assert set(table["variance"].round(9)) == {2.0}  # rho 3/2, of which 1/3
    noise = np.stack(table["value"].to_list()) - _counted(truth, CLIQUES[1], "block").to_numpy()
    assert 0.7 < noise.var() / 2 < 1.3
    manifest = json.loads((root / "public" / "manifest.json").read_text("utf-8"))
    assert sum(1 / Fraction(one["scale"]) for each in manifest["privacy"] for one in each["noise"]) == 3
    assert Fraction(manifest["joint"]["budget"]) == 3
    # How unlike the blocks of a tract are in these is not known, but for the one block of B03, and in their tenure.
    shown = open_release(root).query("tenure * rooms").at("block").filter(like=":low90")
    assert shown.notna().all(axis=1).tolist() == [False] * 10 + [True]
    assert open_release(root).query("tenure").at("block").notna().to_numpy().all()
    assert check_release(root) == []
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert [one for one in audit(root) if not one.passed] == []
    for change, told in (
        ({"parts_at": [["block", [["tenure * rooms", 0]]]]}, "its part is 1 of 4"),
        ({"parts_at": None}, "has 0 of the 3/2 of all cliques at block; its part is 1 of 4"),
    ):
        changed = {**manifest["spec"], "marginals": {**manifest["spec"]["marginals"], **change}}
        assert any(told in one for one in parts_problems(read_form(changed), changed))
    told = spinewise("plan", spec, "--details").stdout
    assert "tenure * rooms" in told


def test_the_ledger_is_charged_the_declared_budget_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "ledger.sqlite"
    with Ledger.open(str(place), create=True, state=tmp_path / "state") as ledger:
        ledger.open_dataset("people", population="x", framework="zcdp", budget=Fraction(4), neighbours="change-one")
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    spec = write_wide(tmp_path / "in", ('key = "insecure-test:7"', 'dataset = "people"'))
    for _ in range(2):  # the same again costs nothing
        root = run(spec, tmp_path / "out")
        with Ledger.open(str(place), state=tmp_path / "state") as ledger:
            assert ledger.dataset("people").spent == 3
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert check_release(root) == []
    assert chain_problems(*read_ledger(str(place))) == []
    found = list(audit(root, ledger=str(place)))
    assert "charges" in {one.subject for one in found}
    assert [one for one in found if not one.passed] == []
    dearer = write_wide(
        tmp_path / "dearer", ('key = "insecure-test:7"', 'dataset = "people"'), ('name = "wide"', 'name = "more"')
    )
    with pytest.raises(sw.BudgetRefusedError):
        run(dearer, tmp_path / "out")
    assert not list((tmp_path / "out" / "more").rglob("measurements"))


def test_values_made_from_the_records_are_exact_disclosures_of_every_clique(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifest and ledger name them all; not accepted, the run is refused."""
    place = tmp_path / "ledger.sqlite"
    with Ledger.open(str(place), create=True, state=tmp_path / "state") as ledger:
        ledger.open_dataset("people", population="x", framework="zcdp", budget=Fraction(4), neighbours="change-one")
        ledger.allow_exact("people", *["inputs:schema"] * len(CLIQUES))
    monkeypatch.setenv("SPINEWISE_LEDGER", str(place))
    monkeypatch.setenv("SPINEWISE_STATE", str(tmp_path / "state"))
    stated = '[provenance]\ninputs.schema = { source = "records" }\n'
    charged = ('key = "insecure-test:7"', 'dataset = "people"')
    refused = write_wide(tmp_path / "refused", charged, ("[publish]", f"{stated}[publish]"))
    with pytest.raises(InputError, match=r"give away: schema \(from the records\); companions\.age-sex-school\.schema"):
        run(refused, tmp_path / "out")
    spec = write_wide(tmp_path / "in", charged, ("[publish]", f'{stated}accept = ["schema"]\n[publish]'))
    root = run(spec, tmp_path / "out")
    manifest = json.loads((root / "public" / "manifest.json").read_text("utf-8"))
    universes = ["", *("-".join(clique) for clique in CLIQUES[1:])]
    assert {(one["name"], one["source"], one["accepted"]) for one in manifest["provenance"]} == {
        ("geography", "public", False),
        *((f"companions.{name}.schema" if name else "schema", "records", True) for name in universes),
    }
    (receipt,) = manifest["receipts"]
    assert sorted((one["universe"], one["what"]) for one in receipt["exact"]) == sorted(
        (universe, "inputs:schema") for universe in universes
    )
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert [one for one in audit(root, ledger=str(place)) if not one.passed] == []


# -- records ----------------------------------------------------------------------------------------------------------


def _appended(table: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([table, table.iloc[[7]]])


def _moved_home(table: pd.DataFrame) -> pd.DataFrame:
    """As many records as before, one of them in another block."""
    block = table["block"].to_numpy().copy()
    block[7] = next(leaf for leaf in leaves() if leaf != block[7])
    return table.assign(block=block)


def _other_value(table: pd.DataFrame) -> pd.DataFrame:
    """As many records in every block, one of them with another value of what two cliques share."""
    return table.assign(
        **{
            name: [*table[name][:7], next(one for one in ATTRIBUTES[name] if one != table[name][7]), *table[name][8:]]
            for name in ("school", "work", "tenure")
        }
    )


@pytest.mark.parametrize("change", [_appended, _moved_home, _other_value])
@pytest.mark.parametrize("reading", [2, 3, 4])
def test_records_that_change_between_two_readings_are_refused_before_anything_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[pd.DataFrame], pd.DataFrame], reading: int
) -> None:
    """Each clique reads the file again; only the owner of the directory is told which numbers differ."""
    spec, readings = write_wide(tmp_path / "in"), list[object]()

    def tabulated(records: RecordSource, schema: Schema, spine: Spine) -> object:
        readings.append(records)
        if len(readings) == reading:
            file = tmp_path / "in" / "persons.csv"
            change(pd.read_csv(file, dtype=str, keep_default_na=False)).to_csv(file, index=False)
        return tabulate(records, schema, spine)

    monkeypatch.setattr(pipeline.confidential.measure, "tabulate", tabulated)
    with pytest.raises(RefusedError) as refused:
        run(spec, tmp_path / "out")
    assert refused.value.exit_status == 2
    assert "records that were counted" not in str(refused.value)
    text = refused.value.reason()
    assert text.startswith(f"companions.{'-'.join(CLIQUES[reading - 1])}.input: these are not the records that were c")
    assert len(text.splitlines()) == 1
    assert not list((tmp_path / "out").rglob("measurements"))
    assert [path.name for path in (tmp_path / "out").rglob("refused.txt")] == ["refused.txt"]


# -- judges -----------------------------------------------------------------------------------------------------------


def test_it_is_verified_checked_and_audited(made: Made) -> None:
    assert verify_release(RunDirectory(made.root), 1, Silent()) == []
    assert check_release(made.root) == []
    assert [one for one in audit(made.root) if not one.passed] == []


def test_noise_that_is_bound_to_each_clique_alone_is_caught_by_the_second_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stayed the same under one key would show which attributes did not change."""
    with monkeypatch.context() as planted:
        planted.setattr(pipeline.confidential.steps, "bound_fingerprints", lambda _key, _universes, own: dict(own))
        root = run(write_wide(tmp_path / "in"), tmp_path / "out")
    wrong = {f"{one.check}: {one.subject}": one.detail for one in audit(root) if not one.passed}
    assert wrong.keys() == {"key: commitment and records", "noise redrawn: measurements"}
    assert wrong["noise redrawn: measurements"].endswith(
        "; and 7 more"
    )  # five are named, of four cliques at three levels


def test_a_rerun_has_the_same_bytes(made: Made) -> None:
    directory = RunDirectory(made.root)
    with rerun_process(directory, KeySource(None)) as measured:
        again = rerun_release(directory, universes_to_rerun(directory, None, None), measured, 1, Silent())
    assert again.differences == ()


def _moved(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Change the rows of a file, with its header and types."""
    table = pq.read_table(path)
    changed = pa.Table.from_pandas(change(table.to_pandas()), table.schema, preserve_index=False)
    pq.write_table(changed.cast(table.schema), path)


def _one_more(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(count=table["count"] + (np.arange(len(table)) == 0))


def _other_car(table: pd.DataFrame) -> pd.DataFrame:
    """One record has another car: still a person of its block, of a table that no longer has so many."""
    cars = table["car"].to_numpy().astype(object)
    cars[3] = "yes" if cars[3] == "no" else "no"
    return table.assign(car=pd.Categorical(cars, list(ATTRIBUTES["car"])))


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("companions/tenure-rooms/histograms/tract.parquet", _one_more, "the sum"),
        ("histograms/block.parquet", _one_more, "the sum"),
        ("microdata.parquet", _other_car, "the count in public/companions/work-tenure-car/"),
    ],
)
def test_a_changed_file_is_caught_by_verify_and_by_the_second_program(
    made: Made, tmp_path: Path, file: str, change: Callable[[pd.DataFrame], pd.DataFrame], said: str
) -> None:
    root = tmp_path / "changed"
    shutil.copytree(made.root, root)
    _moved(root / "public" / file, change)
    assert any(file in problem for problem in verify_release(RunDirectory(root), 1, Silent()))
    assert any(said in problem for problem in check_release(root))


def test_universes_that_add_up_and_disagree_are_caught_by_the_second_program(made: Made, tmp_path: Path) -> None:
    """One table with a renter more and an owner less in one block, in all areas above it and in its own tables."""
    root = tmp_path / "changed"
    shutil.copytree(made.root, root)
    folder = root / "public" / "companions" / "tenure-rooms"
    block = pq.read_table(folder / "histograms" / "block.parquet").to_pandas().astype({"geocode": str})
    row = block[(block["tenure"] == "owner") & (block["count"] > 1)].iloc[0]
    for level, width in LEVELS.items():
        _moved(folder / "histograms" / f"{level}.parquet", partial(_with_renter, row=row, width=width))
    problems = check_release(root)
    assert any("the sum in public/companions/work-tenure-car/" in problem for problem in problems)
    assert not any("the sum over its children" in problem for problem in problems)


def _with_renter(table: pd.DataFrame, row: pd.Series, width: int) -> pd.DataFrame:
    table = table.astype({"geocode": str, "tenure": str, "rooms": str})
    area, rooms = row["geocode"][:width], row["rooms"]
    keys = zip(table["geocode"], table["tenure"], table["rooms"], strict=True)
    counts: dict[tuple[str, str, str], int] = dict(zip(keys, table["count"], strict=True))
    counts[area, "owner", rooms] -= 1
    counts[area, "renter", rooms] = counts.get((area, "renter", rooms), 0) + 1
    order = sorted(
        counts, key=lambda key: (key[0], ATTRIBUTES["tenure"].index(key[1]), ATTRIBUTES["rooms"].index(key[2]))
    )
    rows = [(*key, counts[key]) for key in order if counts[key]]
    return pd.DataFrame(rows, columns=["geocode", "tenure", "rooms", "count"])


# -- the same bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_workers_do_not_change_a_byte(made: Made, tmp_path: Path) -> None:
    again = public_bytes(run(made.spec, tmp_path / "out", workers=2))
    whole = public_bytes(made.root)
    assert [name for name in whole if whole[name] != again[name] and "manifest" not in name] == []


@pytest.mark.slow
@pytest.mark.parametrize(("event", "number"), [("finish", 20), ("finish", 27), ("sync", 150)])
def test_a_run_that_is_killed_is_resumed_to_the_same_bytes(made: Made, tmp_path: Path, event: str, number: int) -> None:
    whole = public_bytes(made.root)
    assert kill_at(made.spec, tmp_path / "out", event, number)
    again = public_bytes(run(made.spec, tmp_path / "out"))
    assert whole.keys() == again.keys()
    assert [name for name in whole if whole[name] != again[name] and "manifest" not in name] == []


# -- questions --------------------------------------------------------------------------------------------------------


def test_a_table_across_cliques_is_refused_with_the_clique_that_it_needs(made: Made) -> None:
    release = made.release
    with pytest.raises(InputError, match=r"the clique age x car \(8 cells\) would be needed"):
        release.query("age * car")
    with pytest.raises(InputError, match="'colour' is not an attribute of the release; it has age, sex"):
        release.query("colour")
    with pytest.raises(InputError, match=r"no table .age.; the tables are school\.work, age\.sex\.school"):
        release.table("age", "county")
    assert list(_counts(release.query("tenure").at("county")).columns) == ["owner", "renter"]
    pd.testing.assert_frame_equal(
        release.table("tenure.rooms", "tract"), release.companion("tenure-rooms").table("tenure.rooms", "tract")
    )


def test_the_command_line_tells_of_every_clique(made: Made) -> None:
    told = spinewise("plan", made.spec).stdout
    assert "rho = 0.75, rho = 0.75 of age-sex-school" in told
    assert "Mean error of one number of tenure-rooms: tenure * rooms" in told
    divided = spinewise("plan", made.spec, "--rho", "3", "--weights", "tract: work = 1")
    assert (divided.returncode, len(divided.stderr.strip().splitlines())) == (2, 1)
    assert "universes that are estimated together cannot be divided yet" in divided.stderr
    assert "1,500 rows, 1,500 counted, 11 leaves" in spinewise("validate", made.spec.parent, made.spec).stdout
    crossing = spinewise("query", made.root, "age", "--where", "car=no", "--at", "county")
    assert (crossing.returncode, "the clique age x car (8 cells) would be needed" in crossing.stderr) == (2, True)
    shown = spinewise("query", made.root, "rooms", "--where", "tenure=owner", "--at", "county", "--format", "csv")
    assert shown.stdout.startswith("geocode,1,")
    assert spinewise("query", made.root, "--table", "tenure.rooms", "--at", "county").returncode == 0


def test_python_gives_the_records_once(made: Made, tmp_path: Path) -> None:
    """They are the release's own, and stand for every clique."""
    spec = sw.Spec.read(made.spec)
    release = sw.run(spec, records=records().sample(frac=1, random_state=1), out=tmp_path / "out", workers=1)
    whole, again = public_bytes(made.root), public_bytes(release.directory)
    assert [name for name in whole if whole[name] != again[name] and "manifest" not in name] == []


def test_a_published_spec_is_that_of_the_file(made: Made) -> None:
    spec = load_spec(made.spec)
    content = spec.public_dict()
    again = ReleaseSpec.from_public_dict(json.loads(json.dumps(content)))
    assert again.public_dict() == content
    assert [one.privacy_fingerprint() for one in again.universes()] == [
        one.privacy_fingerprint() for one in spec.universes()
    ]
    assert {one.together is not None for one in again.universes()} == {True}
