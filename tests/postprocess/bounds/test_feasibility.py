"""Infeasible constraints are found, and explained; feasible ones are let through."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.random_problems import level_sums, random_spine

from geography.build import spine_from_prefixes
from geography.spine import Spine
from pipeline.model.universe import Bound, Universe
from pipeline.spec.release_spec import parse_spec
from postprocess.bounds.declare import NO_COLUMN, UNBOUNDED, FacilityBounds, Invariant, declare, propagation
from postprocess.bounds.feasibility import check_feasible
from postprocess.errors import InfeasibleError
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, GroupBounds

_FILE = tomllib.loads(Path(__file__).with_name("infeasible_specs.toml").read_text("utf-8"))
CASES: list[dict[str, Any]] = _FILE["case"]
SPINE = spine_from_prefixes(["111", "112", "121", "122", "211"], {"state": 1, "county": 2, "block": 3})


def facilities_of(bound: Bound, spine: Spine) -> FacilityBounds:
    table = pd.read_csv(bound.file, dtype={bound.geocode: str}).set_index(bound.geocode)
    geocodes = spine.level(bound.level).geocodes
    counts = np.full((len(geocodes), bound.query.size), NO_COLUMN)
    for answer, column in bound.columns.items():
        counts[:, answer] = table[column].reindex(geocodes)
    marginal = Marginal(bound.query.name, bound.query.groups)
    return FacilityBounds(bound.name, bound.level, marginal, counts, bound.lower, bound.upper)


def constraints_of(universe: Universe, spine: Spine, exact: dict[str, dict[str, Any]]) -> Constraints:
    invariants = [
        Invariant(level, Marginal(query.name, query.groups), np.array(exact[level][query.name]))
        for level, query in universe.invariants
    ]
    return declare(
        spine, universe.structural_zeros, invariants, [facilities_of(bound, spine) for bound in universe.bounds]
    )


def universe_of(case: dict[str, Any], folder: Path) -> Universe:
    for name, text in case.get("files", {}).items():
        (folder / f"{name}.csv").write_text(text)
    head, _, rest = _FILE["base"].partition("[privacy]")
    return parse_spec(head + "[privacy]" + rest + case["spec"], "spec.toml", folder).universes()[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_contradiction_is_explained(case: dict[str, Any], tmp_path: Path) -> None:
    """The whole message: which geounits, which constraints, by how many persons."""
    universe = universe_of(case, tmp_path)
    labels = {bound.query.name: bound.query.answer_labels() for bound in universe.bounds}
    labels |= {query.name: query.answer_labels() for _, query in universe.invariants}
    constraints = constraints_of(universe, SPINE, case.get("invariants", {}))
    with pytest.raises(InfeasibleError) as error:
        check_feasible(SPINE, universe.schema.shape, constraints, labels)
    first, *lines = str(error.value).splitlines()
    assert first == "the constraints contradict each other:"
    assert [line.removeprefix("  ") for line in lines] == case["says"].strip().splitlines()


def keeps(constraints: Constraints, level: int, row: int, histogram: tuple[int, ...]) -> bool:
    answers = ((b, np.bincount(b.marginal.cell_answer, histogram, b.marginal.size)) for b in constraints.bounds[level])
    return all((a >= b.lower[row]).all() and (a <= b.upper[row]).all() for b, a in answers)


def exists(spine: Spine, constraints: Constraints, most: int) -> bool:
    """Whether whole-number histograms keep the constraints, by listing all; a leaf has at most `most` persons."""
    possible = [range(1 if zero else most + 1) for zero in constraints.structural_zeros]
    every = [h for h in itertools.product(*possible) if sum(h) <= most]
    last = spine.n_levels - 1
    allowed = [{h for h in every if keeps(constraints, last, leaf, h)} for leaf in range(spine.n_leaves)]
    for level in range(last - 1, -1, -1):
        offsets = spine.child_offsets(level)
        sums = []
        for row in range(len(spine.levels[level])):
            found = {(0,) * len(possible)}
            for child in allowed[offsets[row] : offsets[row + 1]]:
                found = {tuple(x + y for x, y in zip(a, b, strict=True)) for a in found for b in child}
            sums.append({h for h in found if keeps(constraints, level, row, h)})
        allowed = sums
    return all(allowed)


def random_bounds(rng: np.random.Generator, name: str, marginal: Marginal, truth: np.ndarray) -> GroupBounds:
    """Bounds about the truth, exact or with gaps; some are moved, so that it may break them."""
    answer = marginal.answer(truth)
    lower = np.maximum(0, answer - rng.integers(0, 3, answer.shape))
    upper = answer + rng.integers(0, 3, answer.shape)
    if rng.random() < 0.4:
        lower = upper = answer
    if rng.random() < 0.3:
        upper = np.where(rng.random(answer.shape) < 0.5, UNBOUNDED, upper)
        lower = np.where(rng.random(answer.shape) < 0.5, 0, lower)
    if rng.random() < 0.25:
        shift = rng.integers(-1, 2, answer.shape)
        lower = np.maximum(lower + shift, 0)
        upper = np.maximum(upper + shift, lower)
    return GroupBounds(name, marginal, lower, upper)


def random_constraints(seed: int, shape: tuple[int, ...], most: int) -> tuple[Spine, Constraints]:
    """A tiny spine with bounds on any products of attributes at any level, feasible or not."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(1, 4)), roots=int(rng.integers(1, 3)), most=2)
    zeros = rng.random(int(np.prod(shape))) < 0.15
    truth = level_sums(spine, np.where(zeros, 0, rng.integers(0, 2, (spine.n_leaves, len(zeros)))))
    choices = itertools.product(*([np.zeros(n, dtype=np.int64), np.arange(n)] for n in shape))
    marginals = [Marginal(f"q{number}", groups) for number, groups in enumerate(choices)]
    bounds = [
        [random_bounds(rng, f"{level} {m.name}", m, counts) for m in marginals if rng.random() < 0.3]
        for level, counts in enumerate(truth)
    ]
    cap = np.full((spine.n_leaves, 1), most)
    bounds[-1].append(GroupBounds("cap", marginals[0], 0 * cap, cap))
    return spine, Constraints(zeros, tuple(tuple(level) for level in bounds))


