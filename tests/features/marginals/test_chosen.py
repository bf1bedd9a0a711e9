"""Private choice of pairs: sensitivity by enumeration, cost, distribution; from spec to second program."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matrix.case import KEY, write_key
from releases.asked import ledger_of, spent
from releases.killed import kill_at
from releases.made_case import made_case
from releases.repeated import rerun
from releases.small import run
from releases.tested_mutants import text
from releases.wide import CHARGED, CHOICE, CHOSEN, DECLARED, VALUES, manifest_of, records, write_amounts, write_wide

import features.marginals.confidential as confidential
import features.marginals.stage as stage
import spinewise as sw
from auditor.cliques import CliqueChoice
from auditor.ledger import read_ledger
from auditor.program import audit
from features.marginals.choice import (
    ChoiceTerms,
    Pairs,
    candidates,
    largest_epsilon,
    score,
    scores_of,
    unlike_a_choice,
)
from features.marginals.cliques import AttributeSizes, Clique, filling, homes
from features.marginals.confidential import chosen_pairs
from features.marginals.section import ChooseSection
from features.marginals.stage import ChoiceWork
from features.marginals.tree import Cliques
from pipeline.confidential.custody import Keyholder
from pipeline.errors import BudgetRefusedError, InputError, SpecError
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import joint_statement, privacy_statements
from pipeline.privacy.budget import MOVED, Framework, Neighbours
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charges import Charge
from pipeline.privacy.ledger.dataset import cost_of
from pipeline.privacy.ledger.events import Group, Moved
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.arrays import IntArray

DOMAIN = AttributeSizes(("a", "b", "c"), (2, 2, 3))


def _table(records: tuple[tuple[int, ...], ...], pair: Clique) -> IntArray:
    cells = [record[pair[0]] * DOMAIN.sizes[pair[1]] + record[pair[1]] for record in records]
    return np.bincount(np.array(cells, dtype=np.int64), minlength=DOMAIN.size(pair))


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_no_record_moves_a_score_further_than_the_sensitivity_and_some_record_moves_one_as_far(
    neighbours: Neighbours,
) -> None:
    """All data sets of up to two records, all their neighbours, all pairs; public tables of several kinds."""
    pairs = Pairs(DOMAIN, penalty=Fraction(1, 3), weights={(0, 2): 3})
    everybody = tuple(product(*map(range, DOMAIN.sizes)))
    others = everybody if neighbours == "change-one" else (None,)
    widest = 0
    for ones in (
        [np.array([2, 1]), np.array([0, 3]), np.array([1, 1, 1])],
        [np.array([-4, 9]), np.array([1, 1]), np.array([0, 0, 5])],
    ):
        expected = {pair: pairs.expected(ones, pair) for pair in pairs.possible}
        for n in range(2):
            for rest in product(everybody, repeat=n):
                for one, other in product(everybody, others):
                    first, second = (*rest, one), rest if other is None else (*rest, other)
                    for pair in pairs.possible:
                        moved = score(pairs, pair, _table(first, pair), expected[pair])
                        moved -= score(pairs, pair, _table(second, pair), expected[pair])
                        widest = max(widest, abs(moved))
    assert widest == pairs.sensitivity(neighbours) == (6 if neighbours == "change-one" else 3)


@pytest.mark.parametrize("rho", [Fraction(1, 10), Fraction(3, 7), Fraction(2), Fraction(1, 10**9)])
def test_a_choice_costs_no_more_than_its_part_and_hardly_less(rho: Fraction) -> None:
    epsilon = largest_epsilon(rho)
    assert epsilon**2 / 8 <= rho < (epsilon + Fraction(1, 1 << 20)) ** 2 / 8
    with pytest.raises(InputError, match="for one private choice"):
        largest_epsilon(Fraction(1, 10**30))


def _records(seed: int, n: int = 3000) -> tuple[AttributeSizes, IntArray]:
    """b follows a, c follows b, d follows a, e is alone."""
    rng = np.random.default_rng(seed)
    domain = AttributeSizes(tuple("abcde"), (4, 4, 3, 5, 2))
    values = np.zeros((n, 5), dtype=np.int64)
    values[:, 0] = rng.integers(0, 4, n)
    values[:, 1] = np.where(rng.random(n) < 0.8, values[:, 0], rng.integers(0, 4, n))
    values[:, 2] = np.where(rng.random(n) < 0.7, values[:, 1] % 3, rng.integers(0, 3, n))
    values[:, 3] = np.where(rng.random(n) < 0.7, values[:, 0], rng.integers(0, 5, n))
    values[:, 4] = rng.integers(0, 2, n)
    return domain, values


def _ones(domain: AttributeSizes, values: IntArray) -> list[IntArray]:
    return [np.bincount(values[:, a], minlength=size) for a, size in enumerate(domain.sizes)]


def _tables(pairs: Pairs, values: IntArray) -> dict[Clique, IntArray]:
    """Of all pairs that can be chosen, of records `(n, attributes)`."""
    sizes, size = pairs.domain.sizes, pairs.domain.size
    return {
        (a, b): np.bincount(values[:, a] * sizes[b] + values[:, b], minlength=size((a, b))) for a, b in pairs.possible
    }


def _choose(pairs: Pairs, values: IntArray, ones: list[IntArray], rho: Fraction, stream: bytes) -> tuple[Clique, ...]:
    """Pairs of records, rho being divided evenly."""
    scale = largest_epsilon(rho / pairs.rounds) / pairs.sensitivity("change-one")
    return chosen_pairs(pairs, _tables(pairs, values), ones, scale, stream)


def _best_tree(pairs: Pairs, scores: dict[Clique, int]) -> int:
    """The largest sum of scores of all spanning trees, by going through all sets of edges."""
    n = len(pairs.domain.names)
    best = -math.inf
    for edges in combinations(pairs.possible, n - 1):
        reached = {0}
        for _ in edges:
            reached |= {a for edge in edges if set(edge) & reached for a in edge}
        if len(reached) == n:
            best = max(best, sum(scores[edge] for edge in edges))
    return int(best)


def test_a_private_choice_is_a_tree_its_cost_is_exact_and_much_budget_finds_the_best() -> None:
    domain, values = _records(2)
    pairs = Pairs(domain)
    ones = _ones(domain, values)
    rho = Fraction(7, 3)
    found = _choose(pairs, values, ones, rho, bytes(32))
    assert len(found) == 4
    assert not candidates(pairs, found)
    assert 4 * largest_epsilon(rho / 4) ** 2 / 8 <= rho
    assert set(found[:3]) == {(0, 1), (1, 2), (0, 3)}
    assert _choose(pairs, values, ones, rho, bytes(32)) == found
    scores = scores_of(pairs, _tables(pairs, values), ones)
    much = _choose(pairs, values, ones, Fraction(10**6), bytes(32))
    assert sum(scores[pair] for pair in much) == _best_tree(pairs, scores)
    # Where further ones no longer fit, fewer are chosen.
    tight = Pairs(domain, further=3, all_cells=60)
    few = _choose(tight, values, ones, rho, bytes(32))
    assert len(few) < tight.rounds == 7


def test_the_noise_on_tables_of_attributes_is_the_same_whatever_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody has a value: where there is noise would be told by the truth."""
    attributes = {"a": ("0", "1"), "b": ("0", "1", "2")}
    section = ChooseSection(share=Fraction(1, 7), attributes_share=Fraction(1, 9))
    terms = ChoiceTerms(section, attributes, "zcdp", "change-one", 1, Fraction(1), "top", Fraction(1, 3))
    work: Any = SimpleNamespace(terms=terms, spine=SimpleNamespace(fingerprint=lambda: "areas"))
    monkeypatch.setattr(confidential, "chosen_pairs", lambda _, __, noisy, *___: np.concatenate(noisy))
    drawn: list[IntArray] = []
    for ones in ([np.zeros(2, np.int64), np.zeros(3, np.int64)], [np.array([7, 0]), np.array([0, 3, 4])]):
        tables: Any = SimpleNamespace(ones=ones, pairs={})
        noisy: Any = confidential._drawn(work, MasterKey(bytes(32)), "records", tables)
        drawn.append(noisy - np.concatenate(ones))
    assert np.array_equal(drawn[0], drawn[1])
    assert (drawn[0] != 0).sum() >= 3


