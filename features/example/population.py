"""A synthetic population for any spine: as uneven, as segregated and as full of empty blocks as a real one; and names.

Sizes: the geounits just above the leaves are of similar size, the leaves within them are lognormal and some are empty.
Groups: each geounit's composition is drawn around its parent's, a Dirichlet draw (normalised gammas whose mean is the
parent's share) in which small groups are kept from vanishing. Age: the share of minors varies by group and by leaf.
The settings were chosen beside the 2010 Census blocks of Rhode Island: empty blocks, quantiles of block size,
dissimilarity indices of tracts and blocks, and nonzero cells of a block are similar.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.model.schema import Attribute, Schema
from postprocess.arrays import FloatArray, IntArray

STATE_NAME = "State of Arborea"
COUNTY_NAMES = ("Alder", "Birch", "Cedar", "Elm", "Hazel")
_BEGIN = (
    "Ash", "Bram", "Clay", "Dun", "East", "Fern", "Gold", "Heath", "Iron", "King", "Lang", "Mill", "North", "Oak",
    "Stone", "Win",
)  # fmt: skip
_END = (
    "bourne", "bridge", "bury", "combe", "dale", "field", "ford", "gate", "ham", "hurst", "ley", "mere", "stead", "ton",
    "wick", "worth",
)  # fmt: skip


def county_name(number: int) -> str:
    """The name of a county, by its number from 0, without the word county."""
    return COUNTY_NAMES[number % len(COUNTY_NAMES)]


def names_csv(states: Sequence[str], counties: Sequence[str], tracts: Sequence[str]) -> str:
    """A CSV file of geocodes and names, from the codes of each level."""
    rows = [(code, STATE_NAME) for code in states]
    rows += [(code, f"{county_name(number)} County") for number, code in enumerate(counties)]
    # Of tracts the first 256 names differ, and neighbours begin alike.
    rows += [
        (code, _BEGIN[number // len(_END) % len(_BEGIN)] + _END[number % len(_END)])
        for number, code in enumerate(tracts)
    ]
    return "".join(f"{code},{name}\n" for code, name in (("geocode", "name"), *rows))


RACES = ("hispanic", "white", "black", "aian", "asian", "nhpi", "other", "two_or_more")

#: The attributes of the 2020 redistricting data in small: 16 cells.
SCHEMA = Schema((Attribute("votingage", ("under18", "18plus")), Attribute("race", RACES)))

#: Share of each group in the whole population, and share of minors within it.
_RACE_SHARE = np.array([0.150, 0.665, 0.105, 0.006, 0.045, 0.001, 0.006, 0.022])
_MINOR_SHARE = np.array([0.33, 0.18, 0.27, 0.27, 0.22, 0.23, 0.28, 0.44])


@dataclass(frozen=True)
class _Mixing:
    """How much the composition of the geounits of a level differs from their parent's; lower differs more.

    Attributes:
        concentration: of the Dirichlet draw; a group of share p has a gamma of shape concentration * p ...
        least: ... or of this shape, if that is more.
    """

    concentration: float
    least: float


#: From the leaves up; the last one holds for all levels further up.
_MIXING = (_Mixing(2.5, 0.3), _Mixing(150.0, 10.0), _Mixing(2.0, 1.0), _Mixing(5.0, 2.0), _Mixing(20.0, 3.0))

#: Standard deviation of the logarithm of the sizes: of geounits just above the leaves, and of leaves within one.
_PARENT_SPREAD, _LEAF_SPREAD = 0.36, 0.88
#: Share of empty leaves within one parent: Beta(a, b).
_EMPTY_BETA = (1.0, 2.2)
#: The people of a geounit just above the leaves grow as this power of its number of leaves.
_GROWTH_WITH_LEAVES = 0.35
#: Standard deviation of the log-odds of being a minor between leaves.
_MINOR_SPREAD = 0.45
_LEAVES_AT_ONCE = 1 << 18


def populate(spine: Spine, people: int, seed: int) -> sp.csr_array[np.int64]:
    """Put `people` persons of the 16 cells of SCHEMA on the leaves of `spine`.

    Args:
        spine: any spine; the more levels it has, the more its compositions are mixed on the way down.
        people: number of persons, at least 1.
        seed: not negative. The same seed gives the same population with the same version of numpy.

    Returns:
        `(n_leaves, 16)` int64 persons, canonical.

    Raises:
        InputError: `people` or `seed` is too small.
    """
    if people < 1:
        raise InputError(f"people: found {people}; at least 1 is allowed")
    if seed < 0:
        raise InputError(f"seed: found {seed}; 0 or more is allowed")
    sizes_rng, groups_rng, counts_rng = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
    leaf_people = sizes_rng.multinomial(people, _leaf_weights(spine, sizes_rng))
    parent = _parents_of_leaves(spine)
    composition = _compositions_above_leaves(spine, groups_rng)
    composition = _rescale(composition, np.bincount(parent, leaf_people))
    inhabited = np.flatnonzero(leaf_people)
    data: list[IntArray] = []
    indices: list[IntArray] = []
    n_nonzero = np.zeros(spine.n_leaves + 1, dtype=np.int64)
    for start in range(0, inhabited.size, _LEAVES_AT_ONCE):
        leaves = inhabited[start : start + _LEAVES_AT_ONCE]
        race = _mix(composition[parent[leaves]], _MIXING[0], groups_rng)
        counts = counts_rng.multinomial(leaf_people[leaves], _cell_shares(race, groups_rng))
        rows, cells = np.nonzero(counts)
        data.append(counts[rows, cells])
        indices.append(cells)
        n_nonzero[leaves + 1] = np.bincount(rows, minlength=leaves.size)
    matrix = sp.csr_array(
        (np.concatenate(data), np.concatenate(indices), np.cumsum(n_nonzero)),
        shape=(spine.n_leaves, SCHEMA.n_cells),
    )
    matrix.has_canonical_format = True
    return matrix


def _parents_of_leaves(spine: Spine) -> IntArray:
    """`(n_leaves,)` index of each leaf's parent; all have one parent where the spine has no level above."""
    return spine.leaf_level.parents if spine.n_levels > 1 else np.zeros(spine.n_leaves, dtype=np.int64)


