"""Cliques that are chosen privately, from the spec to the second program; and faults in it, each of which is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import spinewise
from releases.killed import kill_at
from releases.repeated import rerun
from releases.small import public_bytes, run
from releases.wide import ATTRIBUTES, CHOSEN, records, write_wide

import features.marginals.confidential as confidential
import features.marginals.stage as stage
import spinewise as sw
from auditor import sampler
from auditor.check.release import check_release
from auditor.ledger import read_ledger
from auditor.program import audit
from features.marginals.choice import ChoiceTerms, Pairs, candidates, scores_of, tables_of
from features.marginals.cliques import AttributeSizes, Clique, filling
from features.marginals.confidential import chosen_pairs
from features.marginals.section import ChooseSection
from features.marginals.stage import ChoiceWork
from features.marginals.tree import Cliques
from pipeline.confidential.custody import Keyholder, KeySource
from pipeline.errors import BudgetRefusedError, InputError, SpecError
from pipeline.execution.progress import Silent
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.joint import joint_statement
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.accounting.uses import earlier_of
from pipeline.privacy.budget import MOVED, Framework, Neighbours, NoiseSpec
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.events import Group, by_losses, cost_of, per_person
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

DECLARED = CHOSEN[0]
#: Three pairs beyond a tree.
FURTHER = (DECLARED, 'choose = { share = "1/10", attributes_share = "1/20", further = 3, all_cells = 200 }')
#: Some key; not one of a pattern, which the second program would find.
KEY = hashlib.sha256(b"of these tests").digest()
CHARGED = ('key = "insecure-test:7"', 'dataset = "people"')


@dataclass(frozen=True)
class Made:
    """A release: its spec, directory and ledger."""

    spec: Path
    root: Path
    ledger: str = ""

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads((self.root / "public" / "manifest.json").read_text("utf-8")))

    @property
    def marginals(self) -> Mapping[str, Any]:
        return dict(self.manifest["spec"]["marginals"])


def _with_ledger(folder: Path, patch: pytest.MonkeyPatch, budget: Fraction = Fraction(3)) -> str:
    place = str(folder / "ledger.sqlite")
    with Ledger.open(place, create=True, state=folder / "state") as ledger:
        ledger.open_dataset("people", population="x", framework="zcdp", budget=budget, neighbours="change-one")
    patch.setenv("SPINEWISE_LEDGER", place)
    patch.setenv("SPINEWISE_STATE", str(folder / "state"))
    return place


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("chosen")
    spec = write_wide(folder / "in", CHOSEN)
    return Made(spec, run(spec, folder / "out"))


@pytest.fixture
def charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Made]:
    """Makes one, charged to a ledger that has just what is declared."""

    def made() -> Made:
        place = _with_ledger(tmp_path, monkeypatch)
        spec = write_wide(tmp_path / "in", CHOSEN, CHARGED)
        return Made(spec, run(spec, tmp_path / "out"), place)

    return made


# -- what it costs ----------------------------------------------------------------------------------------------------

ATTRIBUTES_OF_FOUR = {"a": ("0", "1"), "b": ("0", "1", "2"), "c": ("0", "1"), "d": ("0", "1")}


def _terms(
    framework: Framework,
    neighbours: Neighbours,
    records: int = 1,
    weight: int = 1,
    further: int | None = None,
) -> ChoiceTerms:
    weights = {} if weight == 1 else {"a * b": weight}
    section = ChooseSection(share="1/7", attributes_share="1/9", weights=weights, further=further)  # type: ignore[arg-type]
    return ChoiceTerms(
        section, ATTRIBUTES_OF_FOUR, framework, neighbours, records, Fraction(5, 2), "top", Fraction(1, 3)
    )


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(("records", "weight", "further"), [(1, 1, None), (3, 2, None), (1, 3, None), (3, 2, 2)])
def test_statement_ledger_and_declared_budget_agree(
    framework: Framework, neighbours: Neighbours, records: int, weight: int, further: int | None
) -> None:
    """The ledger's price of each part is what the account says of it, all of them are the cost; all else is left."""
    terms = _terms(framework, neighbours, records, weight, further)
    moved, several = MOVED[neighbours], records ** (2 if framework == "zcdp" else 1)
    assert terms.rounds == 3 + (further or 0)
    prices = []
    for one in terms.earlier.uses:
        query = one.query + by_losses(max(1, one.weight * moved)) + per_person(records)
        price = cost_of(Group(one.level, query, one.mechanism, one.scale, one.size), framework, neighbours)
        assert price == one.cost
        prices.append(price)
    assert sum(prices) == terms.cost == terms.budget - terms.rest
    assert terms.cost <= terms.budget * (Fraction(1, 7) + Fraction(1, 9))
    assert terms.cost > terms.budget * (Fraction(1, 7) + Fraction(1, 9)) * Fraction(9999, 10000)
    of_one = [(use.rho(n) if framework == "zcdp" else use.epsilon(n)) for _, (use, n) in _account(terms, moved)]
    assert sum(cost * several for cost in of_one if cost is not None) == terms.cost