def test_private_choices_have_the_probabilities_of_the_mechanism() -> None:
    """The first choice, many times, beside exp(epsilon score / (2 sensitivity)); with the scale doubled it fails."""
    domain, values = _records(3, n=12)
    pairs = Pairs(domain, weights={(0, 1): 2})
    ones = _ones(domain, values)
    rho = Fraction(2)
    epsilon, sensitivity = float(largest_epsilon(rho / 4)), pairs.sensitivity("change-one")
    of_pairs = scores_of(pairs, _tables(pairs, values), ones)
    scores = np.array([of_pairs[pair] for pair in pairs.possible])
    n = 1500
    keys = (number.to_bytes(32, "big") for number in range(n))
    first = [_choose(pairs, values, ones, rho, key)[0] for key in keys]
    seen = np.array([first.count(pair) for pair in pairs.possible])

    def chi_square(scale: float) -> float:
        weights = np.exp(scale * (scores - scores.max()))
        expected = n * weights / weights.sum()
        return float(((seen - expected) ** 2 / expected).sum())

    right = epsilon / (2 * sensitivity)
    assert chi_square(right) < 30  # 9 degrees of freedom: beyond it one time in 2,000
    assert chi_square(2 * right) > 50


def _second(pairs: Pairs) -> CliqueChoice:
    """The same in the second program, as far as pairs go."""
    sizes, nothing = pairs.domain.sizes, Fraction(1)
    return CliqueChoice(
        tuple((name, ("0",) * size) for name, size in zip(pairs.domain.names, sizes, strict=True)),
        *((), {}, True, "change-one", 1, 2, nothing, nothing, nothing, "top", nothing, {}),
        further=pairs.further,
        all_cells=pairs.all_cells,
        most_cells=pairs.most_cells,
    )


