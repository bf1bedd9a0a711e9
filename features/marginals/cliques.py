"""Attributes and cliques of them: the junction tree, the residual basis, and numbers that no clique has.

Cliques are decomposable if they form a tree in which the cliques of any attribute hang together (the running
intersection property). A spanning tree with the largest separators is one exactly if the sizes of its cliques less
those of its separators add up to the number of attributes (Jensen and Jensen 1994). Cliques that are not
decomposable are triangulated by minimum fill-in: bags are then wider than what is measured.

The residual of a set S is the table of S, centred in each of its attributes: it sums to zero over any of them. A table
of the clique C is the sum over its subsets S of their residuals, each spread evenly over the attributes that S has not:

    x_C = sum over S in C of  r_S / (number of cells of C without S)

The residuals of different S are orthogonal, so noise of one variance in all cells of C is independent between them:
in r_S it has the covariance v P_S, P_S the projector on centred tables and v = the cells' variance times the number of
cells that are summed. So what several cliques say of one S is combined by a number each (Xiao, He, Zhang and Kifer
2023, arXiv 2305.08175: ResidualPlanner).

The model: the tables of the cliques, and nothing else. Given a separator, what is on one side of it is independent of
what is on the other, in every area (maximum entropy). No table over the whole schema is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from geography.errors import InputError
from postprocess.arrays import FloatArray, IntArray

#: Numbers of attributes, each once, in ascending order.
Clique = tuple[int, ...]


@dataclass(frozen=True)
class AttributeSizes:
    """Attributes and how many values each has.

    Attributes:
        names: of the attributes.
        sizes: number of values of each.

    >>> domain = Domain(("age", "sex"), (3, 2))
    >>> domain.size((0, 1)), domain.text((0, 1))
    (6, 'age x sex')
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sizes) or len(set(self.names)) != len(self.names) or min(self.sizes) < 1:
            raise ValueError(f"a domain has attributes of different names with a value at least, got {self}")

    def clique(self, names: Sequence[str]) -> Clique:
        """The attributes of these names.

        Raises:
            InputError: a name is unknown or is there twice.
        """
        for name in names:
            if name not in self.names:
                raise InputError(f"cliques: found the attribute {name!r}; the schema has {', '.join(self.names)}")
        if len(set(names)) != len(names) or not names:
            raise InputError(f"cliques: found {list(names)}; a clique has attributes, each once")
        return tuple(sorted(self.names.index(name) for name in names))

    def table(self, terms: Sequence[str]) -> Clique:
        """As `clique`, and of no terms the total."""
        return self.clique(terms) if terms else ()

    def named(self, attributes: Clique) -> tuple[str, ...]:
        """The names of attributes."""
        return tuple(self.names[attribute] for attribute in attributes)

    def shape(self, attributes: Clique) -> tuple[int, ...]:
        """Number of values of each."""
        return tuple(self.sizes[attribute] for attribute in attributes)

    def size(self, attributes: Iterable[int]) -> int:
        """Number of cells of their table; 1 without attributes."""
        return math.prod(self.sizes[attribute] for attribute in attributes)

    def text(self, attributes: Clique) -> str:
        """The attributes' names in messages; `total` without any."""
        return " x ".join(self.named(attributes)) or "total"

    def query(self, attributes: Clique) -> str:
        """The attributes' names as a query of a spec; `total` without any."""
        return " * ".join(self.named(attributes)) or "total"


def subsets(attributes: Clique) -> list[Clique]:
    """All sets of some of the attributes, small ones first."""
    return [chosen for size in range(len(attributes) + 1) for chosen in combinations(attributes, size)]


#: Cells of a bag, at most: whole numbers of one clique in every area are in memory.
MOST_CELLS = 1 << 22


@dataclass(frozen=True)
class Filling:
    """What declared cliques lack of a junction tree.

    Attributes:
        bags: the cliques of the tree, each in none of the others.
        pairs: of attributes that are in no declared clique together, and are in a bag.
        wider: bags that no declared clique contains.
    """

    bags: tuple[Clique, ...]
    pairs: tuple[Clique, ...]
    wider: tuple[Clique, ...]


@dataclass(frozen=True)
class CliqueStage:
    """A table that is made whole once a coarser one is: the one with one attribute more.

    Attributes:
        held: attributes of the table that is there before.
        added: the attribute that comes to it.
    """

    held: Clique
    added: int

    @property
    def table(self) -> Clique:
        """Its attributes."""
        return tuple(sorted((*self.held, self.added)))