def is_feasible(spine: Spine, shape: tuple[int, ...], constraints: Constraints) -> bool:
    try:
        check_feasible(spine, shape, constraints)
    except InfeasibleError:
        return False
    return True


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), shape=st.sampled_from([(2, 2), (3,), (2,)]))
def test_the_verdict_is_that_of_listing_all_histograms(seed: int, shape: tuple[int, ...]) -> None:
    most = 3 if len(shape) == 1 else 2
    spine, constraints = random_constraints(seed, shape, most)
    expected = exists(spine, constraints, most)
    assert is_feasible(spine, shape, constraints) == expected
    carried = propagation(spine, constraints.bounds, constraints.structural_zeros).bounds
    assert is_feasible(spine, shape, Constraints(constraints.structural_zeros, carried)) == expected


def test_both_verdicts_occur() -> None:
    """The comparison can fail: about a quarter of the random problems are infeasible."""
    verdicts = [
        is_feasible(spine, (2, 2), c) for spine, c in (random_constraints(seed, (2, 2), 2) for seed in range(40))
    ]
    assert 4 < verdicts.count(False) < 28


def test_what_only_fractions_of_persons_keep_is_refused() -> None:
    """One person of each value of three attributes; possible are cells with an odd number of ones: only halves fit."""
    impossible = np.array([sum(cell) % 2 == 0 for cell in itertools.product(range(2), repeat=3)])
    names, one = ("sex", "age", "race"), np.ones((1, 2), dtype=np.int64)
    marginals = [Marginal(name, tuple(np.arange(2) * (kept == j) for j in range(3))) for kept, name in enumerate(names)]
    bounds = tuple(GroupBounds(marginal.name, marginal, one, one) for marginal in marginals)
    state = spine_from_prefixes(["1"], {"state": 1})
    with pytest.raises(InfeasibleError) as error:
        check_feasible(state, (2, 2, 2), Constraints(impossible, (bounds,)))
    assert str(error.value) == (
        "the constraints contradict each other:\n"
        "  state 1: fractions of persons would keep them all (sex, age, race), but no whole numbers do"
    )
    check_feasible(state, (2, 2, 2), Constraints(np.zeros(8, dtype=bool), (bounds,)))
