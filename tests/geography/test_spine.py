"""Spines: three builders agree and name what is no tree; order, slices, parts; areas off the spine by brute force."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path as FilePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geography.build import spine_from_pairs, spine_from_prefixes, spine_from_table, spine_within
from geography.errors import SpineError
from geography.off_spine import OffSpineAreas, off_spine_distances, regroup
from geography.spine import LeftOut, Level, Spine

#: The codes of a leaf's ancestors, top first, and its own.
Path = tuple[str, ...]

_LETTERS = st.characters(codec="utf-8", exclude_categories=["C", "Z"])


@st.composite
def paths(draw: st.DrawFn, *, prefix: bool = False, most_levels: int = 4) -> list[Path]:
    """Leaves at equal depth in any order, any fan-out, single children included.

    Codes are prefixes of their children's with `prefix`, else any text that is unique in its level.
    """
    n_levels = draw(st.integers(1, most_levels))
    level: list[Path] = [()]
    for number in range(n_levels):
        fan_out = [draw(st.integers(1, 4 if number else 2)) for _ in level]
        if prefix:
            width = draw(st.integers(1, 2))
            steps = [
                draw(st.lists(st.text(_LETTERS, min_size=width, max_size=width), min_size=n, max_size=n, unique=True))
                for n in fan_out
            ]
            codes = [
                [(path[-1] if path else "") + step for step in own] for path, own in zip(level, steps, strict=True)
            ]
        else:
            total = sum(fan_out)
            flat = draw(
                st.lists(st.text(_LETTERS, min_size=1, max_size=3), min_size=total, max_size=total, unique=True)
            )
            ends = [sum(fan_out[: i + 1]) for i in range(len(fan_out))]
            codes = [flat[end - n : end] for end, n in zip(ends, fan_out, strict=True)]
        level = [(*path, code) for path, own in zip(level, codes, strict=True) for code in own]
    return draw(st.permutations(level))


@st.composite
def ragged_paths(draw: st.DrawFn) -> tuple[list[Path], int]:
    """Leaves at unequal depth under codes that are unique in the whole tree, and the number of levels."""
    n_levels = draw(st.integers(2, 4))
    serial = iter(draw(st.permutations(range(1000, 1100))))
    leaves: list[Path] = []
    level: list[Path] = [(str(next(serial)),) for _ in range(draw(st.integers(1, 2)))]
    for _ in range(1, n_levels):
        # One geounit at each depth is always divided, so that every level has a code of its own.
        divided = [i == 0 or draw(st.booleans()) for i in range(len(level))]
        leaves += [path for path, d in zip(level, divided, strict=True) if not d]
        level = [
            (*path, str(next(serial)))
            for path, d in zip(level, divided, strict=True)
            if d
            for _ in range(draw(st.integers(1, 2)))
        ]
    return draw(st.permutations(leaves + level)), n_levels


def brute_levels(tree: list[Path]) -> list[list[Path]]:
    """The geounits of each level, as paths, in canonical order."""
    return [sorted({path[: depth + 1] for path in tree}) for depth in range(len(tree[0]))]


def table_of(tree: list[Path], names: list[str]) -> pa.Table:
    """One row a leaf, one column a level, null where the path has ended."""
    columns = [[path[i] if i < len(path) else None for path in tree] for i in range(len(names))]
    return pa.table({name: pa.array(c, pa.string()) for name, c in zip(names, columns, strict=True)})


def pairs_of(tree: list[Path]) -> tuple[list[str], list[str]]:
    """Children and parents; codes are told apart by their depth, as pairs need codes unique in the whole tree."""
    geounits = sorted({path[: depth + 1] for path in tree for depth in range(len(path))})
    return [path[-1] for path in geounits], [path[-2] if len(path) > 1 else "" for path in geounits]


CENSUS = {"state": 2, "county": 5, "tract": 11, "block_group": 12, "block": 15}


def as_paths(spine: Spine) -> list[list[Path]]:
    """Each level's geounits as paths, read off codes and parents alone."""
    levels: list[list[Path]] = []
    for level in spine.levels:
        above = levels[-1] if levels else []
        levels.append(
            [
                (*(above[p] if p >= 0 else ()), c)
                for c, p in zip(level.geocodes.tolist(), level.parents.tolist(), strict=True)
            ]
        )
    return levels


