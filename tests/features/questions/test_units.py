"""Questions on units with several records, from end to end: numbers near those by hand, what they cost, and checks."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import pytest
from releases.asked import TOTAL, UNITS, ask, checked, ledger_of, spent, truth, write_workers

import features.questions.request
from auditor.ledger import chain_problems, read_ledger
from pipeline.errors import InputError, RefusedError, SpecError
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import MANIFEST, read_answer
from pipeline.release.layout import RunDirectory
from pipeline.runs.questions.public_files import verify_answer


def rows(root: Path) -> list[dict[str, str]]:
    with (root / "public" / "answer.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def boundless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets that leave hardly any noise, to compare with numbers by hand."""
    monkeypatch.setattr(features.questions.request, "LARGEST_RHO", 10**6)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_workers(tmp_path / "units", UNITS, TOTAL)


@pytest.mark.usefixtures("boundless")
def test_units_and_totals_are_counted_as_by_hand_and_charged_as_drawn(spec: Path) -> None:
    people, large = truth(spec), "200000"
    with ledger_of(spec.parent, budget="1000000") as place:
        everywhere = ask(spec, "count units", large)
        by_sex = ask(spec, "count units by county, sex where age != 0-17", large)
        records = ask(spec, "count units by records_per_unit", large)
        total = ask(spec, "sum wages by county", large)
        assert spent(place) == 800_000
        manifests = [read_answer(RunDirectory(root)) for root in (everywhere, by_sex, records, total)]
    # A count of units has the noise of one number, or of as many as one may be in; a total that of its ends.
    assert [manifest.parts[0].scale for manifest in manifests] == [
        str(Fraction(2 * n, 2 * 200_000)) for n in (1, 2, 1, 600**2)
    ]
    assert [int(row["count"]) for row in rows(everywhere)] == [people["worker"].nunique()]
    of_each = people.groupby("worker").size().value_counts()
    assert [int(row["count"]) for row in rows(records)] == [int(of_each.get(n, 0)) for n in range(1, 21)]
    grown = people[people["age"] != "0-17"]
    groups = grown.drop_duplicates(["worker", "county", "sex"]).groupby("worker").size()
    assert sum(int(row["count"]) for row in rows(by_sex)) == groups.clip(upper=2).sum()
    # Of each worker at most 600 units, of all records: a little less where rounding cannot be shared by equal amounts.
    by_hand = people.groupby("worker")["units"].sum().clip(upper=600).sum()
    found = sum(int(row["sum"]) for row in rows(total)) // 100
    assert by_hand - 20 <= found <= by_hand + 5


@pytest.mark.usefixtures("boundless")
def test_a_mean_of_totals_is_of_the_records_that_its_count_has(spec: Path) -> None:
    with ledger_of(spec.parent, budget="1000000"):
        root = ask(spec, "mean wages by county", "200000")
        manifest = read_answer(RunDirectory(root))
        count, total = (sum(float(row[name]) for row in rows(root)) for name in ("count", "mean"))
    parts = {part.name: part for part in manifest.noisy}
    assert (parts["sum"].about, parts["sum"].centre, parts["count"].about) == ("total", 0, "record")
    assert parts["count"].scale == str(Fraction(2 * 4, 2 * 100_000))
    assert parts["sum"].scale == str(Fraction(2 * 600**2, 2 * 100_000))
    sizes = truth(spec).groupby("worker").size().clip(upper=2).sum()
    assert abs(count - sizes) <= 2
    assert 0 < total < 2 * 60_000


def test_a_manifest_that_states_fewer_numbers_of_a_unit_is_noticed(spec: Path) -> None:
    with ledger_of(spec.parent):
        root = ask(spec, "count units by sex")
    path = root / "public" / MANIFEST
    content = json.loads(path.read_text("utf-8"))
    assert content["parts"][0]["numbers"] == 2
    content["parts"][0] |= {"numbers": 1, "budget": "1/40"}
    content["budget"] = "1/40"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert any(
        "a unit can be in 2 numbers" in problem or "charged" in problem for problem in verify_answer(RunDirectory(root))
    )
    content["receipts"][0]["cost"] = "1/40"
    path.write_text(json.dumps(content), encoding="utf-8")
    assert any("a unit can be in 2 numbers, stated are 1" in problem for problem in verify_answer(RunDirectory(root)))


def test_what_needs_units_is_refused_without_a_charge(tmp_path: Path, spec: Path) -> None:
    with pytest.raises(InputError, match="records without units"):
        checked(write_workers(tmp_path / "plain"), "count units")
    with pytest.raises(SpecError, match=r"ends: found 'total', and no units"):
        checked(write_workers(tmp_path / "total", TOTAL), "sum wages")
    path = spec.parent / "workers.csv"
    lines = path.read_text("utf-8").splitlines()
    path.write_text("\n".join([*lines, lines[-1].rpartition(",")[0] + ","]) + "\n", encoding="utf-8")
    with ledger_of(spec.parent) as place:
        with pytest.raises(RefusedError) as refused:
            ask(spec, "count units by sex")
        assert (refused.value.exit_status, spent(place)) == (2, 0)


def test_a_dataset_of_units_is_charged_for_nothing_that_protects_records_alone(tmp_path: Path) -> None:
    """The unit stands in the ledger, so that a spec that forgets it, or names another, is refused."""
    place, state = tmp_path / "ledger.sqlite", tmp_path / "state"
    with Ledger.open(str(place), create=True, state=state) as ledger:
        ledger.open_dataset(
            "workers",
            population="made up",
            framework="zcdp",
            budget=Fraction(1),
            neighbours="change-one",
            units="worker",
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", str(place))
        patch.setenv("SPINEWISE_STATE", str(state))
        others = (UNITS[0], UNITS[1].replace('"worker"', '"shift"'))
        for number, (changes, found) in enumerate([((), "no units"), ((others,), "the units 'shift'")]):
            spec = write_workers(tmp_path / str(number), *changes)
            with pytest.raises(InputError, match=found) as refused:
                ask(spec, "count by sex")
            assert refused.value.exit_status == 2
        ask(write_workers(tmp_path / "right", UNITS), "count by sex")
    with Ledger.open(str(place), state=state) as ledger:
        assert ledger.verify() == ()
        assert (ledger.dataset("workers").units, ledger.dataset("workers").spent) == ("worker", Fraction(1, 20))
    assert chain_problems(*read_ledger(str(place))) == []