@pytest.mark.parametrize("seed", range(4))
def test_further_pairs_are_those_with_which_all_tables_together_are_small_enough(seed: int) -> None:
    """Beside the second program, whose triangulation is its own; every pair that is left out breaks a stated rule."""
    rng = np.random.default_rng(seed)
    sizes = tuple(map(int, rng.integers(2, 9, 7)))
    pairs = Pairs(AttributeSizes(tuple("abcdefg"), sizes), most_cells=40, further=6, all_cells=500)
    second, chosen, left_out = _second(pairs), list[Clique](), 0
    assert pairs.rounds == second.rounds
    while left := candidates(pairs, chosen):
        assert left == second.open_pairs([(one, other) for one, other in chosen])
        if not pairs.joining(chosen):
            for pair in set(pairs.possible) - set(chosen):
                bags = filling(pairs.domain, [*chosen, pair]).bags
                fits = sum(map(pairs.domain.size, bags)) <= 500 and homes(bags, pairs.cliques([*chosen, pair]))
                assert bool(fits) == (pair in left)
                left_out += not fits
        chosen.append(left[int(rng.integers(len(left)))])
    assert len(chosen) <= pairs.rounds
    assert left_out > 0
    assert second.open_pairs([(one, other) for one, other in chosen]) == []


def test_each_bag_gets_a_clique_of_its_own_where_there_is_a_way() -> None:
    """All choices of homes are gone through, of random cliques in random bags."""
    rng = np.random.default_rng(5)
    ways = [0, 0, 0]
    for _ in range(300):
        bags = list(dict.fromkeys(tuple(sorted(rng.choice(5, 3, replace=False).tolist())) for _ in range(3)))
        inside = [pair for pair in combinations(range(5), 2) if any(set(pair) <= set(bag) for bag in bags)]
        cliques = [pair for pair in inside if rng.random() < 0.5]
        within = [[n for n, bag in enumerate(bags) if set(pair) <= set(bag)] for pair in cliques]
        first = {pair: numbers[0] for pair, numbers in zip(cliques, within, strict=True)}
        possible = any(len(set(choice)) == len(bags) for choice in product(*within))
        found = homes(bags, cliques)
        assert (found is not None) == possible
        if found is not None:
            assert set(found.values()) == set(range(len(bags)))
            assert all(set(pair) <= set(bags[number]) for pair, number in found.items())
        ways[0 if found is None else 1 if found == first else 2] += 1
        assert len(set(first.values())) < len(bags) or found == first
    assert min(ways) > 10


