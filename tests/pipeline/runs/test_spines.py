"""Other spines from spec to release: regrouped, of unequal depth, with areas that have one child alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from releases.command import feature_module
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, run, write_town

import pipeline.model.draw
from auditor.program import audit
from geography.build import spine_from_table
from geography.spine import NOT_MEASURED, Spine, last_levels
from pipeline.execution.steps import Silent
from pipeline.inputs.geography import read_spine
from pipeline.plan import Plan
from pipeline.privacy.accounting.conversion import zcdp_epsilon
from pipeline.privacy.accounting.statements import _most_on_queries, privacy_statements
from pipeline.privacy.ledger.dataset import replay
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.ledger.report import spent_epsilon
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import public_files, read_manifest, write_manifest
from pipeline.release.measurements import MeasurementWriter, read_measurement
from pipeline.release.spine import read_public_spine
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec
from pipeline.storage.paths import unchecked

LEVELS = "levels = { county = 1, tract = 3, block = 5 }"
LIGHT = ("replicates = 3\nunbiased = true", "margins = false")


@pytest.mark.slow
def test_the_spine_of_a_regrouped_release_is_public(tmp_path: Path) -> None:
    """With two places that cut through the town's tracts."""
    spec = write_town(tmp_path / "in", (LEVELS, f'{LEVELS}\nregroup = {{ file = "areas.csv" }}'), LIGHT)
    blocks = pd.read_csv(tmp_path / "in" / "blocks.csv", dtype=str)["block"]
    rows = [("place", "1", block) for block in blocks[3:9]] + [("reservation", "9", block) for block in blocks[11:15]]
    pd.DataFrame(rows, columns=["kind", "code", "geocode"]).to_csv(tmp_path / "in" / "areas.csv", index=False)
    root = run(spec, tmp_path / "out")
    directory = RunDirectory(root)
    public = read_public_spine(unchecked(directory.spine), ["county", "tract", "block"])
    assert public.fingerprint() == read_spine(load_spec(spec).geography).fingerprint()
    new = [str(code) for code in public.levels[1].geocodes if "-" in code]
    assert new
    assert new[0].startswith("A-")
    inside = blocks[3:9]
    parents = public.levels[1].geocodes[public.leaf_level.parents]
    unit = dict(zip(public.leaf_level.geocodes.tolist(), parents.tolist(), strict=True))
    whole = {unit[block] for block in inside}
    assert sorted(block for block, of in unit.items() if of in whole) == sorted(inside)


