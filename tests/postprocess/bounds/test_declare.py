"""Bounds carried up and down the spine are what the levels below need; infeasible ones are found and explained."""

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
from scipy.optimize import Bounds, LinearConstraint, milp

from geography.build import spine_from_prefixes
from geography.errors import InputError
from geography.spine import Spine
from pipeline.model.universe import Bound, Universe
from pipeline.spec.release_spec import parse_spec
from postprocess.bounds import declare as declare_module
from postprocess.bounds.declare import NO_COLUMN, UNBOUNDED, FacilityBounds, Invariant, SetBounds, declare, propagation
from postprocess.bounds.feasibility import check_feasible
from postprocess.errors import InfeasibleError
from postprocess.marginal import Marginal
from postprocess.problem import Constraints, GroupBounds

SHAPE = (4, 2)
NOTHING = np.zeros(8, dtype=bool)
TOTAL = Marginal("total", (np.zeros(4, dtype=np.int64), np.zeros(2, dtype=np.int64)))
HALF = Marginal("half", (np.array([0, 0, 1, 1]), np.zeros(2, dtype=np.int64)))
FIRST = Marginal("first", (np.arange(4), np.zeros(2, dtype=np.int64)))
SECOND = Marginal("second", (np.zeros(4, dtype=np.int64), np.arange(2)))
SPINE = spine_from_prefixes(["111", "112", "121", "122"], {"state": 1, "county": 2, "block": 3})


@pytest.mark.parametrize(("count", "lower"), [(-2, 0), (10**15, 10)])
def test_impossible_numbers_of_facilities_are_refused(count: int, lower: int) -> None:
    counts = np.zeros((4, 4), dtype=np.int64)
    counts[2, 1] = count
    with pytest.raises(InputError, match=f"bounds 'gq': {count:,} facilities in block 121; allowed are 0 to"):
        declare(SPINE, NOTHING, (), [FacilityBounds("gq", "block", FIRST, counts, lower, 100)])


# What a set of groups is allowed, against listing all whole numbers.


def points(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """All whole numbers in a box."""
    return np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(lower, upper, strict=True)))))


def over_sets(allowed: np.ndarray) -> np.ndarray:
    """The sums over every set of groups, `(n_points, 2 ** g)`."""
    g = allowed.shape[1]
    return np.stack([allowed[:, [i for i in range(g) if s >> i & 1]].sum(axis=1) for s in range(1 << g)], axis=1)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_bounds_on_sets_are_those_of_all_whole_numbers(seed: int) -> None:
    """Boxes, blocks, sums over children and bounds on groups and on the total above, in any order of magnitude."""
    rng = np.random.default_rng(seed)
    lower = rng.integers(0, 3, (2, 3))
    upper = lower + rng.integers(0, 4, (2, 3))
    truth = rng.integers(lower, upper + 1)
    sets = SetBounds.of_groups(lower, upper)
    allowed = [points(lower[i], upper[i]) for i in range(2)]
    for block in (0b011, 0b111):
        members = [i for i in range(3) if block >> i & 1]
        sums = truth[:, members].sum(axis=1)
        low, high = sums - rng.integers(0, 2, 2), sums + rng.integers(0, 2, 2)
        sets = sets.with_block(block, low, high)
        allowed = [
            x[(x[:, members].sum(axis=1) >= a) & (x[:, members].sum(axis=1) <= b)]
            for x, a, b in zip(allowed, low, high, strict=True)
        ]
    above = np.unique((allowed[0][:, None, :] + allowed[1][None, :, :]).reshape(-1, 3), axis=0)
    sets = sets.added_up(np.array([0]))
    group, whole = int(rng.integers(0, 3)), truth.sum()
    value = truth.sum(axis=0)[group] + rng.integers(-1, 1, 1)
    sets = sets.with_block(1 << group, value, value + 1).with_block(
        7, whole + np.zeros(1, int), whole + np.ones(1, int)
    )
    above = above[(above[:, group] >= value) & (above[:, group] <= value + 1)]
    above = above[(above.sum(axis=1) >= whole) & (above.sum(axis=1) <= whole + 1)]
    np.testing.assert_array_equal(sets.lower[0], over_sets(above).min(axis=0))
    np.testing.assert_array_equal(sets.upper[0], over_sets(above).max(axis=0))
    # The stated and the needed bounds leave exactly these whole numbers.
    stated = [1, 2, 4, 7]
    box = points(sets.lower[0, [1, 2, 4]], sets.upper[0, [1, 2, 4]])
    sums = over_sets(box)
    kept = (sums[:, 7] >= sets.lower[0, 7]) & (sums[:, 7] <= sets.upper[0, 7])
    for number, need_low, need_high in sets.not_implied(stated):
        kept &= (sums[:, number] >= sets.lower[0, number]) | ~need_low[0]
        kept &= (sums[:, number] <= sets.upper[0, number]) | ~need_high[0]
    assert {tuple(x) for x in box[kept]} == {tuple(x) for x in above}