@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
def test_the_loss_of_a_further_choice_is_within_its_epsilon_whatever_was_chosen_before(neighbours: Neighbours) -> None:
    """All data sets of up to two records and all neighbours, after each of all trees; half of the sensitivity fails."""
    domain = AttributeSizes(("a", "b", "c", "d"), (2, 2, 2, 2))
    pairs = Pairs(domain, Fraction(1, 3), {(0, 1): 2}, further=2, all_cells=16)
    ones = [np.array([3, 1]), np.array([0, 2]), np.array([1, 1]), np.array([2, 0])]
    cells = list(product(range(2), repeat=4))
    trees = [tree for tree in combinations(pairs.possible, 3) if not pairs.joining(tree)]
    assert len(trees) == 16
    left = [np.array([pairs.possible.index(pair) for pair in candidates(pairs, tree)]) for tree in trees]
    assert all(len(open_) > 1 for open_ in left)
    sets = [rows for n in range(3) for rows in combinations_with_replacement(range(16), n)]
    scores = {}
    for rows in sets:
        values = np.array([cells[row] for row in rows], dtype=np.int64).reshape(-1, 4)
        found = scores_of(pairs, _tables(pairs, values), ones)
        scores[rows] = np.array([found[pair] for pair in pairs.possible])
    neighbouring = [
        (rows, tuple(sorted((*rows[:n], *rows[n + 1 :], *other))))
        for rows in sets
        for n in range(len(rows))
        for other in ([(cell,) for cell in range(16)] if neighbours == "change-one" else [()])
    ]
    one, two = (np.array([scores[sides[side]] for sides in neighbouring]) for side in range(2))
    epsilon, widest = Fraction(3, 2), 0.0
    for open_ in left:
        logs = [float(epsilon) * table[:, open_] / 2 / pairs.sensitivity(neighbours) for table in (one, two)]
        loss = np.subtract(*(log - np.log(np.exp(log).sum(axis=1, keepdims=True)) for log in logs))
        widest = max(widest, float(np.ptp(loss, axis=1).max()), float(np.abs(loss).max()))
    assert widest <= epsilon * (1 + 1e-12)
    assert 2 * widest > epsilon


def test_what_is_no_outcome_of_a_choice_is_told_from_what_is_one() -> None:
    """Pairs in any order, against the pairs that could be next at each of them."""
    rng = np.random.default_rng(5)
    found = Counter[bool]()
    for trial in range(300):
        sizes = tuple(int(size) for size in rng.integers(2, 5, 5))
        pairs = Pairs(
            AttributeSizes(tuple("abcde"), sizes), most_cells=12, further=2, all_cells=int(rng.integers(30, 90))
        )
        drawn: list[Clique] = []
        while left := candidates(pairs, drawn):
            drawn.append(left[int(rng.integers(len(left)))])
        assert unlike_a_choice(pairs, drawn) == ""
        order = [drawn[n] for n in rng.permutation(len(drawn))][: len(drawn) - trial % 2]
        if trial % 3 == 0 and order:
            order[-1] = list(combinations(range(5), 2))[int(rng.integers(10))]
        is_one = all(pair in candidates(pairs, order[:n]) for n, pair in enumerate(order))
        is_one &= len(order) == pairs.rounds or not candidates(pairs, order)
        assert (unlike_a_choice(pairs, order) == "") == is_one
        found[is_one] += 1
    assert min(found.values()) > 30