BYPASS = (LEVELS, f"{LEVELS}\nbypass = true")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town in which county C is one block, and tract A02 too."""
    path = write_town(tmp_path_factory.mktemp("bypass"), *QUICK, BYPASS)
    for name in ("blocks", "facilities", "persons", "units"):
        table = pd.read_csv(path.parent / f"{name}.csv", dtype=str)
        inside = table["block"].str.startswith("A02") & (table["block"] != "A0201")
        table.loc[table["block"].str.startswith("B03"), "block"] = "C" + table["block"].str[1:]
        table.loc[table["block"].str.startswith("C"), "block"] = "C0301"
        table = table[~inside]
        if name in ("blocks", "facilities"):
            table = table.drop_duplicates("block")
        if name == "units":
            table["count"] = table["count"].astype(int)
            table = table.groupby(["block", "status"], as_index=False).agg({"count": "sum"})
        table.to_csv(path.parent / f"{name}.csv", index=False)
    return path


@pytest.fixture(scope="module")
def release(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(spec, tmp_path_factory.mktemp("released"))


def test_the_measurements_are_of_other_geounits_with_other_noise(release: Path) -> None:
    found = open_finished(release, check_hashes=False)
    county, tract, block = (
        read_measurement(unchecked(found.run.main.measurement(level, "detailed")))
        for level in ("county", "tract", "block")
    )
    assert county.geocodes.tolist() == ["A", "B", "C"]
    assert "C03" not in tract.geocodes.tolist()
    assert not {"C0301", "A0201"} & set(block.geocodes.tolist())
    by_county = dict(zip(county.geocodes.tolist(), county.variances.tolist(), strict=True))
    by_tract = dict(zip(tract.geocodes.tolist(), tract.variances.tolist(), strict=True))
    # rho = 2, half of each level for the detail: 1 / (2 x share x 1 / 2).
    assert by_county == {"A": 4.0, "B": 4.0, "C": pytest.approx(1.0, rel=1e-4)}
    assert by_tract["A02"] == pytest.approx(1 / 0.75, rel=1e-4)
    assert by_tract["A01"] == 4.0
    assert set(block.variances.tolist()) == {2.0} or np.allclose(block.variances, 2.0, rtol=1e-4)


def test_a_level_without_queries_hands_nothing_down() -> None:
    table = pd.DataFrame({"a": ["1", "1", "2"], "b": ["11", "12", "21"], "c": ["111", "121", "211"]})
    spine = spine_from_table(pa.Table.from_pandas(table), ["a", "b", "c"])
    assert [one.tolist() for one in last_levels(spine, [True, True, True])] == [[0, 2], [2, 2, -1], [-1, -1, -1]]
    assert [one.tolist() for one in last_levels(spine, [False, True, True])] == [[-1, -1], [2, 2, 2], [-1, -1, -1]]
    assert [one.tolist() for one in last_levels(spine, [True, False, True])] == [[0, 2], [-1] * 3, [2, 2, -1]]
    assert NOT_MEASURED == -1


def noise_failed(directory: RunDirectory) -> list[Any]:
    """What the first program finds wrong with the noise, without the key."""
    found = feature_module("features.audit.finished").noise_findings(directory.root)
    return [finding for finding in found if not finding.passed]


def test_the_audit_finds_noise_of_another_scale_where_levels_are_bypassed(release: Path, tmp_path: Path) -> None:
    shutil.copytree(release, tmp_path / "town")
    directory = RunDirectory(tmp_path / "town")
    path = directory.main.measurement("county", "detailed")
    stored = read_measurement(unchecked(path))
    kinds = np.zeros(len(stored.geocodes), dtype=np.int8)
    with MeasurementWriter.open(path, tmp_path, stored.header) as writer:
        writer.write(stored.geocodes, stored.values, kinds)
    found = [finding for finding in audit(directory.root) if not finding.passed]
    assert any("do not have the variance" in str(finding) for finding in found)
    assert any("variances are not those" in problem for problem in _recompute(directory))


def test_the_audit_finds_a_child_that_is_measured_with_the_budget_of_its_parent(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What overspends: both geounits of a chain are measured, the upper one with both shares."""

    def both(spine: Spine, measured: Sequence[bool]) -> list[NDArray[np.int64]]:
        right = last_levels(spine, measured)
        return [np.where(one == NOT_MEASURED, number, one) for number, one in enumerate(right)]

    shutil.copytree(spec.parent, tmp_path / "in")
    light = spec.read_text().replace("replicates = 2\nunbiased = true", "margins = false")
    (tmp_path / "in" / "release.toml").write_text(light)
    monkeypatch.setattr(pipeline.model.draw, "last_levels", both)
    with pytest.raises(ValueError, match="is promised"):
        run(tmp_path / "in" / "release.toml", tmp_path / "refused")
    monkeypatch.setattr(Plan, "checked", lambda self: self)  # who audits has nothing of the plan's
    directory = RunDirectory(run(tmp_path / "in" / "release.toml", tmp_path / "out"))
    monkeypatch.undo()
    assert {"headers", "noise redrawn"} & {f.check for f in audit(directory.root) if not f.passed}
    assert any("does not have the geounits" in problem for problem in verify_release(directory, 1, Silent()))
    wrong = noise_failed(directory)
    assert any("are not those that the spec calls for" in finding.detail for finding in wrong)


def _recompute(directory: RunDirectory) -> list[str]:
    manifest = read_manifest(directory.manifest)
    directory.manifest.unlink()
    write_manifest(directory, manifest.model_copy(update={"files": public_files(directory)}))
    return verify_release(directory, 1, Silent())


