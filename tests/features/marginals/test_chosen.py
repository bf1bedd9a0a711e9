"""Cliques that are chosen privately, from the spec to the second program; and faults in it, each of which is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from matrix.case import KEY, write_key
from releases.killed import kill_at
from releases.made_case import made_case
from releases.repeated import rerun
from releases.small import run
from releases.wide import CHARGED, CHOICE, CHOSEN, DECLARED, VALUES, manifest_of, records, write_amounts, write_wide

import features.marginals.confidential as confidential
import features.marginals.stage as stage
import spinewise as sw
from auditor.ledger import read_ledger
from auditor.program import audit
from features.marginals.choice import ChoiceTerms, Pairs, candidates
from features.marginals.cliques import AttributeSizes, Clique, filling
from features.marginals.confidential import chosen_pairs
from features.marginals.section import ChooseSection
from features.marginals.stage import ChoiceWork
from features.marginals.tree import Cliques
from pipeline.confidential.custody import Keyholder
from pipeline.errors import BudgetRefusedError, InputError, SpecError
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
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

#: Three pairs beyond a tree.
FURTHER = (DECLARED, 'choose = { share = "1/10", attributes_share = "1/20", further = 3, all_cells = 200 }')


def _with_ledger(folder: Path, patch: pytest.MonkeyPatch, budget: Fraction = Fraction(3)) -> str:
    place = str(folder / "ledger.sqlite")
    patch.setenv("SPINEWISE_LEDGER", place)
    patch.setenv("SPINEWISE_STATE", str(folder / "state"))
    if not Path(place).exists():
        with Ledger.open(place, create=True, state=folder / "state") as ledger:
            ledger.open_dataset("people", population="x", framework="zcdp", budget=budget, neighbours="change-one")
    return place


def _spent(folder: Path) -> Fraction:
    with Ledger.open(str(folder / "ledger.sqlite"), state=folder / "state") as ledger:
        return ledger.dataset("people").spent


@pytest.fixture
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with pairs beyond a tree, charged to a ledger that had just what is declared; for reading only."""
    return made_case(tmp_path_factory, "cliques") / "out" / "wide"