@given(paths())
@settings(max_examples=40)
def test_a_table_gives_the_levels_in_canonical_order(tree: list[Path]) -> None:
    names = [f"L{i}" for i in range(len(tree[0]))]
    spine = spine_from_table(table_of(tree, names), names)
    assert as_paths(spine) == brute_levels(tree)
    assert spine.level_names == tuple(names)


@given(paths(prefix=True))
@settings(max_examples=40)
def test_three_builders_agree_whatever_the_order(tree: list[Path]) -> None:
    names = [f"L{i}" for i in range(len(tree[0]))]
    lengths = {name: len(code) for name, code in zip(names, tree[0], strict=True)}
    by_prefix = spine_from_prefixes([path[-1] for path in tree], lengths)
    by_table = spine_from_table(table_of(tree, names), names)
    by_pairs = spine_from_pairs(*pairs_of(tree), names)
    assert as_paths(by_prefix) == brute_levels(tree)
    assert by_prefix.fingerprint() == by_table.fingerprint() == by_pairs.fingerprint()


@given(ragged_paths(), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_a_branch_that_ends_early_is_repeated_as_its_own_single_child(
    ragged: tuple[list[Path], int], random: object
) -> None:
    tree, n_levels = ragged
    names = [f"L{i}" for i in range(n_levels)]
    padded = [path + (path[-1],) * (n_levels - len(path)) for path in tree]
    by_table = spine_from_table(table_of(tree, names), names)
    assert as_paths(by_table) == brute_levels(padded)
    children, parents = pairs_of(tree)
    order = list(range(len(children)))
    random.shuffle(order)  # type: ignore[attr-defined]
    by_pairs = spine_from_pairs([children[i] for i in order], [parents[i] or None for i in order], names)
    assert by_pairs.fingerprint() == by_table.fingerprint()


LEVELS = {"s": 2, "b": 4}


def of_columns(s: object, b: object) -> Spine:
    return spine_from_table(pa.table({"s": s, "b": b}), ["s", "b"])


def of_pairs(*pairs: tuple[str, str]) -> Spine:
    children, parents = zip(*pairs, strict=True)
    return spine_from_pairs(children, parents, ["n", "s", "b"])


LEAVES = ["1101", "1102", "1201", "2101", "2201", "2202", "3101"]
WHOLE = spine_from_prefixes(LEAVES, {"state": 1, "county": 2, "block": 4})
US, A, B = ("US", ""), ("A", "US"), ("B", "US")


@pytest.mark.parametrize(
    ("build", "given", "told"),
    [
        (spine_from_prefixes, (["4401", "4402", "4401"], LEVELS), "level 'b': codes given twice: '4401'"),
        (spine_from_prefixes, (["4401", "440"], LEVELS), "'440' (3); each must have 4 characters; was a leading zero"),
        (spine_from_prefixes, (["4401", "44012"], LEVELS), "wrong length: '44012' (5); each must have 4 characters"),
        (spine_from_prefixes, (["4401", ""], LEVELS), "leaf codes: 1 empty, in row 2"),
        (spine_from_prefixes, ([], LEVELS), "leaf codes: the list is empty"),
        (spine_from_prefixes, (["4401", 4402], LEVELS), "leaf codes: 1 not text: 4402"),
        (spine_from_prefixes, (np.array([4401]), LEVELS), "leaf codes: 1 not text: 4401"),
        (spine_from_prefixes, (["4401"], {"s": 4, "b": 4}), "found the prefix lengths s = 4, b = 4; they must be"),
        (spine_from_prefixes, (["4401"], {"s": 0, "b": 4}), "found the prefix lengths s = 0, b = 4; they must be"),
        (spine_from_prefixes, (["4401"], [("s", 2), ("s", 4)]), "levels: the name 's' occurs twice in s, s"),
        (spine_from_prefixes, (["4401"], {}), "no levels are named; at least one is needed"),
        (spine_from_prefixes, (["4401"], {" ": 4}), "level 1 is named ' '"),
        (of_columns, (["A", "B"], ["1", "1"]), "level 'b': 1 code with several parents: 1 under A and B"),
        (of_columns, (["A", "A"], ["1", "1"]), "level 'b': codes given twice: '1'; give each leaf once"),
        (of_columns, (["A", None], ["1", "2"]), "level 's': no code in row 2"),
        (of_columns, (["A", "B"], ["", None]), "level 'b': no geounit has a code of its own at this level"),
        (of_columns, (["A", "A"], ["", "1"]), "s 'A' has rows without a code at this level and rows with one ('1')"),
        (of_columns, (["A"], [1.5]), "level 'b': the column holds double; codes must be text or whole numbers"),
        (of_columns, (pa.array([], pa.string()), pa.array([], pa.string())), "the list of leaves is empty"),
        (spine_from_table, (pa.table({"s": ["A"], "x": ["1"]}), ["s", "b"]), "the columns are s, x"),
        (of_pairs, (US, A, B, ("1", "A"), ("1", "B"), ("2", "B")), "1 child with several parents: 1 under A and B"),
        (of_pairs, (US, A, ("1", "A"), ("1", "A")), "children given twice: '1'; give each pair once"),
        (of_pairs, (US, A, ("1", "A"), ("2", "Z")), "a parent that has no row of its own: 2 (parent Z)"),
        (of_pairs, (US, A, ("1", "A"), ("X", "Z"), ("Y", "X"), ("Z", "Y")), "form a cycle: X -> Z -> Y -> X"),
        (of_pairs, (("A", "A"), ("1", "A")), "the pairs form a cycle: A -> A"),
        (of_pairs, (US, A, ("1", "A"), ("x", "1")), "codes below the last level 'b': 'x'"),
        (of_pairs, (US, A), "level 'b': no geounit has a code of its own at this level"),
        (of_pairs, (US, ("", "US")), "children: 1 empty, in row 2"),
        (spine_from_pairs, (["1", "2"], ["A"], ["n"]), "found 2 children and 1 parents"),
        (
            spine_within,
            (WHOLE, {"state": ["2", "9"]}),
            "within.state: the list has no state '9'; it has 3: '1', '2'",
        ),
        (spine_within, (WHOLE, {"county": ["11"]}), "1 geounit of level 'state' would be left in part: '1'; name all"),
        (spine_within, (WHOLE, {"region": ["1"]}), "level 'region' is not in the spine"),
    ],
)
def test_what_is_no_spine_is_named(build: Callable[..., Spine], given: tuple[Any, ...], told: str) -> None:
    with pytest.raises(SpineError) as error:
        build(*given)
    assert told in str(error.value)


def test_rhode_island_has_its_published_numbers(shared_data: FilePath) -> None:
    table = pq.read_table(shared_data / "ri_2010_blocks.parquet", columns=list(CENSUS))
    codes = np.array(table["block"].to_pylist())
    start = time.process_time()
    spine = spine_from_prefixes(codes, CENSUS)
    assert time.process_time() - start < 0.5  # 0.02 s on an idle core
    assert [len(level) for level in spine.levels] == [1, 5, 244, 815, 25_181]
    assert spine.fingerprint() == spine_from_table(table, list(CENSUS)).fingerprint()


def test_the_united_states_are_a_spine_without_prefixes(shared_data: FilePath) -> None:
    names = ["region", "division", "state", "county", "leaf"]
    spine = spine_from_table(pq.read_table(shared_data / "us_2010_national_leaves.parquet", columns=names), names)
    assert [len(level) for level in spine.levels] == [4, 9, 51, 3_143, 187_023]
    codes = spine.leaf_level.geocodes
    assert spine.find_leaves(codes[::-1]).tolist() == list(range(len(codes)))[::-1]


@given(paths())
@settings(max_examples=30)
def test_offsets_and_ancestors_agree_with_the_paths(tree: list[Path]) -> None:
    names = [f"L{i}" for i in range(len(tree[0]))]
    spine = spine_from_table(table_of(tree, names), names)
    ordered = sorted(tree)
    for number, geounits in enumerate(brute_levels(tree)):
        below = [[leaf for leaf, path in enumerate(ordered) if path[: number + 1] == g] for g in geounits]
        offsets = spine.leaf_offsets(number)
        assert [list(range(a, b)) for a, b in itertools.pairwise(offsets)] == below
        expected = [geounits.index(path[: number + 1]) for path in ordered]
        assert spine.leaf_ancestors(number).tolist() == expected
        assert spine.repeats(number) == (number > 0 and len(geounits) == len(brute_levels(tree)[number - 1]))
        if number + 1 < len(names):
            children = [path[: number + 1] for path in brute_levels(tree)[number + 1]]
            offsets = spine.child_offsets(number)
            for i, geounit in enumerate(geounits):
                assert children[offsets[i] : offsets[i + 1]] == [geounit] * children.count(geounit)


@given(paths(), st.data())
@settings(max_examples=30)
def test_a_slice_is_the_spine_of_the_leaves_below(tree: list[Path], data: st.DataObject) -> None:
    names = [f"L{i}" for i in range(len(tree[0]))]
    spine = spine_from_table(table_of(tree, names), names)
    level = data.draw(st.integers(0, len(names) - 1))
    index = data.draw(st.integers(0, len(spine.levels[level]) - 1))
    here = brute_levels(tree)[level][index]
    below = [path[level:] for path in tree if path[: level + 1] == here]
    expected = spine_from_table(table_of(below, names[level:]), names[level:])
    sliced = spine.slice(level, index)
    assert sliced.fingerprint() == expected.fingerprint()
    start, stop = spine.leaf_offsets(level)[index : index + 2]
    assert sliced.leaf_level.geocodes.tolist() == spine.leaf_level.geocodes[start:stop].tolist()


def test_geounits_of_several_parents_are_sliced_together() -> None:
    """States 31 and 72 of one region and 09 of the next: codes increase below a parent, not across a level."""
    regions = Level("region", np.array(["2", "3"]), np.array([-1, -1]))
    states = Level("state", np.array(["31", "72", "09"]), np.array([0, 0, 1]))
    blocks = Level("block", np.array(["b", "a", "d", "c"]), np.array([0, 1, 1, 2]))
    with pytest.raises(SpineError, match="twice under one parent: 'a'"):
        Spine((regions, states, Level("block", blocks.geocodes[[0, 2, 1, 3]], blocks.parents)))
    spine = Spine((regions, states, blocks))
    part = spine.slice(1, 0, 3)
    assert part.level_names == ("state", "block")
    assert part.levels[0].geocodes.tolist() == ["31", "72", "09"]
    assert part.levels[1].parents.tolist() == [0, 1, 1, 2]
    with pytest.raises(SpineError, match="codes under two parents"):
        Spine((Level("state", np.array(["31", "09", "31"]), np.full(3, -1)),), part=True)


@given(paths(), st.lists(st.text(max_size=4), max_size=5))
@settings(max_examples=30)
def test_find_leaves_finds_each_leaf_and_nothing_else(tree: list[Path], others: list[str]) -> None:
    names = [f"L{i}" for i in range(len(tree[0]))]
    spine = spine_from_table(table_of(tree, names), names)
    codes = spine.leaf_level.geocodes
    shuffled = np.random.default_rng(1).permutation(len(codes))
    assert spine.find_leaves(codes[shuffled]).tolist() == shuffled.tolist()
    # numpy drops trailing NULs of text, so "" and "\0" are one code to it.
    unknown = [code for code in others if code.rstrip("\0") not in codes.tolist()]
    assert spine.find_leaves(np.array(unknown, dtype=np.str_)).tolist() == [-1] * len(unknown)


def test_the_fingerprint_changes_with_names_codes_and_tree() -> None:
    top = Level("state", np.array(["a", "b"]), np.array([-1, -1]))
    leaves = Level("block", np.array(["a1", "a2", "b1"]), np.array([0, 0, 1]))
    two_states = Spine((top, leaves))
    others = [
        Spine((Level("nation", top.geocodes, top.parents), leaves)),
        Spine((top, Level("block", np.array(["a1", "a2", "b9"]), leaves.parents))),
        Spine((top, Level("block", leaves.geocodes, np.array([0, 1, 1])))),
        two_states.slice(0, 0),
    ]
    assert len({spine.fingerprint() for spine in [two_states, *others]}) == 5


def test_it_is_the_spine_of_the_leaves_in_the_areas() -> None:
    found = spine_within(WHOLE, {"state": ["3"], "county": ["21", "22"]})
    expected = spine_from_prefixes(LEAVES[3:], {"state": 1, "county": 2, "block": 4})
    assert found.fingerprint() == expected.fingerprint()
    assert found.left_out is not None
    assert found.left_out.codes is not None
    assert [codes.tolist() for codes in found.left_out.codes] == [["1"], ["11", "12"], LEAVES[:3]]


def test_the_codes_left_out_are_told_from_those_that_are_unknown() -> None:
    left_out = spine_within(WHOLE, {"state": ["2"]}).down_to("county").left_out
    assert left_out is not None
    assert left_out.has(1, np.array(["11", "31", "99", ""])).tolist() == [True, True, False, False]
    assert LeftOut().has(1, np.array(["99", ""])).tolist() == [True, False]  # nothing more is known of a release


def tree(rng: np.random.Generator, tracts: int, groups: int, blocks: int) -> Spine:
    codes = [
        f"{t:02d}{g}{b:02d}"
        for t in range(tracts)
        for g in range(int(rng.integers(1, groups + 1)))
        for b in range(int(rng.integers(1, blocks + 1)))
    ]
    return spine_from_prefixes(codes, {"county": 1, "tract": 2, "group": 3, "block": 5})


def random_areas(rng: np.random.Generator, spine: Spine, n: int) -> OffSpineAreas:
    """Runs of leaves in the order of their codes, as towns are, which may overlap."""
    rows = []
    for number in range(n):
        first = int(rng.integers(0, spine.n_leaves))
        last = min(spine.n_leaves, first + int(rng.integers(1, max(2, spine.n_leaves // 2))))
        rows += [("place", f"{number}", code) for code in spine.leaf_level.geocodes[first:last]]
    return OffSpineAreas.of(spine, *zip(*rows, strict=True))


def brute_force_distance(spine: Spine, leaves: set[int]) -> int:
    """The least number of geounits whose sums and differences give the area, by trying all combinations."""
    vectors = []
    for number in range(spine.n_levels):
        ancestors = spine.leaf_ancestors(number)
        vectors += [ancestors == i for i in range(len(spine.levels[number]))]
    unique = {v.tobytes(): v.astype(int) for v in vectors}
    target = np.array([i in leaves for i in range(spine.n_leaves)], dtype=int)
    for size in range(1, spine.n_leaves + 1):
        for some in itertools.combinations(unique.values(), size):
            for signs in itertools.product((1, -1), repeat=size):
                if np.array_equal(sum(s * v for s, v in zip(signs, some, strict=True)), target):
                    return size
    raise AssertionError


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_the_distance_equals_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    spine = tree(rng, 2, 2, 2)
    areas = random_areas(rng, spine, 2)
    found = off_spine_distances(spine, areas)
    for number in range(len(areas)):
        assert found[number] == brute_force_distance(spine, set(areas.leaf[areas.area == number].tolist()))


def _leaves(spine: Spine, code: str) -> set[str]:
    """The leaves of the unit with a code."""
    unit = int(np.flatnonzero(spine.levels[-2].geocodes == code)[0])
    return set(spine.leaf_level.geocodes[spine.leaf_level.parents == unit].tolist())


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), fan_out=st.integers(1, 12), keep=st.booleans())
def test_regrouping_keeps_leaves_and_caps_and_brings_areas_nearer(seed: int, fan_out: int, keep: bool) -> None:
    rng = np.random.default_rng(seed)
    spine = tree(rng, 3, 4, 9)
    areas = random_areas(rng, spine, 4)
    new = regroup(spine, areas, fan_out, keep=keep)
    assert new.level_names == spine.level_names
    assert sorted(new.leaf_level.geocodes) == sorted(spine.leaf_level.geocodes)
    place = new.find_leaves(spine.leaf_level.geocodes)
    codes = new.levels[-3].geocodes[new.leaf_ancestors(new.n_levels - 3)][place]
    assert np.array_equal(codes, spine.levels[-3].geocodes[spine.leaf_ancestors(spine.n_levels - 3)])
    assert np.diff(new.child_offsets(new.n_levels - 3)).max() <= fan_out
    leaves = np.diff(new.child_offsets(new.n_levels - 2))
    in_parent = np.diff(spine.leaf_offsets(spine.n_levels - 3))
    if in_parent.max() <= fan_out:
        assert leaves.max() <= fan_out
    for code in new.levels[-2].geocodes:
        if "-" not in code:
            assert _leaves(new, code) == _leaves(spine, code)
    if fan_out >= 40:
        assert (off_spine_distances(new, areas.moved(spine, new)) <= off_spine_distances(spine, areas)).all()


def test_without_a_cap_every_area_is_a_union_of_units() -> None:
    rng = np.random.default_rng(3)
    spine = tree(rng, 4, 5, 12)
    areas = random_areas(rng, spine, 6)
    for keep in (True, False):
        new = regroup(spine, areas, 1000, keep=keep)
        moved = areas.moved(spine, new)
        unit = new.leaf_level.parents
        sizes = np.bincount(unit)
        for number in range(len(areas)):
            inside = np.bincount(unit[moved.leaf[moved.area == number]], minlength=len(sizes))
            assert ((inside == 0) | (inside == sizes)).all()
        before, after = off_spine_distances(spine, areas), off_spine_distances(new, moved)
        assert after.sum() < before.sum()
    # Nothing off the spine and room enough: nothing changes.
    none = OffSpineAreas.of(spine, [], [], [])
    assert regroup(spine, none, 1000).fingerprint() == spine.fingerprint()
