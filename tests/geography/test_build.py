"""Three ways to build a spine: they agree, the input's order never matters, and what is no tree is named."""

from __future__ import annotations

import re
import time
from pathlib import Path as FilePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.spine_paths import Path, brute_levels, pairs_of, paths, ragged_paths, table_of

from geography.build import spine_from_pairs, spine_from_prefixes, spine_from_table
from geography.errors import SpineError
from geography.spine import Spine

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


def message(call: object, *arguments: object) -> str:
    with pytest.raises(SpineError) as error:
        call(*arguments)  # type: ignore[operator]
    return str(error.value)


@pytest.mark.parametrize(
    ("codes", "levels", "expected"),
    [
        (["4401", "4402", "4401"], {"s": 2, "b": 4}, "level 'b': codes given twice: '4401'; give each leaf once"),
        (["4401", "440"], {"s": 2, "b": 4}, "level 'b': 1 code of the wrong length: '440' (3); each must have 4 characters; was a leading zero lost?"),  # noqa: E501
        (["4401", "44012"], {"s": 2, "b": 4}, "level 'b': 1 code of the wrong length: '44012' (5); each must have 4 characters"),  # noqa: E501
        (["4401", ""], {"s": 2, "b": 4}, "leaf codes: 1 empty, in row 2; each row needs a code"),
        ([], {"s": 2, "b": 4}, "leaf codes: the list is empty; at least one is needed"),
        (["4401", 4402], {"s": 2, "b": 4}, "leaf codes: 1 not text: 4402; give codes as text, since numbers lose leading zeros"),  # noqa: E501
        (np.array([4401]), {"s": 2, "b": 4}, "leaf codes: 1 not text: 4401; give codes as text, since numbers lose leading zeros"),  # noqa: E501
        (["4401"], {"s": 4, "b": 4}, "levels: found the prefix lengths s = 4, b = 4; they must be positive and increase downwards"),  # noqa: E501
        (["4401"], {"s": 0, "b": 4}, "levels: found the prefix lengths s = 0, b = 4; they must be positive and increase downwards"),  # noqa: E501
        (["4401"], [("s", 2), ("s", 4)], "levels: the name 's' occurs twice in s, s; names must differ"),
        (["4401"], {}, "no levels are named; at least one is needed"),
        (["4401"], {" ": 4}, "level 1 is named ' '; a name of at least one letter is needed"),
    ],
)  # fmt: skip
def test_prefix_problems_are_named(codes: list[str], levels: dict[str, int], expected: str) -> None:
    assert message(spine_from_prefixes, codes, levels) == expected


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"s": ["A", "B"], "b": ["1", "1"]}, "level 'b': 1 code with several parents: 1 under A and B; a code must be unique in its level and have one parent"),  # noqa: E501
        ({"s": ["A", "A"], "b": ["1", "1"]}, "level 'b': codes given twice: '1'; give each leaf once"),
        ({"s": ["A", None], "b": ["1", "2"]}, "level 's': no code in row 2; each leaf needs a top-level geounit"),
        ({"s": ["A", "B"], "b": ["", None]}, "level 'b': no geounit has a code of its own at this level; leave the level out"),  # noqa: E501
        ({"s": ["A", "A"], "b": ["", "1"]}, "level 'b': s 'A' has rows without a code at this level and rows with one ('1'); a geounit is either divided or not"),  # noqa: E501
        ({"s": ["A"], "x": ["1"]}, "level 'b': no column of that name; the columns are s, x"),
        ({"s": ["A"], "b": [1.5]}, "level 'b': the column holds double; codes must be text or whole numbers"),
        ({"s": pa.array([], pa.string()), "b": pa.array([], pa.string())}, "the list of leaves is empty; at least one leaf is needed"),  # noqa: E501
    ],
)  # fmt: skip
def test_table_problems_are_named(columns: dict[str, list[str]], expected: str) -> None:
    assert message(spine_from_table, pa.table(columns), ["s", "b"]) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("US", ""), ("A", "US"), ("B", "US"), ("1", "A"), ("1", "B"), ("2", "B")], "1 child with several parents: 1 under A and B; each child has one parent"),  # noqa: E501
        ([("US", ""), ("A", "US"), ("1", "A"), ("1", "A")], "children given twice: '1'; give each pair once"),
        ([("US", ""), ("A", "US"), ("1", "A"), ("2", "Z")], "1 pair with a parent that has no row of its own: 2 (parent Z); give a top-level geounit a row with an empty parent"),  # noqa: E501
        ([("US", ""), ("A", "US"), ("1", "A"), ("X", "Z"), ("Y", "X"), ("Z", "Y")], "the pairs form a cycle: X -> Z -> Y -> X (child -> parent); a spine is a tree"),  # noqa: E501
        ([("A", "A"), ("1", "A")], "the pairs form a cycle: A -> A (child -> parent); a spine is a tree"),
        ([("US", ""), ("A", "US"), ("1", "A"), ("x", "1")], "codes below the last level 'b': 'x'; the tree is deeper than its levels n, s, b"),  # noqa: E501
        ([("US", ""), ("A", "US")], "level 'b': no geounit has a code of its own at this level; leave the level out"),
        ([("US", ""), ("", "US")], "children: 1 empty, in row 2; each row needs a code"),
    ],
)  # fmt: skip
def test_pair_problems_are_named(pairs: list[tuple[str, str]], expected: str) -> None:
    children, parents = zip(*pairs, strict=True)
    assert message(spine_from_pairs, children, parents, ["n", "s", "b"]) == expected


def test_a_long_circle_is_cut_in_the_message() -> None:
    codes = [f"{i:02}" for i in range(30)]
    text = message(spine_from_pairs, codes, codes[1:] + codes[:1], ["n"])
    assert re.search(r"cycle: 00 -> 01 -> .* -> 07 -> \.\.\. -> 00 ", text)


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
