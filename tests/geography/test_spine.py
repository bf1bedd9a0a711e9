"""The spine's order, offsets, ancestors and slices, against brute force over the paths from the top to each leaf."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.spine_paths import Path, brute_levels, paths, table_of

from geography.build import spine_from_table
from geography.errors import SpineError
from geography.spine import Level, Spine


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


def test_the_fingerprint_changes_with_names_codes_and_tree(two_states: Spine) -> None:
    top, leaves = two_states.levels
    others = [
        Spine((Level("nation", top.geocodes, top.parents), leaves)),
        Spine((top, Level("block", np.array(["a1", "a2", "b9"]), leaves.parents))),
        Spine((top, Level("block", leaves.geocodes, np.array([0, 1, 1])))),
        two_states.slice(0, 0),
    ]
    assert len({spine.fingerprint() for spine in [two_states, *others]}) == 5


def test_levels_are_looked_up_by_name(two_states: Spine) -> None:
    assert two_states.index_of("block") == 1
    assert two_states.level("block") is two_states.leaf_level
    with pytest.raises(SpineError, match="level 'tract' is not in the spine; its levels are state, block"):
        two_states.index_of("tract")
    with pytest.raises(SpineError, match="level 'tract'"):
        two_states.level("tract")


@pytest.mark.parametrize(
    ("codes", "parents", "message"),
    [
        (["a1", "a2"], [0, 0], "level 'block': the parents are not 0 to 1 in order, each at least once"),
        (["a1", "b1", "a2"], [0, 1, 0], "level 'block': the parents are not 0 to 1 in order, each at least once"),
        (["a2", "a1", "b1"], [0, 0, 1], "level 'block': codes out of order or twice under one parent: 'a1'"),
        (["a1", "a1", "b1"], [0, 0, 1], "level 'block': codes out of order or twice under one parent: 'a1'"),
        (["a1", "a1"], [0, 1], "level 'block': codes under two parents: 'a1'; a code must be unique in its level"),
        ([], [], "level 'block': no geounits; at least one is needed"),
    ],
)
def test_an_order_that_is_not_canonical_is_refused(codes: list[str], parents: list[int], message: str) -> None:
    top = Level("state", np.array(["a", "b"]), np.array([-1, -1]))
    leaves = Level("block", np.array(codes, dtype=np.str_), np.array(parents, dtype=np.int64))
    with pytest.raises(SpineError) as error:
        Spine((top, leaves))
    assert str(error.value) == message


@pytest.fixture
def two_states() -> Spine:
    top = Level("state", np.array(["a", "b"]), np.array([-1, -1]))
    return Spine((top, Level("block", np.array(["a1", "a2", "b1"]), np.array([0, 0, 1]))))