@dataclass(frozen=True)
class JunctionTree:
    """Cliques in an order in which each follows its parent; all paths between cliques with an attribute have it.

    Attributes:
        domain: the attributes; each is in a clique.
        bags: the cliques.
        parents: the number of each bag's parent; -1 for the first one.
        first: attributes of the first bag whose table is made before all others; none for the total.
        chain: tables of the first bag that are made whole on the way to its own, each with all attributes of the one
            before and of `first`.
    """

    domain: AttributeSizes
    bags: tuple[Clique, ...]
    parents: tuple[int, ...]
    first: Clique = ()
    chain: tuple[Clique, ...] = ()

    def __post_init__(self) -> None:
        if not self.bags or len(self.bags) != len(self.parents) or self.parents[0] != -1:
            raise ValueError("a junction tree has bags, each with its parent, the first one none")
        if not set(self.first) <= set(self.bags[0]):
            raise ValueError(f"the first bag {self.domain.text(self.bags[0])} lacks {self.domain.text(self.first)}")
        if any(not {*one} <= {*other} for one, other in pairwise([self.first, *self.chain, self.bags[0]])):
            raise ValueError("each table of the chain has all attributes of the one before, and the first bag has all")
        seen: set[int] = set(self.bags[0])
        for number, (bag, parent) in enumerate(zip(self.bags[1:], self.parents[1:], strict=True), start=1):
            if not 0 <= parent < number:
                raise ValueError(f"bag {number} of a junction tree does not follow its parent {parent}")
            if not seen & set(bag) <= set(self.bags[parent]):
                raise ValueError(
                    f"bag {self.domain.text(bag)} shares attributes with bags before it that its parent "
                    f"{self.domain.text(self.bags[parent])} has not: no running intersection"
                )
            seen |= set(bag)
        if seen != set(range(len(self.domain.names))):
            missing = [name for number, name in enumerate(self.domain.names) if number not in seen]
            raise ValueError(f"no bag has the attributes {', '.join(missing)}")

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """What each bag shares with its parent: the table that is there before it; of the first one, `first`."""
        pairs = zip(self.bags, self.parents, strict=True)
        return tuple(self.first if up < 0 else tuple(sorted({*bag} & {*self.bags[up]})) for bag, up in pairs)

    @cached_property
    def stages(self) -> tuple[tuple[CliqueStage, ...], ...]:
        """Of each bag, the tables from its separator to its own, each with one attribute more; one in all an attribute.

        Attributes that are in the separators of bags to come are first, so that these separators are made from the
        estimates of their own tables; then those with few values. Before both, the first bag's are in the order of
        `chain`.
        """
        out = []
        for number, (bag, separator) in enumerate(zip(self.bags, self.separators, strict=True)):
            later = [attributes for up, attributes in zip(self.parents, self.separators, strict=True) if up == number]
            shared = {a: sum(a in attributes for attributes in later) for a in bag}
            chain = () if number else self.chain
            late = {a: next((n for n, one in enumerate(chain) if a in one), len(chain)) for a in bag}
            new = sorted(set(bag) - set(separator), key=lambda a: (late[a], -shared[a], self.domain.sizes[a], a))
            held, stages = separator, []
            for attribute in new:
                stages.append(CliqueStage(held, attribute))
                held = stages[-1].table
            out.append(tuple(stages))
        return tuple(out)

    def bag_of(self, attributes: Clique) -> int | None:
        """The first bag that has all of the attributes; None if they cross bags."""
        return next((number for number, bag in enumerate(self.bags) if set(attributes) <= set(bag)), None)


def junction_tree(
    domain: AttributeSizes,
    cliques: Sequence[Clique],
    *,
    fill: bool = False,
    first: Clique = (),
    chain: Sequence[Clique] = (),
) -> JunctionTree:
    """The junction tree of declared cliques. An attribute that is in none of them is a bag of its own.

    Args:
        domain: all attributes.
        cliques: as declared.
        fill: whether bags may be wider than what is declared.
        first: attributes that the first bag must have, whose table is made before all others.
        chain: further tables of the first bag, see `JunctionTree.chain`.

    Raises:
        InputError: the cliques are not decomposable, and `fill` is not set, or a bag has too many cells.
    """
    lacking = filling(domain, [*cliques, first, *chain])
    if lacking.wider and not fill:
        raise InputError(f"cliques: {refusal(domain, lacking)}")
    for bag in lacking.bags:
        if domain.size(bag) > MOST_CELLS:
            raise InputError(
                f"cliques: {domain.text(bag)} has {domain.size(bag):,} cells; at most {MOST_CELLS:,} are allowed"
            )
    return _rooted(domain, lacking.bags, first, tuple(chain))