def test_the_ledger_is_charged_the_price_of_any_path(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with Ledger.open(url, create=True) as ledger:
        for name, rho, exact in (("people", "2", PEOPLE_EXACT), ("homes", "1", UNITS_EXACT)):
            stated = {"population": "made up", "framework": "zcdp", "neighbours": "change-one"}
            ledger.open_dataset(name, budget=Fraction(rho), exact=exact, **stated)  # type: ignore[arg-type]
    shutil.copytree(spec.parent, tmp_path / "in")
    text = spec.read_text().replace('key = "insecure-test:1"', 'dataset = "people"')
    text = text.replace('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "homes" }')
    text = text.replace("replicates = 2\nunbiased = true", "margins = false")
    (tmp_path / "in" / "release.toml").write_text(text)
    monkeypatch.setenv("SPINEWISE_LEDGER", url)
    directory = RunDirectory(run(tmp_path / "in" / "release.toml", tmp_path / "out"))
    with Ledger.open(url) as ledger:
        states, problems = replay(ledger.id, ledger.events())
        charged = list(ledger.events())
    assert problems == []
    assert (states["people"].spent, states["homes"].spent) == (Fraction(2), Fraction(1))
    counts = {(e.level, e.query): e.count for e in charged if e.kind == "charge" and e.dataset == "people"}
    assert counts["county", "total (bypass)"] == 3
    assert counts["tract", "total (bypass)"] == len(
        read_measurement(unchecked(directory.main.measurement("tract", "total"))).geocodes
    )
    assert spent_epsilon(states["people"], Fraction(1, 10**10)) == zcdp_epsilon(2, Fraction(1, 10**10))
    findings = audit(directory.root, ledger=url)
    assert [finding for finding in findings if not finding.passed] == []


def test_every_path_costs_the_budget_and_no_more_on_an_attribute_or_a_place_than_is_stated(release: Path) -> None:
    found = open_finished(release, check_hashes=False)
    for universe in found.universes:
        account = privacy_statements(universe)
        assert account.record.budget == str(universe.budget)
        assert account.record.losses is None
        spent = {name: np.full(found.spine.n_leaves, Fraction(0), dtype=object) for name in universe.schema.names}
        below = {level: np.full(found.spine.n_leaves, Fraction(0), dtype=object) for level in universe.level_names[:-1]}
        whole = np.full(found.spine.n_leaves, Fraction(0), dtype=object)
        for draw in universe.draws(found.spine):
            number = found.spine.index_of(draw.level)
            kinds = np.zeros(len(found.spine.levels[number]), dtype=int) if draw.kinds is None else draw.kinds
            costs = np.array([*(Fraction(1) / noise.scale for noise in draw.drawn), Fraction(0)], dtype=object)
            cost = costs[kinds][found.spine.leaf_ancestors(number)]
            whole = whole + cost
            for place, name in enumerate(universe.schema.names):
                if draw.query.groups[place].any():
                    spent[name] = spent[name] + cost
            for level in below:
                if universe.level_names.index(level) < number:
                    below[level] = below[level] + cost
        assert set(whole.tolist()) == {universe.budget}
        for one in account.attributes:
            assert max(spent[one.of]) <= Fraction(one.budget)
        for one in account.places:
            assert max(below[one.of]) <= Fraction(one.budget)


def test_the_worst_path_counts_for_an_attribute() -> None:
    half, quarter = Fraction(1, 2), Fraction(1, 4)
    shares, seen = [quarter, quarter, half], [Fraction(1), Fraction(0), half]
    # Bypassing all: everything goes to the queries of the top; never bypassing: 1/4 + 0 + 1/4.
    assert _most_on_queries(shares, seen) == 1
    assert _most_on_queries(shares, [half, half, half]) == half
    assert _most_on_queries(shares, [Fraction(0), Fraction(1), Fraction(0)]) == Fraction(3, 4)
    assert _most_on_queries([Fraction(0), half, half], [Fraction(1), Fraction(0), Fraction(1)]) == half
