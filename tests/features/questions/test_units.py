"""Questions on units with several records, and on records in other forms: numbers near those by hand, and costs."""

from __future__ import annotations

import csv
import hashlib
import hmac
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.asked import SPEC, TOTAL, UNITS, ask, checked, ledger_of, spent, truth, write_workers

import features.questions.confidential
import features.questions.request
from auditor.ledger import chain_problems, read_ledger
from features.questions.confidential import units_counted
from features.questions.section import QuestionsPart
from pipeline.errors import InputError, RefusedError, SpecError
from pipeline.model.promise import Promise
from pipeline.model.schema import AmountAttribute, Attribute, Schema
from pipeline.privacy.budget import FRAMEWORKS, NEIGHBOURS, Framework, Neighbours
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.domain import Domain
from pipeline.questions.manifest import read_answer
from pipeline.questions.resolve import resolve
from pipeline.questions.resolved import Resolved, records_of_unit
from pipeline.questions.sensitivity import measured
from pipeline.questions.text import QuestionError, parse
from pipeline.records.tabulate import CountAccumulator, UnitRecords
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import parse_spec


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
        assert refused.value.exit_status == 2
        assert spent(place) == 0


def test_a_dataset_of_units_is_charged_for_nothing_that_protects_records_alone(tmp_path: Path) -> None:
    """The unit stands in the ledger, so that a spec that forgets it, or names another, is refused."""
    with ledger_of(tmp_path, units="worker") as place:
        others = (UNITS[0], UNITS[1].replace('"worker"', '"shift"'))
        for number, (changes, found) in enumerate([((), "no units"), ((others,), "the units 'shift'")]):
            spec = write_workers(tmp_path / str(number), *changes)
            with pytest.raises(InputError, match=found) as refused:
                ask(spec, "count by sex")
            assert refused.value.exit_status == 2
        ask(write_workers(tmp_path / "right", UNITS), "count by sex")
    assert spent(place) == Fraction(1, 20)
    with Ledger.open(str(place), state=tmp_path / "state") as ledger:
        assert ledger.dataset("workers").units == "worker"
    assert chain_problems(*read_ledger(str(place))) == []


LEAVES = np.arange(2)
SCHEMA = Schema((Attribute("sex", ("f", "m")),))
AT_MOST = 2


def keyed(data: bytes) -> bytes:
    return hmac.digest(b"key", data, hashlib.sha256)


def resolved(text: str, ends: tuple[int, int] = (0, 3), *, total: bool = True) -> Resolved:
    amount = AmountAttribute.of("pay", Fraction(ends[0]), Fraction(ends[1]), Fraction(1), total=total)
    return resolve(parse(text), Domain(("block",), SCHEMA, {"pay": amount}, units=records_of_unit(AT_MOST)))


QUESTIONS = [
    resolved("count units"),
    resolved("count units by block"),
    resolved("count units by block, sex"),
    resolved("count units by sex where sex = f"),
    resolved("count units by records_per_unit"),
    resolved("count units by block, records_per_unit where sex = f"),
    resolved("count units by sex where records_per_unit >= 2"),
    resolved("sum pay"),
    resolved("sum pay by block, sex"),
    resolved("sum pay by sex where pay >= 2"),
    resolved("sum pay by block", (-2, 3)),
    resolved("mean pay by block"),
    resolved("count by block, sex"),
    resolved("sum pay by sex", total=False),
]

#: Records of somebody else, who stays.
OTHERS = [(1, 0), (1, 1), (1, 1)]


def numbers(question: Resolved, own: tuple[int, ...], at_most: int = AT_MOST) -> dict[str, np.ndarray]:
    """The numbers where unit 0 has records with these keys, and unit 1 some others."""
    rows = [*((0, key) for key in own), *((unit, key % (2 * question.read.n_cells)) for unit, key in OTHERS)]
    units, keys = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    places = LEAVES if question.level else np.zeros(2, dtype=np.int64)
    kept = units_counted(question, UnitRecords(units, ["p", "q"], keys), places, at_most, keyed)
    counter = CountAccumulator(len(places), question.schema.n_cells)
    counter.add(kept.counted[kept.counted >= 0])
    counts = counter.finish()
    return question.answers(counts, places, 2 if question.level else 1)


def every_answer(question: Resolved, at_most: int = AT_MOST) -> np.ndarray:
    """All numbers in a row each, of all units with up to three records: the first of a unit without any."""
    keys = range(2 * question.read.n_cells)
    owns = [own for size in range(4) for own in itertools.combinations_with_replacement(keys, size)]
    found = [numbers(question, own, at_most) for own in owns]
    rows = np.array([np.concatenate([one[part.name].ravel() for part in question.parts]) for one in found])
    return np.concatenate([rows[:1], np.unique(rows[1:], axis=0)])