def refusal(domain: AttributeSizes, lacking: Filling) -> str:
    """Why cliques are refused, and what they would become."""
    bags = "; ".join(f"{domain.text(bag)} ({domain.size(bag):,} cells)" for bag in lacking.wider)
    pairs = ", ".join(" with ".join(domain.named(pair)) for pair in lacking.pairs)
    added = f"the pairs {pairs} would be added" if pairs else "no pair would be added"
    return (
        f"found cliques that form no tree: {added}, and these tables estimated without being measured: {bags}; "
        "declare them, declare other cliques, or set fill = true"
    )


def filling(domain: AttributeSizes, cliques: Sequence[Clique]) -> Filling:
    """The bags of a junction tree for cliques, and what they have that the cliques have not."""
    singles = [(attribute,) for attribute in range(len(domain.names))]
    declared = _maximal([*cliques, *singles])
    # Decomposable if the spanning tree with the largest separators has running intersections (Jensen and Jensen 1994).
    shared = sum(len(set(declared[one]) & set(declared[other])) for one, other in _spanning(declared))
    fits = sum(map(len, declared)) - shared == len(domain.names)
    bags = declared if fits else _maximal(_eliminated(domain, declared))
    together = {pair for clique in declared for pair in combinations(clique, 2)}
    pairs = sorted({pair for bag in bags for pair in combinations(bag, 2)} - together)
    wider = tuple(bag for bag in bags if bag not in declared)
    return Filling(bags, tuple(pairs), wider)


def triangulated(domain: AttributeSizes, pairs: Sequence[Clique]) -> tuple[Clique, ...]:
    """The bags of `filling` for pairs, which form a tree of bags by themselves only where nothing is filled in."""
    return _maximal(_eliminated(domain, [*pairs, *((a,) for a in range(len(domain.names)))]))


def homes(bags: Sequence[Clique], cliques: Sequence[Clique]) -> dict[Clique, int] | None:
    """The bag that each clique is measured in, by number: the first that has it, unless a bag would be left with none.

    Then cliques move to other bags that have them, along the shortest of the first paths that end in a bag with two
    (Kuhn 1955). None where no choice of homes leaves each bag with a clique.
    """
    within = {clique: [n for n, bag in enumerate(bags) if set(clique) <= set(bag)] for clique in cliques}
    home = {clique: numbers[0] for clique, numbers in within.items()}
    for empty in range(len(bags)):
        if empty in home.values():
            continue
        came: dict[int, tuple[Clique, int]] = {}
        reached = [empty]
        for bag in reached:
            for clique in cliques:
                if bag in within[clique] and home[clique] != empty and home[clique] not in came:
                    came[home[clique]] = clique, bag
                    reached.append(home[clique])
        held = list(home.values())
        rich = next((bag for bag in reached if held.count(bag) > 1), None)
        if rich is None:
            return None
        while rich != empty:
            clique, rich = came[rich]
            home[clique] = rich
    return home


