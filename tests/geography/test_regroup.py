"""Areas off the spine: their distance by brute force, and units that make it small within the cap."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from geography.build import spine_from_prefixes
from geography.off_spine import OffSpineAreas, off_spine_distances, regroup
from geography.spine import Spine


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