#: Three pairs beyond a tree.
FURTHER = (DECLARED, 'choose = { share = "1/10", attributes_share = "1/20", further = 3, all_cells = 200 }')


@pytest.fixture
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release with pairs beyond a tree, charged to a ledger that had just what is declared; for reading only."""
    return made_case(tmp_path_factory, "cliques") / "out" / "wide"


@pytest.fixture
def again(chosen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder with its inputs, key, ledger and output."""
    folder = Path(shutil.copytree(chosen.parents[1], tmp_path / "again"))
    monkeypatch.setenv("SPINEWISE_LEDGER", str(folder / "ledger.sqlite"))
    monkeypatch.setenv("SPINEWISE_STATE", str(folder / "state"))
    return folder


@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("neighbours", ["change-one", "add-remove"])
@pytest.mark.parametrize(("records", "weight", "further"), [(1, 1, None), (3, 2, None), (1, 3, None), (3, 2, 2)])
def test_statement_ledger_and_declared_budget_agree(
    framework: Framework, neighbours: Neighbours, records: int, weight: int, further: int | None
) -> None:
    """The ledger's price of each part is what the account says of it, all of them are the cost; all else is left."""
    weights = {} if weight == 1 else {"a * b": weight}
    section = ChooseSection(share="1/7", attributes_share="1/9", weights=weights, further=further)  # type: ignore[arg-type]
    attributes = {"a": ("0", "1"), "b": ("0", "1", "2"), "c": ("0", "1"), "d": ("0", "1")}
    terms = ChoiceTerms(section, attributes, framework, neighbours, records, Fraction(5, 2), "top", Fraction(1, 3))
    assert terms.scale * weight * MOVED[neighbours] == terms.epsilon
    moved, several = MOVED[neighbours], records ** (2 if framework == "zcdp" else 1)
    assert terms.rounds == 3 + (further or 0)
    prices = []
    for one in terms.earlier.uses:
        moves, used = Moved.by(losses=max(1, one.weight * moved), records=records), one.mechanism
        price = cost_of(Group(one.level, one.query, used.mechanism, used.scale, one.size, moves), framework, neighbours)
        assert price == one.cost
        prices.append(price)
    assert sum(prices) == terms.cost == terms.budget - terms.rest
    assert terms.cost <= terms.budget * (Fraction(1, 7) + Fraction(1, 9))
    assert terms.cost > terms.budget * (Fraction(1, 7) + Fraction(1, 9)) * Fraction(9999, 10000)
    moving = (one.moving(moved) for one in terms.earlier.uses)
    of_one = [(use.rho(n) if framework == "zcdp" else use.epsilon(n)) for use, n in moving]
    assert sum(cost * several for cost in of_one if cost is not None) == terms.cost


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
    tight = {**section, "choose": {**section["choose"], "all_cells": cells - 1}}
    other = r"marginals\.cliques: .* could not be chosen after those before it"
    dearer = {**section, "choose": {**section["choose"], "share": "1/5"}}
    for wrong, told in ((tight, other), (dearer, "another rho"), ({**section, "budget": "4"}, "rho")):
        with pytest.raises(SpecError, match=told):
            ReleaseSpec.from_public_dict({**content, "marginals": wrong})