def _account(terms: ChoiceTerms, moved: int) -> Sequence[tuple[Any, tuple[Any, int]]]:
    of = SimpleNamespace(earlier=terms.earlier, bypass=False, invariants=(), reach=1, series=None)
    return earlier_of(of, moved)  # type: ignore[arg-type]


def _largest_range(terms: ChoiceTerms, scale: Fraction) -> float:
    """How wide the privacy loss of the first choice is, over all neighbours of all data sets of two records."""
    domain, pairs = AttributeSizes(("a", "b", "c"), (2, 2, 2)), terms.pairs
    pairs = Pairs(domain, Fraction(1, 3), {(0, 1): terms.pairs.largest_weight})
    cells, ones = list(product(range(2), repeat=3)), [np.array([3, 1]), np.array([0, 2]), np.array([1, 1])]

    def losses(rows: Sequence[tuple[int, ...]]) -> np.ndarray[Any, Any]:
        values = np.array(rows, dtype=np.int64).reshape(-1, 3)
        scores = scores_of(pairs, tables_of(pairs, values), ones)
        logs = np.array([float(scale) * scores[pair] / 2 for pair in pairs.possible])
        return logs - np.log(np.exp(logs).sum())

    widest = 0.0
    for rows in product(cells, repeat=2):
        own = losses(rows)
        others = [rows[:1]] if terms.neighbours == "add-remove" else [(rows[0], other) for other in cells]
        for other in others:
            loss = own - losses(other)
            widest = max(widest, loss.max() - loss.min(), np.abs(loss).max())
    return widest


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize("weight", [1, 3])
def test_the_loss_of_a_choice_is_within_its_epsilon_whatever_the_neighbours(
    neighbours: Neighbours, weight: int
) -> None:
    """All of them are gone through; with half of the sensitivity it would be beyond, so the test can fail."""
    terms = _terms("zcdp", neighbours, weight=weight)
    assert terms.scale * weight * MOVED[neighbours] == terms.epsilon
    assert _largest_range(terms, terms.scale) <= float(terms.epsilon) + 1e-12
    assert _largest_range(terms, 2 * terms.scale) > float(terms.epsilon)


def test_a_spec_promises_what_it_declares_before_and_after_the_choice(made: Made) -> None:
    published = ReleaseSpec.from_public_dict(made.manifest["spec"])
    for universes in (load_spec(made.spec).universes(), published.universes()):
        assert sum(one.budget for one in universes) == 3
        joint = joint_statement(universes, [privacy_statements(one) for one in universes])
        assert Fraction(joint.budget) == 3
        (earlier,) = [one.earlier for one in universes if one.earlier is not None]
        assert len(earlier.uses) == 7 + 6
        assert {one.noise_at(Fraction(1), Fraction(1)).scale for one in universes[1:]} == {
            1 / (Fraction(one.own_budget)) for one in universes[1:]
        }
        _check_attributes(universes[0])