# The guarantee: any choice under the bounds of a level can be gone on with, down to the leaves.


def random_chain(seed: int) -> tuple[Spine, Constraints, list[np.ndarray]]:
    """Bounds on nested queries about a random truth, at any levels, in a form that the guarantee covers."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, int(rng.integers(2, 5)))
    zeros = rng.random(8) < 0.1
    leaves = rng.poisson(rng.choice([0.3, 1.0, 3.0]) * rng.gamma(0.7, 1.0, (spine.n_leaves, 8)))
    leaves[rng.random((spine.n_leaves, 8)) < 0.2] = 0
    truth = level_sums(spine, np.where(zeros, 0, leaves).astype(np.int64))
    bounds: list[tuple[GroupBounds, ...]] = []
    names: set[str] = set()
    for counts in reversed(truth):
        allowed = [TOTAL, FIRST] if len(names) > 1 else [TOTAL, HALF, FIRST]
        level = [about(rng, marginal, counts) for marginal in allowed if rng.random() < 0.5]
        names |= {bound.name for bound in level}
        bounds.insert(0, tuple(level))
    return spine, Constraints(zeros, tuple(bounds)), truth


def about(rng: np.random.Generator, marginal: Marginal, truth: np.ndarray) -> GroupBounds:
    """Exact, about the truth, or only zeros."""
    answer = marginal.answer(truth)
    kind = rng.integers(0, 3)
    if kind == 0:
        return GroupBounds(marginal.name, marginal, answer, answer)
    if kind == 1:
        return GroupBounds(marginal.name, marginal, 0 * answer, np.where(answer == 0, 0, UNBOUNDED))
    lower = np.where(rng.random(answer.shape) < 0.4, 0, np.maximum(0, answer - rng.integers(0, 4, answer.shape)))
    upper = np.where(rng.random(answer.shape) < 0.3, UNBOUNDED, answer + rng.integers(0, 4, answer.shape))
    return GroupBounds(marginal.name, marginal, lower, upper)


def some_children(
    bounds: tuple[GroupBounds, ...],
    rows: slice,
    parent: np.ndarray | None,
    low: np.ndarray,
    high: np.ndarray,
    cost: np.ndarray,
    *,
    whole: bool,
) -> np.ndarray | None:
    """The cheapest children `(C, n_cells)` of a parent that keep their bounds and lie between `low` and `high`."""
    index = np.arange(cost.size).reshape(cost.shape)
    matrix, least, most = [], [], []

    def row(members: np.ndarray, lower: float, upper: float) -> None:
        matrix.append(np.isin(np.arange(cost.size), members))
        least.append(lower)
        most.append(np.inf if upper >= UNBOUNDED else upper)

    if parent is not None:
        for cell, count in enumerate(parent):
            row(index[:, cell], count, count)
    for bound in bounds:
        for child, answer in itertools.product(range(len(cost)), range(bound.marginal.size)):
            members = index[child, bound.marginal.cell_answer == answer]
            row(members, bound.lower[rows][child, answer], bound.upper[rows][child, answer])
    found = milp(
        cost.ravel(),
        integrality=np.full(cost.size, int(whole)),
        bounds=Bounds(low.ravel(), high.ravel()),
        constraints=[LinearConstraint(np.array(matrix).astype(float), least, most)] if matrix else [],
    )
    return None if found.x is None else found.x.reshape(cost.shape)


def goes_through(
    spine: Spine, zeros: np.ndarray, levels: tuple[tuple[GroupBounds, ...], ...], most: int, seed: int
) -> bool:
    """From the top, take extreme or mixed real solutions and whole numbers next to them; False at a dead end."""
    rng = np.random.default_rng(seed)
    above: np.ndarray | None = None
    for level, bounds in enumerate(levels):
        n = len(spine.levels[level])
        offsets = spine.child_offsets(level - 1) if level else np.arange(n + 1)
        here = np.zeros((n, len(zeros)), dtype=np.int64)
        for parent in range(len(offsets) - 1):
            rows = slice(int(offsets[parent]), int(offsets[parent + 1]))
            size = (rows.stop - rows.start, len(zeros))
            low, high = np.zeros(size), np.where(zeros, 0.0, float(most)) + np.zeros(size)
            counts = None if above is None else above[parent]
            costs = [rng.normal(size=size) * rng.choice([0, 1, 1], size=size) for _ in range(3)]
            real = [some_children(bounds, rows, counts, low, high, cost, whole=False) for cost in costs[:2]]
            if real[0] is None or real[1] is None:
                return False
            weight = rng.choice([0.0, 0.5, rng.random()])
            mixed = real[0] * weight + real[1] * (1 - weight)
            mixed = np.where(np.abs(mixed - np.rint(mixed)) < 1e-6, np.rint(mixed), mixed)
            near = some_children(bounds, rows, counts, np.floor(mixed), np.ceil(mixed), costs[2], whole=True)
            if near is None:
                return False
            here[rows] = np.rint(near)
        above = here
    return True


@pytest.mark.slow
@settings(max_examples=40)
@given(seed=st.integers(0, 10**6))
def test_no_choice_under_the_bounds_is_a_dead_end(seed: int) -> None:
    spine, constraints, truth = random_chain(seed)
    check_feasible(spine, SHAPE, constraints)
    carried = propagation(spine, constraints.bounds, constraints.structural_zeros)
    if not carried.gaps:
        most = int(truth[0].sum()) + 6
        assert goes_through(spine, constraints.structural_zeros, carried.bounds, most, seed)


def test_without_bounds_on_sets_there_are_dead_ends() -> None:
    """The test above can fail: with sums of bounds alone, of the county in the example no such state can be divided."""
    upper = np.array([[UNBOUNDED, UNBOUNDED, UNBOUNDED, 0], [UNBOUNDED, 0, 0, UNBOUNDED]])
    total = np.array([[10], [50]])
    bounds = ((), (GroupBounds("f", FIRST, 0 * upper, upper), GroupBounds("t", TOTAL, total, total)), ())
    carried = propagation(SPINE, bounds).bounds
    without = tuple(tuple(bound for bound in level if "(set)" not in bound.name) for level in carried)
    assert all(goes_through(SPINE, NOTHING, carried, 60, seed) for seed in range(30))
    assert not all(goes_through(SPINE, NOTHING, without, 60, seed) for seed in range(30))


@pytest.mark.parametrize(("lower", "upper"), [(2, UNBOUNDED), (0, 5), (2, 5)])
def test_a_pass_that_crosses_a_bounded_query_is_told(lower: int, upper: int) -> None:
    """Also where it is bounded on one side alone; what is only a zero is not."""
    ends = np.full((4, 4), lower), np.full((4, 4), upper)
    blocks = (GroupBounds("f", FIRST, *ends),)
    (gap,) = propagation(SPINE, ((), (), blocks), None, (SECOND,)).gaps
    assert gap.startswith('at level block, the pass "second" crosses the bounded query "first"')
    assert propagation(SPINE, ((), (), blocks), None, (TOTAL,)).gaps == ()
    zeros = (GroupBounds("f", FIRST, 0 * ends[0], np.where(np.arange(4) < 2, 0, UNBOUNDED) + 0 * ends[0]),)
    assert propagation(SPINE, ((), (), zeros), None, (SECOND,)).gaps == ()


def test_a_level_of_many_rows_has_the_same_bounds_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Facilities and sums of a country's leaves are worked on in stretches, whose ends are within families or not."""
    spine, rng = random_spine(np.random.default_rng(5), 4, most=5), np.random.default_rng(6)
    counts = rng.integers(NO_COLUMN, 4, (spine.n_leaves, 2))
    bound = FacilityBounds("beds", spine.level_names[-1], SECOND, counts, 2, 9)
    starts = spine.child_offsets(spine.n_levels - 2)[:-1]
    for at_once in (1, 7, 1 << 22):
        monkeypatch.setattr(declare_module, "_CHUNK", at_once)
        declared = declare(spine, NOTHING, (), [bound]).bounds[-1][0]
        assert np.array_equal(declared.lower, np.where(counts < 0, 0, 2 * counts))
        assert np.array_equal(declared.upper, np.where(counts < 0, UNBOUNDED, 9 * counts))
        sums = declare_module.bounded_sum(declared.upper, starts)
        for row, family in enumerate(np.split(counts, starts[1:])):
            for answer in range(2):
                open_ended = (family[:, answer] < 0).any()
                assert sums[row, answer] == (UNBOUNDED if open_ended else 9 * family[:, answer].sum())


_FILE = tomllib.loads(Path(__file__).with_name("infeasible_specs.toml").read_text("utf-8"))
CASES: list[dict[str, Any]] = _FILE["case"]
OTHER_SPINE = spine_from_prefixes(["111", "112", "121", "122", "211"], {"state": 1, "county": 2, "block": 3})


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
    constraints = constraints_of(universe, OTHER_SPINE, case.get("invariants", {}))
    with pytest.raises(InfeasibleError) as error:
        check_feasible(OTHER_SPINE, universe.schema.shape, constraints, labels)
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