@pytest.mark.parametrize("budget", ["2/5", "29999/10000"])
def test_too_small_a_budget_is_refused_before_anything_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: str
) -> None:
    """Too small for the choice, or for what is measured after it."""
    spec = write_wide(tmp_path / "in", CHOSEN, CHARGED)
    monkeypatch.setattr(confidential, "chosen_pairs", None)
    with (
        ledger_of(tmp_path, dataset="people", budget=budget) as place,
        pytest.raises(BudgetRefusedError, match="asked for rho = 3, left is"),
    ):
        run(spec, tmp_path / "out")
    assert [event["kind"] for event in read_ledger(str(place))[1]] == ["open"]
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
    assert spent(again / "ledger.sqlite", "people") == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [8, 11, 40])
def test_a_run_that_is_killed_in_its_choice_or_after_it_is_resumed_and_charged_once(
    tmp_path: Path, number: int
) -> None:
    spec = write_wide(tmp_path / "in", FURTHER, CHARGED)
    with ledger_of(tmp_path, dataset="people", budget="3") as place:
        assert kill_at(spec, tmp_path / "out", "sync", number)
        root = run(spec, tmp_path / "out")
    assert spent(place, "people") == 3
    assert [one for one in audit(root, ledger=str(place)) if not one.passed] == []


def test_records_in_memory_are_refused(tmp_path: Path) -> None:
    spec = sw.Spec.read(write_wide(tmp_path, CHOSEN))
    with pytest.raises(InputError, match="pairs are chosen from records in a file; these are a table in memory"):
        sw.run(spec, records=records(), out=tmp_path / "out", workers=1, progress=False)


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


#: In which the tables of attributes have much noise; in which a pair counts twice.
_NOISY = (DECLARED, CHOSEN[1].replace("1/20", "1/2000"))
_WEIGHTED = (DECLARED, f'{CHOSEN[1][:-2]}, weights = {{ "age * car" = 2 }} }}')


def _larger_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs are chosen although the tables that have them are larger than stated."""
    monkeypatch.setattr(Pairs, "fits", lambda *_: True)


#: Some are found only beyond a tree, or where all tables together are to be small.
_SLOW = pytest.mark.slow
_IN = "features.marginals.confidential:"
_DRAW = f"{_IN}_drawn"


@pytest.mark.parametrize(
    ("plant", "stated", "found"),
    [
        (_uncharged, CHOSEN, "attribute age at county was not charged"),
        pytest.param(_half_sensitivity, CHOSEN, "the draw of 'pair 1 of 6' at level 'county' with scales", marks=_SLOW),
        pytest.param(_other_scale, CHOSEN, "these records and this key choose", marks=_SLOW),
        pytest.param(_other_key, CHOSEN, "fingerprint stated is not that of the tables in restricted/", marks=_SLOW),
        (_other_pairs, CHOSEN, "these records and this key choose"),
        pytest.param(_other_noise, CHOSEN, "these records and this key choose", marks=_SLOW),
        pytest.param(_uncharged_further, FURTHER, "pair 9 of 9 at county was", marks=_SLOW),
        pytest.param(text(_DRAW, "+ sampler", "+ 0 * sampler"), FURTHER, "these records and this key", marks=_SLOW),
        pytest.param(text(_DRAW, "query(name)", 'query("")'), _NOISY, "these records and this key", marks=_SLOW),
        pytest.param(text(f"{_IN}chosen_pairs", "len(chosen))[", "0)["), CHOSEN, "these records and", marks=_SLOW),
        pytest.param(text(f"{_IN}answered", "tables.digest()", 'b""'), CHOSEN, "fingerprint stated is", marks=_SLOW),
        pytest.param(
            text(f"{_IN}charge_of", "one.weight", "min(one.weight, 1)"),
            _WEIGHTED,
            "at county was not charged",
            marks=_SLOW,
        ),
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
    spec, key = write_wide(tmp_path / "in", stated, CHARGED), tmp_path / KEY
    write_key(tmp_path)
    with ledger_of(tmp_path, dataset="people", budget="30") as place, monkeypatch.context() as planted:
        plant(planted)
        root = run(spec, tmp_path / "out", key_file=key)
    problems = [f"{one.check} {one.subject} {one.detail}" for one in audit(root, key, str(place)) if not one.passed]
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