def _check_attributes(own: Universe) -> None:
    """Of an attribute: what was measured of it, its own table, and all choices, each moved as by another value."""
    account = privacy_statements(own)
    assert own.earlier is not None
    for statement in account.attributes:
        measured = own.own_budget  # each of its queries keeps each of its attributes
        table = sum(one.cost for one in own.earlier.uses if one.query == f"attribute {statement.of}")
        choices = sum(one.cost for one in own.earlier.uses if one.weight)
        assert Fraction(statement.budget) == measured + table + choices


# -- a release --------------------------------------------------------------------------------------------------------


def _best_pairs() -> set[frozenset[str]]:
    """The spanning tree with the largest distances from independence, of the records themselves."""
    table = records().drop(columns="block")
    away = {}
    for one, other in combinations(ATTRIBUTES, 2):
        seen = pd.crosstab(table[one], table[other]).to_numpy()
        away[one, other] = np.abs(seen - np.outer(seen.sum(axis=1), seen.sum(axis=0)) / seen.sum()).sum()
    found: set[frozenset[str]] = set()
    group = {name: name for name in ATTRIBUTES}
    for one, other in sorted(away, key=lambda pair: -away[pair]):
        if group[one] != group[other]:
            found.add(frozenset((one, other)))
            old, new = group[one], group[other]
            group = {name: new if own == old else own for name, own in group.items()}
    return found


def test_a_release_has_pairs_that_depend_and_all_judges_accept_it(made: Made) -> None:
    stated = made.marginals
    assert [len(clique) for clique in stated["cliques"]] == [2] * 6
    strong = {frozenset(("age", "school")), frozenset(("school", "work")), frozenset(("work", "car"))}
    assert strong <= _best_pairs()
    assert strong <= {frozenset(clique) for clique in stated["cliques"]}
    assert stated["chosen"].keys() == {"budget", "records"}
    assert verify_release(RunDirectory(made.root), 1, Silent()) == []
    assert check_release(made.root) == []
    assert [one for one in audit(made.root) if not one.passed] == []
    assert rerun(made.root).differences == ()
    microdata = pq.read_table(made.root / "public" / "microdata.parquet")
    assert microdata.column_names == ["geocode", *ATTRIBUTES]


@pytest.mark.slow
def test_elsewhere_it_has_the_same_bytes_and_others_with_another_key(made: Made, tmp_path: Path) -> None:
    again = public_bytes(run(made.spec, tmp_path / "out"))
    whole = public_bytes(made.root)
    assert [name for name in whole if whole[name] != again[name] and "manifest" not in name] == []
    first, second = (json.loads(one["public/manifest.json"])["spec"] for one in (whole, again))
    assert first == second
    other = write_wide(tmp_path / "other", CHOSEN, ("insecure-test:7", "insecure-test:8"))
    assert public_bytes(run(other, tmp_path / "others"))["public/manifest.json"] != whole["public/manifest.json"]


@pytest.mark.slow
def test_a_finished_release_is_not_taken_for_one_of_other_terms(tmp_path: Path) -> None:
    """Weights move no budget and no table of the spec, and decide which pairs are chosen."""
    spec = write_wide(tmp_path / "in", CHOSEN)
    again = partial(sw.run, spec, out=tmp_path / "out", workers=1, progress=False)
    root = again().directory
    changed = (root / "public" / "manifest.json").stat().st_mtime_ns
    again()
    assert (root / "public" / "manifest.json").stat().st_mtime_ns == changed
    write_wide(tmp_path / "in", (DECLARED, CHOSEN[1].replace(" }", ', weights = { "age * car" = 2 } }')))
    with pytest.raises(InputError, match="holds another run"):
        again()
    write_wide(tmp_path / "in", (DECLARED, f"{CHOSEN[1]}\nalike = false"))
    with pytest.raises(InputError, match="holds another run"):
        again()