def _maximal(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Those that are in no other, each once, in order."""
    distinct = sorted({tuple(sorted(set(clique))) for clique in cliques if clique})
    return tuple(one for one in distinct if not any(set(one) < set(other) for other in distinct))


def _spanning(bags: Sequence[Clique]) -> list[tuple[int, int]]:
    """A spanning tree with the largest separators, from the first bag on (Prim): pairs of a bag in it and the next."""
    edges, inside = [], [0]
    outside = list(range(1, len(bags)))
    while outside:
        pair = max(
            ((one, other) for one in inside for other in outside),
            key=lambda pair: (len(set(bags[pair[0]]) & set(bags[pair[1]])), -pair[0], -pair[1]),
        )
        edges.append(pair)
        inside.append(pair[1])
        outside.remove(pair[1])
    return edges


def _eliminated(domain: AttributeSizes, cliques: Sequence[Clique]) -> list[Clique]:
    """Cliques of a triangulated graph: attributes are eliminated by the least fill-in, then the fewest cells."""
    near: dict[int, set[int]] = {a: set() for clique in cliques for a in clique}
    for clique in cliques:
        for a in clique:
            near[a] |= set(clique) - {a}
    bags = []

    def price(a: int) -> tuple[int, int, int]:
        missing = sum(other not in near[one] for one, other in combinations(sorted(near[a]), 2))
        return missing, domain.size({a, *near[a]}), a

    prices = {a: price(a) for a in near}
    while near:
        a = min(near, key=prices.__getitem__)
        bags.append(tuple(sorted({a, *near[a]})))
        for one in near[a]:
            near[one] = (near[one] | near[a]) - {one, a}
        others = near.pop(a)
        # Of nobody else have neighbours changed, or become neighbours.
        for one in others.union(*(near[other] for other in others)):
            prices[one] = price(one)
    return bags


def _rooted(domain: AttributeSizes, bags: Sequence[Clique], first: Clique, chain: tuple[Clique, ...]) -> JunctionTree:
    """The tree from the bag that has `first` and `chain`, the one with the most attributes shared with others."""
    widest = {*first} | {a for one in chain for a in one}
    roots = [number for number, bag in enumerate(bags) if widest <= set(bag)]
    root = max(roots, key=lambda n: (sum(len(set(bags[n]) & set(bag)) for bag in bags) - len(bags[n]), -n))
    ordered = [bags[root], *(bag for number, bag in enumerate(bags) if number != root)]
    number_of, out, parents = {0: 0}, [ordered[0]], [-1]
    for up, new in _spanning(ordered):
        number_of[new] = len(out)
        out.append(ordered[new])
        parents.append(number_of[up])
    return JunctionTree(domain, tuple(out), tuple(parents), first, chain)


Number = TypeVar("Number", np.float64, np.int64)


def residuals(values: FloatArray | IntArray, clique: Clique, domain: AttributeSizes) -> dict[Clique, FloatArray]:
    """The residual table of each subset, `(n, cells of the subset)`, of tables `(n, cells of the clique)`."""
    n = len(values)
    out: dict[Clique, FloatArray] = {(): np.asarray(values, dtype=np.float64).reshape(n, *domain.shape(clique))}
    # From the last attribute to the first, each table becomes its sums over the attribute, and what is centred in it.
    for axis in reversed(range(len(clique))):
        size = domain.sizes[clique[axis]]
        parts: dict[Clique, FloatArray] = {}
        for kept, part in out.items():
            sums = part.sum(axis=1 + axis)
            parts[kept] = sums
            parts[clique[axis], *kept] = part - np.expand_dims(sums / size, 1 + axis)
        out = parts
    return {kept: np.ascontiguousarray(part.reshape(n, -1)) for kept, part in out.items()}


def table(parts: Mapping[Clique, FloatArray], clique: Clique, domain: AttributeSizes) -> FloatArray:
    """The tables `(n, cells of the clique)` whose residuals are `parts`; a subset that is not in it has none."""
    n = len(next(iter(parts.values())))
    out = np.zeros((n, *domain.shape(clique)))
    for kept in subsets(clique):
        if kept in parts:
            shape = [domain.sizes[a] if a in kept else 1 for a in clique]
            out += parts[kept].reshape(n, *shape) / factor(kept, clique, domain)
    return out.reshape(n, -1)


def factor(kept: Clique, clique: Clique, domain: AttributeSizes) -> int:
    """How many cells of the clique's table are summed into a cell of the table of some of its attributes."""
    return domain.size(clique) // domain.size(kept)


def cell_variances(variances: Mapping[Clique, FloatArray], clique: Clique, domain: AttributeSizes) -> FloatArray:
    """The variance of a cell of the clique's table, the same in all of them, `(n,)`, from those v of its residuals.

    The diagonal of P_S is the product of 1 - 1 / size over its attributes.
    """
    out: FloatArray = np.zeros(len(variances[()]))
    for kept in subsets(clique):
        share = np.prod([1.0 - 1.0 / domain.sizes[a] for a in kept])
        if share > 0:
            out = out + variances[kept] * (share / factor(kept, clique, domain) ** 2)
    return out


def marginal(values: NDArray[Number], clique: Clique, kept: Clique, domain: AttributeSizes) -> NDArray[Number]:
    """Tables of some of a clique's attributes `(n, cells)`, in the dtype of the clique's `values` `(n, cells)`."""
    axes = tuple(1 + axis for axis, attribute in enumerate(clique) if attribute not in kept)
    sums: NDArray[Number] = values.reshape(len(values), *domain.shape(clique)).sum(axis=axes)
    return sums.reshape(len(values), -1)


def needed(tree: JunctionTree, attributes: Clique) -> str:
    """What would have to be measured for the numbers of a table that crosses cliques to be more than a guess."""
    domain = tree.domain
    sized = [f"{domain.text(one)} ({domain.size(one):,} cells)" for one in (attributes, *brought(tree, attributes))]
    return f"the clique {sized[0]} would be needed" + (f", with {' and '.join(sized[1:])}" if sized[1:] else "")


def brought(tree: JunctionTree, attributes: Clique) -> tuple[Clique, ...]:
    """Further tables that would be estimated without being measured, if a clique of these attributes were added."""
    return filling(tree.domain, [*tree.bags, attributes]).wider


def guessed(tree: JunctionTree, attributes: Clique) -> str:
    """Why there is no table of attributes that cross cliques."""
    return (
        f"{tree.domain.text(attributes)} is no table of this release: its numbers would be guessed from tables that "
        f"share attributes, as if all else were independent. To measure it, {needed(tree, attributes)}"
    )