@pytest.fixture
def again(chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder with its inputs, key, ledger and output."""
    folder = Path(shutil.copytree(chosen.parents[1], tmp_path / "again"))
    _with_ledger(folder, monkeypatch)
    return folder


# -- what it costs ----------------------------------------------------------------------------------------------------

ATTRIBUTES_OF_FOUR = {"a": ("0", "1"), "b": ("0", "1", "2"), "c": ("0", "1"), "d": ("0", "1")}


def _terms(
    framework: Framework, neighbours: Neighbours, records: int = 1, weight: int = 1, further: int | None = None
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
    assert terms.scale * weight * MOVED[neighbours] == terms.epsilon
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


def test_a_spec_promises_what_it_declares_before_and_after_the_choice(chosen: Path) -> None:
    published = ReleaseSpec.from_public_dict(manifest_of(chosen)["spec"])
    for universes in (load_spec(chosen.parents[1] / "release.toml").universes(), published.universes()):
        assert sum(one.budget for one in universes) == 3
        joint = joint_statement(universes, [privacy_statements(one) for one in universes])
        assert Fraction(joint.budget) == 3
        (earlier,) = [one.earlier for one in universes if one.earlier is not None]
        assert len(earlier.uses) == len(VALUES) + 11
        _check_attributes(universes[0])


def _check_attributes(own: Universe) -> None:
    """Of an attribute: what is measured of it, its own table, and all choices, each moved as by another value."""
    account = privacy_statements(own)
    assert own.earlier is not None
    for statement in account.attributes:
        shares = (
            level.share * query.share
            for level in own.strategy.levels
            for query in level.queries
            if statement.of in query.query.terms
        )
        measured = own.own_budget * sum(shares)
        table = sum(one.cost for one in own.earlier.uses if one.query == f"attribute {statement.of}")
        choices = sum(one.cost for one in own.earlier.uses if one.weight)
        assert Fraction(statement.budget) == measured + table + choices


# -- a release --------------------------------------------------------------------------------------------------------


def test_each_pair_was_open_when_it_was_chosen_and_no_other_order_is_read(chosen: Path) -> None:
    content = manifest_of(chosen)["spec"]
    section = content["marginals"]
    together = load_spec(chosen.parents[1] / "release.toml").universes()[0].together
    assert isinstance(together, Cliques)
    assert together.terms is not None
    allowed, domain = together.terms.pairs, AttributeSizes(tuple(VALUES), tuple(map(len, VALUES.values())))
    pairs = [domain.clique(clique) for clique in section["cliques"]]
    assert all(pair in candidates(allowed, pairs[:number]) for number, pair in enumerate(pairs))
    cells = sum(map(domain.size, filling(domain, pairs).bags))
    assert cells <= allowed.all_cells
    assert json.loads(json.dumps(ReleaseSpec.from_public_dict(content).public_dict())) == content
    twisted = {**section, "cliques": [[domain.names[a] for a in pair] for pair in _twisted(allowed, pairs)]}
    tight = {**section, "choose": {**section["choose"], "all_cells": cells - 1}}
    other = r"marginals\.cliques: .* could not be chosen after those before it"
    dearer = {**section, "choose": {**section["choose"], "share": "1/5"}}
    for wrong, told in ((twisted, other), (tight, other), (dearer, "another rho"), ({**section, "budget": "4"}, "rho")):
        with pytest.raises(SpecError, match=told):
            ReleaseSpec.from_public_dict({**content, "marginals": wrong})


def _twisted(allowed: Pairs, pairs: Sequence[Clique]) -> list[Clique]:
    """The pairs with two of them exchanged, so that one closes a cycle before all attributes are joined."""
    for one, other in combinations(range(len(pairs)), 2):
        order = list(pairs)
        order[one], order[other] = order[other], order[one]
        if not all(pair in candidates(allowed, order[:number]) for number, pair in enumerate(order)):
            return order
    raise AssertionError(pairs)


@pytest.mark.parametrize("budget", [Fraction(2, 5), Fraction(29_999, 10_000)])
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


def test_the_directory_of_a_choice_is_for_its_release_alone(tmp_path: Path) -> None:
    """Weights move no budget and no table of the spec, and decide which pairs are chosen."""
    spec = write_wide(tmp_path / "in", CHOSEN)
    manifest = run(spec, tmp_path / "out") / "public" / "manifest.json"
    for stated in (
        CHOSEN[1].replace(" }", ', weights = { "age * car" = 2 } }'),
        f"{CHOSEN[1]}\nalike = false",
        'choose = { share = "1/5", attributes_share = "1/20" }',
    ):
        other = write_wide(tmp_path / "other", (DECLARED, stated))
        with pytest.raises(InputError, match="holds another run"):
            run(other, tmp_path / "out")
    # Killed after the choice, it cannot be gone on with over other records.
    manifest.unlink()
    records(4).to_csv(tmp_path / "in" / "persons.csv", index=False)
    with pytest.raises(InputError, match=r"holds this release as begun on other records, or with another key"):
        run(spec, tmp_path / "out")


@pytest.mark.parametrize("sexes", ['["f", "m"]', '["f"]'])
def test_a_key_is_for_one_choice_however_the_records_are_read(again: Path, sexes: str) -> None:
    """Whether another reading changes a count must not show: both are refused, and neither is drawn or charged."""
    rows = ('form = "microdata"', f'form = "microdata"\nrows = {{ sex = {sexes} }}')
    other = write_amounts(again / "other", *CHOICE, rows, ('name = "wide"', 'name = "others"'))
    with pytest.raises(InputError, match="the key of this run was used over other records"):
        run(other, again / "out", key_file=again / KEY)
    assert _spent(again) == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [8, 11, 40])
def test_a_run_that_is_killed_in_its_choice_or_after_it_is_resumed_and_charged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    place = _with_ledger(tmp_path, monkeypatch)
    spec = write_wide(tmp_path / "in", FURTHER, CHARGED)
    assert kill_at(spec, tmp_path / "out", "sync", number)
    root = run(spec, tmp_path / "out")
    assert _spent(tmp_path) == 3
    assert [one for one in audit(root, ledger=place) if not one.passed] == []


def test_records_in_memory_are_refused(tmp_path: Path) -> None:
    spec = sw.Spec.read(write_wide(tmp_path, CHOSEN))
    with pytest.raises(InputError, match="pairs are chosen from records in a file; these are a table in memory"):
        sw.run(spec, records=records(), out=tmp_path / "out", workers=1, progress=False)


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


#: Some are found only beyond a tree, or where all tables together are to be small.
_SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("plant", "stated", "found"),
    [
        (_uncharged, CHOSEN, "attribute age at county was not charged"),
        pytest.param(_half_sensitivity, CHOSEN, "pair 1 of 6 at county: states exponential", marks=_SLOW),
        pytest.param(_other_scale, CHOSEN, "these records and this key choose", marks=_SLOW),
        pytest.param(_other_key, CHOSEN, "fingerprint stated is not that of the tables in restricted/", marks=_SLOW),
        (_other_pairs, CHOSEN, "these records and this key choose"),
        pytest.param(_other_noise, CHOSEN, "these records and this key choose", marks=_SLOW),
        pytest.param(_uncharged_further, FURTHER, "pair 9 of 9 (losses by up to 2) at county was", marks=_SLOW),
        pytest.param(
            _larger_tables, (DECLARED, FURTHER[1].replace("200", "70")), "or makes others too large", marks=_SLOW
        ),
    ],
)
def test_the_second_program_finds_each_planted_fault(
    plant: Callable[[pytest.MonkeyPatch], None],
    stated: tuple[str, str],
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = _with_ledger(tmp_path, monkeypatch, Fraction(30))
    spec, key = write_wide(tmp_path / "in", stated, CHARGED), tmp_path / KEY
    write_key(tmp_path)
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