def cost(question: Resolved, table: np.ndarray, framework: Framework, neighbours: Neighbours) -> Fraction:
    """What the dearest pair of neighbours costs, by the definitions, where all parts have a budget of 1 together."""
    places = 2 if question.level else 1
    parts = measured(
        question.parts, Promise(framework, neighbours, Fraction(1), AT_MOST), question.numbers_of_unit(places)
    )
    scales = np.concatenate([np.full(places * question.size, float(one.mechanism.scale)) for one in parts])
    apart = np.abs(table[:, None, :] - (table if neighbours == "change-one" else table[:1])[None, :, :])
    worst = (apart**2 / (2 * scales) if framework == "zcdp" else apart / scales).sum(axis=2).max()
    return Fraction(float(worst)).limit_denominator(10**9)


@pytest.mark.parametrize("number", range(len(QUESTIONS)), ids=lambda number: QUESTIONS[number].text)
def test_no_unit_costs_more_than_the_budget(number: int) -> None:
    """And no less than all of it where there are twice as many numbers as a unit can be in."""
    table = every_answer(QUESTIONS[number])
    for framework, neighbours in itertools.product(FRAMEWORKS, NEIGHBOURS):
        assert cost(QUESTIONS[number], table, framework, neighbours) <= 1, (framework, neighbours)
    if number in (2, 4, 8, 12):
        assert cost(QUESTIONS[number], table, "zcdp", "change-one") == 1


@pytest.mark.parametrize("number", [2, 12, 13])
def test_a_cap_that_is_forgotten_is_found(number: int) -> None:
    near: Neighbours = "change-one" if number == 12 else "add-remove"
    assert cost(QUESTIONS[number], every_answer(QUESTIONS[number], at_most=9), "zcdp", near) > 1


@pytest.mark.parametrize("number", [8, 11])
def test_ends_that_are_forgotten_are_found(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features.questions.confidential, "taken_to_ends", lambda _units, amounts, _amount: (amounts, 0))
    assert cost(QUESTIONS[number], every_answer(QUESTIONS[number]), "zcdp", "add-remove") > 1


def test_all_records_of_a_unit_are_in_its_total_but_not_in_a_mean() -> None:
    """Three records of 1 within an end of 3: a sum has all of them, a mean has two."""
    own = (1, 1, 1)  # leaf 0, f, 1
    before = {
        name: numbers(question, ())["sum"].sum() for name, question in (("s", QUESTIONS[7]), ("m", QUESTIONS[11]))
    }
    assert numbers(QUESTIONS[7], own)["sum"].sum() - before["s"] == 3
    assert numbers(QUESTIONS[11], own)["sum"].sum() - before["m"] == 2
    # A condition is about what an amount is before: two records of 3 within an end of 3 both count as at least 2.
    assert numbers(QUESTIONS[9], (3, 3))["sum"].sum() - numbers(QUESTIONS[9], ())["sum"].sum() == 2


@pytest.mark.parametrize(
    ("text", "said"), [("count units by pay", "it is an amount"), ("count by records_per_unit", "records_per_unit")]
)
def test_what_cannot_be_asked_is_refused(text: str, said: str) -> None:
    with pytest.raises(QuestionError, match=said):
        resolved(text)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["0", "60000"]', '["0"]', "wages.between: found a list of 1 entry; at least 2 are needed"),
        ('["0", "60000"]', '["0", "1", "2"]', "wages.between: found a list of 3 entries; at most 2 are allowed"),
        ('["0", "60000"]', "[0]", 'write it in quotes, "0"'),
        ('["0", "60000"]', '["0", "60050"]', "wages.between"),
        ('unit = "100"\n', "", "wages.unit: between and unit are needed together"),
        ('column = "pay"\n', 'values = ["a"]\n', "wages.values: found both of values and between"),
        ('["day", "night"]', '["day", "day"]', "shift.values: a value stands twice"),
        ('["day", "night"]', '["day", "night"]\nmissing = "dusk"', "shift.missing: found 'dusk'"),
        ('["day", "night"]', '["day", "night"]\nends = "total"', "shift.ends: only for an amount"),
    ],
)
def test_what_is_refused_is_named_by_its_key(old: str, new: str, says: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC.replace(old, new), "a.toml", Path())
    assert [line for line in str(error.value).splitlines() if line.startswith("a.toml: questions.") and says in line]


def test_keys_that_are_not_published_are_in_no_public_spec() -> None:
    spec = parse_spec(SPEC, "a.toml", Path())
    part = spec.part(QuestionsPart)
    assert part is not None
    assert sorted(part.questions or ()) == ["shift", "wages"]
    without = parse_spec(SPEC[: SPEC.index("[questions.")], "a.toml", Path())
    assert spec.public_dict() == without.public_dict()