def test_it_is_charged_what_is_declared_once(charged: Callable[[], Made], tmp_path: Path) -> None:
    made = charged()
    for _ in range(2):
        with Ledger.open(made.ledger, state=tmp_path / "state") as ledger:
            assert ledger.dataset("people").spent == 3
        run(made.spec, tmp_path / "out")
    assert [one["cost"] for one in made.manifest["receipts"]] == ["3"]
    _, events = read_ledger(made.ledger)
    assert made.marginals["chosen"]["hash"] == events[made.marginals["chosen"]["number"] - 1]["hash"]
    drawn = [event["query"] for event in events if event["kind"] == "charge"][:13]
    assert drawn == [
        *(f"attribute {name}" for name in ATTRIBUTES),
        *(f"pair {t} of 6 (losses by up to 2)" for t in range(1, 7)),
    ]
    assert [one for one in audit(made.root, ledger=made.ledger) if not one.passed] == []
    assert verify_release(RunDirectory(made.root), 1, Silent()) == []
    assert rerun(made.root).differences == ()
    assert spinewise("ledger", "verify").returncode == 0


def test_pairs_beyond_a_tree_are_chosen_charged_and_judged_as_those_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _with_ledger(tmp_path, monkeypatch)
    spec = write_wide(tmp_path / "in", FURTHER, CHARGED)
    told = spinewise("plan", spec).stdout
    assert "Which 9 pairs of attributes are measured, at most, is chosen privately when it is run" in told
    MasterKey(KEY).write(tmp_path / "key")  # others may leave no room for the last pair
    root = run(spec, tmp_path / "out", key_file=tmp_path / "key")
    made = Made(spec, root, place)
    domain = AttributeSizes(tuple(ATTRIBUTES), tuple(map(len, ATTRIBUTES.values())))
    pairs = [domain.clique(clique) for clique in made.marginals["cliques"]]
    terms = _spec_terms(spec)
    assert len(pairs) == terms.rounds == 9
    assert all(pair in candidates(terms.pairs, pairs[:number]) for number, pair in enumerate(pairs))
    assert sum(map(domain.size, filling(domain, pairs).bags)) <= 200
    _, events = read_ledger(place)
    drawn = [event["query"] for event in events if event["kind"] == "charge"][7:16]
    assert drawn == [f"pair {t} of 9 (losses by up to 2)" for t in range(1, 10)]
    with Ledger.open(place, state=tmp_path / "state") as ledger:
        assert ledger.dataset("people").spent == 3
    assert [one for one in audit(root, tmp_path / "key", place) if not one.passed] == []
    assert verify_release(RunDirectory(root), 1, Silent()) == []
    assert rerun(root, source=KeySource(tmp_path / "key")).differences == ()
    content = made.manifest["spec"]
    assert json.loads(json.dumps(ReleaseSpec.from_public_dict(content).public_dict())) == content
    section = content["marginals"]
    twisted = {**section, "cliques": [[domain.names[a] for a in pair] for pair in _twisted(terms.pairs, pairs)]}
    cells = sum(map(domain.size, filling(domain, pairs).bags))
    tight = {**section, "choose": {**section["choose"], "all_cells": cells - 1}}
    for wrong in (twisted, tight):
        with pytest.raises(SpecError, match=r"marginals\.cliques: .* could not be chosen after those before it"):
            ReleaseSpec.from_public_dict({**content, "marginals": wrong})


def _twisted(allowed: Pairs, pairs: Sequence[Clique]) -> list[Clique]:
    """The pairs with two of them exchanged, so that one closes a cycle before all attributes are joined."""
    for one, other in combinations(range(len(pairs)), 2):
        order = list(pairs)
        order[one], order[other] = order[other], order[one]
        if not all(pair in candidates(allowed, order[:number]) for number, pair in enumerate(order)):
            return order
    raise AssertionError(pairs)


def _spec_terms(spec: Path) -> ChoiceTerms:
    together = load_spec(spec).universes()[0].together
    assert isinstance(together, Cliques)
    assert together.terms is not None
    return together.terms