def _leaf_weights(spine: Spine, rng: np.random.Generator) -> FloatArray:
    """Share of the people that each leaf is to have, `(n_leaves,)`; 0 where it is to be empty."""
    parent = _parents_of_leaves(spine)
    n_parents = int(parent[-1]) + 1
    parent_size = rng.lognormal(0.0, _PARENT_SPREAD, n_parents) * np.bincount(parent) ** _GROWTH_WITH_LEAVES
    empty_share = rng.beta(*_EMPTY_BETA, n_parents)
    weight = rng.lognormal(0.0, _LEAF_SPREAD, spine.n_leaves)
    inhabited = rng.random(spine.n_leaves) >= empty_share[parent]
    if not inhabited.any():
        inhabited[0] = True
    weight[~inhabited] = 0.0
    within = np.bincount(parent, weight, minlength=n_parents)
    weight *= np.divide(parent_size, within, out=np.zeros(n_parents), where=within > 0)[parent]
    return weight / weight.sum()


def _compositions_above_leaves(spine: Spine, rng: np.random.Generator) -> FloatArray:
    """Composition of every geounit just above the leaves, `(n_geounits, 8)`; `(1, 8)` where no level is above."""
    composition = _RACE_SHARE[None, :]
    for number, level in enumerate(spine.levels[:-1]):
        from_leaves = spine.n_levels - 1 - number
        mixing = _MIXING[min(from_leaves, len(_MIXING) - 1)]
        around = composition[level.parents] if number else np.repeat(composition, len(level), axis=0)
        composition = around if len(level) == 1 else _mix(around, mixing, rng)
    return composition


def _rescale(composition: FloatArray, people: NDArray[Any]) -> FloatArray:
    """`composition` (n, 8) moved so that the groups' shares of all `people` (n,) come near the whole population's."""
    for _ in range(3):
        composition = composition * (_RACE_SHARE / (people @ composition / people.sum()))
        composition /= composition.sum(axis=1, keepdims=True)
    return composition


def _mix(around: FloatArray, mixing: _Mixing, rng: np.random.Generator) -> FloatArray:
    """One composition around each row of `around` (n, 8), as uneven as `mixing` states."""
    shape = np.maximum(mixing.concentration * around, mixing.least)
    drawn = around * rng.standard_gamma(shape) / shape
    return drawn / drawn.sum(axis=1, keepdims=True)


def _cell_shares(race: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Share of each of the 16 cells in each leaf, `(n, 16)`, from its composition `race` (n, 8)."""
    odds = _MINOR_SHARE / (1 - _MINOR_SHARE) * rng.lognormal(-0.05, _MINOR_SPREAD, (len(race), 1))
    minor = odds / (1 + odds)
    return np.concatenate([race * minor, race * (1 - minor)], axis=1)