@pytest.mark.parametrize("budget", [Fraction(2, 5), Fraction(2), Fraction(29_999, 10_000)])
def test_too_small_a_budget_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: Fraction
) -> None:
    """Too small for the choice, or for what is measured after it."""
    place = _with_ledger(tmp_path, monkeypatch, budget)
    spec = write_wide(tmp_path / "in", CHOSEN, CHARGED)
    monkeypatch.setattr(confidential, "chosen_pairs", None)
    with pytest.raises(BudgetRefusedError, match="asked for rho = 3, left is"):
        run(spec, tmp_path / "out")
    assert [event["kind"] for event in read_ledger(place)[1]] == ["open"]
    assert not (tmp_path / "out" / "wide" / "restricted" / "choice.npz").exists()


@pytest.mark.parametrize("sexes", ['["f", "m"]', '["f"]'])
def test_a_key_is_for_one_choice_however_the_records_are_read(
    charged: Callable[[], Made], tmp_path: Path, sexes: str
) -> None:
    """Whether another reading changes a count must not show: both are refused, and neither is drawn or charged."""
    made = charged()
    with Ledger.open(made.ledger, state=tmp_path / "state") as ledger:
        before = ledger.dataset("people").spent
    rows = ('form = "microdata"', f'form = "microdata"\nrows = {{ sex = {sexes} }}')
    other = write_wide(tmp_path / "other", CHOSEN, CHARGED, rows, ('name = "wide"', 'name = "others"'))
    key = tmp_path / "out" / "wide" / "restricted" / "key"
    with pytest.raises(InputError, match="the key of this run was used over other records"):
        run(other, tmp_path / "out", key_file=key)
    with Ledger.open(made.ledger, state=tmp_path / "state") as ledger:
        assert ledger.dataset("people").spent == before


def test_the_directory_of_a_choice_is_for_its_release_alone(tmp_path: Path) -> None:
    """Killed after the choice, it cannot be begun with other terms or records."""
    spec = write_wide(tmp_path / "in", CHOSEN)
    run(spec, tmp_path / "out")
    other = write_wide(tmp_path / "other", (DECLARED, 'choose = { share = "1/5", attributes_share = "1/20" }'))
    with pytest.raises(InputError, match=r"holds another run: it differs in the spec's companions.*spec's marginals"):
        run(other, tmp_path / "out")
    (tmp_path / "out" / "wide" / "public" / "manifest.json").unlink()
    records(4).to_csv(tmp_path / "in" / "persons.csv", index=False)
    with pytest.raises(InputError, match=r"holds this release as begun on other records, or with another key"):
        run(spec, tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "stated"), [(8, CHOSEN), (11, FURTHER), (40, CHOSEN)])
def test_a_run_that_is_killed_is_resumed_to_the_same_bytes_and_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, stated: tuple[str, str]
) -> None:
    place = _with_ledger(tmp_path, monkeypatch)
    spec = write_wide(tmp_path / "in", stated, CHARGED)
    assert kill_at(spec, tmp_path / "out", "sync", number)
    root = run(spec, tmp_path / "out")
    with Ledger.open(place, state=tmp_path / "state") as ledger:
        assert ledger.dataset("people").spent == 3
    assert [one for one in audit(root, ledger=place) if not one.passed] == []


# -- planted faults ---------------------------------------------------------------------------------------------------


def _uncharged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is made without a charge."""
    work_of = stage.work_of

    def free(*args: Any) -> ChoiceWork | None:
        work = work_of(*args)
        return None if work is None else replace(work, dataset="")

    monkeypatch.setattr(stage, "work_of", free)


def _half_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are taken to move by half of what they move by."""
    monkeypatch.setattr(Pairs, "sensitivity", lambda _, neighbours: max(1, MOVED[neighbours] // 2))


def _other_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn as if epsilon were 400 times as small."""
    monkeypatch.setattr(
        confidential,
        "chosen_pairs",
        lambda pairs, tables, ones, scale, stream: chosen_pairs(pairs, tables, ones, scale / 400, stream),
    )


def _other_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The choice is drawn from another key than the release's."""
    keys = iter([MasterKey(bytes([9] * 32))])
    own = Keyholder.key
    monkeypatch.setattr(Keyholder, "key", lambda holder, *args: next(keys, None) or own(holder, *args))


def _other_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is published, and measured, is not what was drawn."""
    names = confidential._names

    def others(work: ChoiceWork, pairs: Sequence[Clique]) -> list[list[str]]:
        return names(work, [*pairs[:-1], next(pair for pair in _open(work, pairs[:-1]) if pair != pairs[-1])])

    monkeypatch.setattr(confidential, "_names", others)


def _open(work: ChoiceWork, chosen: Sequence[Clique]) -> list[Clique]:
    return candidates(work.terms.pairs, chosen)


def _other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attributes' tables have a hundred times the noise that is stated, so scores are made by others."""

    class Louder:
        def __init__(self, noise: NoiseSpec) -> None:
            self._sampler = sampler_for(noise)

        def draw(self, stream: bytes, start: int, count: int) -> IntArray:
            return 100 * self._sampler.draw(stream, start, count)

    monkeypatch.setattr(confidential, "sampler_for", Louder)


def _uncharged_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen beyond a tree is not charged."""
    charge_of = confidential.charge_of

    def cheaper(*args: Any) -> Charge:
        charge = charge_of(*args)
        groups = tuple(group for group in charge.groups if not group.query.startswith("pair 9 of 9"))
        return replace(charge, groups=groups)

    monkeypatch.setattr(confidential, "charge_of", cheaper)


def _larger_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are chosen although the tables that have them are larger than stated."""
    monkeypatch.setattr(Pairs, "fits", lambda *_: True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_uncharged_further, "pair 9 of 9 (losses by up to 2) at county was not charged"),
        (_larger_tables, "or makes others too large"),
    ],
)
def test_the_second_program_finds_faults_beyond_a_tree(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _with_ledger(tmp_path, monkeypatch, Fraction(30))
    tight = (DECLARED, FURTHER[1].replace("200", "70")) if plant is _larger_tables else FURTHER
    spec, key = write_wide(tmp_path / "in", tight, CHARGED), tmp_path / "key"
    MasterKey(KEY).write(key)
    with monkeypatch.context() as planted:
        plant(planted)
        root = run(spec, tmp_path / "out", key_file=key)
    problems = [f"{one.check} {one.subject} {one.detail}" for one in audit(root, key, place) if not one.passed]
    assert any(found in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("plant", "found"),
    [
        (_uncharged, "attribute age at county was not charged"),
        pytest.param(_half_sensitivity, "pair 1 of 6 at county: states exponential", marks=pytest.mark.slow),
        pytest.param(_other_scale, "these records and this key choose", marks=pytest.mark.slow),
        pytest.param(
            _other_key, "the fingerprint stated is not that of the tables in restricted/", marks=pytest.mark.slow
        ),
        (_other_pairs, "these records and this key choose"),
        pytest.param(_other_noise, "these records and this key choose", marks=pytest.mark.slow),
    ],
)
def test_the_second_program_finds_each_planted_fault(
    plant: Callable[[pytest.MonkeyPatch], None], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = _with_ledger(tmp_path, monkeypatch, Fraction(30))
    spec, key = write_wide(tmp_path / "in", CHOSEN, CHARGED), tmp_path / "key"
    MasterKey(KEY).write(key)
    with monkeypatch.context() as planted:
        plant(planted)
        root = run(spec, tmp_path / "out", key_file=key)
    problems = [f"{one.check} {one.subject} {one.detail}" for one in audit(root, key, place) if not one.passed]
    assert any(found in problem for problem in problems), problems


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_other_key, _other_pairs])
def test_a_rerun_draws_the_choice_again(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_wide(tmp_path / "in", CHOSEN)
    with monkeypatch.context() as planted:
        plant(planted)
        root = run(spec, tmp_path / "out")
    with pytest.raises(InputError, match="what its spec was decided from is drawn otherwise"):
        rerun(root)


def test_choices_by_noise_that_is_too_wide_for_the_second_program_are_not_tested(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the tables that pairs were chosen by the noise has to be exact; of measurements it is drawn to within one."""
    monkeypatch.setattr(sampler, "MOST_OUTCOMES", 4)
    sampler.boundaries.cache_clear()
    found = {one.check: one for one in audit(made.root)}
    assert all(one.passed for one in found.values())
    said = found["choices redrawn"].detail
    assert said.startswith("not tested: ")
    assert said.endswith("has too many outcomes to be redrawn here")
    assert "of them to within one" in found["noise redrawn"].detail


# -- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([(DECLARED, "")], "marginals.cliques: found neither of cliques and choose; one of the two is needed"),
        ([(DECLARED, f"{DECLARED}\n{CHOSEN[1]}")], "marginals.cliques: found both of cliques and choose"),
        ([(DECLARED, 'choose = { share = "1/2", attributes_share = "1/2" }')], "add up to 1; the cliques need some"),
        (
            [(DECLARED, 'choose = { share = "1/9", attributes_share = "1/9", weights = { "age * colour" = 2 } }')],
            "marginals.choose.weights: found 'age * colour'; two of the attributes are needed, as in 'age * sex'",
        ),
        (
            [
                (
                    DECLARED,
                    'choose = { share = "1/9", attributes_share = "1/9", '
                    'weights = { "sex*age" = 2, "age * sex" = 2 } }',
                )
            ],
            "marginals.choose.weights: found age x sex twice; state each pair once",
        ),
        (
            [(DECLARED, 'choose = { share = "1/9", attributes_share = "1/9", all_cells = 99 }')],
            "marginals.choose.all_cells: found without choose.further, and it is about further pairs",
        ),
        (
            [(DECLARED, 'choose = { share = "1/9", attributes_share = "1/9", further = 3, all_cells = 7 }')],
            "marginals.choose.all_cells: found 7; a pair that closes a cycle needs a table of three attributes, of 8 ",
        ),
        (
            [(DECLARED, 'choose = { share = "1/1000000000000000", attributes_share = "1/9" }')],
            "marginals.choose: found rho = 1/2000000000000000 for one private choice; at least 2^-43 is needed",
        ),
        ([(DECLARED, f'{CHOSEN[1]}\nbudget = "3"')], "marginals.budget: is stated by a run"),
        (
            [CHOSEN, ("[publish]", '[tables]\nboth = "age * sex"\n[publish]')],
            "tables.both: found 'age * sex'; which pairs are measured is chosen in the run",
        ),
        ([CHOSEN, ('rho = "3"\n', "")], "privacy.rho: missing; the whole budget, of which each clique has a part"),
        ([CHOSEN, ('tract = "1/4"', 'tract = "x"')], "strategy.levels.tract.share: found 'x'; allowed is a decimal"),
        ([CHOSEN, ("county = 1, ", 'county = "1", ')], "geography.levels.county: "),
        ([CHOSEN, ('county = "1/4"', 'county = "0"')], "strategy.levels: the shares add up to 3/4"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_key(
    changes: Sequence[tuple[str, str]], said: str, tmp_path: Path
) -> None:
    spec = write_wide(tmp_path, *changes)
    with pytest.raises(SpecError) as refused:
        load_spec(spec)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_records_in_memory_are_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pairs are chosen from records in a file; these are a table in memory"):
        sw.run(sw.Spec.read(made.spec), records=records(), out=tmp_path / "out", workers=1, progress=False)


def test_a_plan_says_what_is_not_decided_and_what_all_of_it_costs(made: Made) -> None:
    told = spinewise("plan", made.spec).stdout
    assert "Which 6 pairs of attributes are measured is chosen privately when it is run" in told
    planned = json.loads(spinewise("plan", made.spec, "--json").stdout)
    assert sum(Fraction(one["privacy"]["budget"]) for one in planned["universes"]) == 3


def test_a_published_spec_is_read_back(made: Made) -> None:
    content = made.manifest["spec"]
    spec = ReleaseSpec.from_public_dict(content)
    assert json.loads(json.dumps(spec.public_dict())) == content
    for key, wrong in (("budget", "4"), ("choose", {**content["marginals"]["choose"], "share": "1/5"})):
        with pytest.raises(SpecError, match="the cliques have another rho"):
            ReleaseSpec.from_public_dict({**content, "marginals": {**content["marginals"], key: wrong}})
