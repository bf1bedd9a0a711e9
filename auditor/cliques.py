"""Cliques that were chosen privately: what the public spec says of it, and what it costs, written down a second time.

Pairs are chosen one by one, by the exponential mechanism, among those that close no cycle with the ones before; where
all do, and further ones are stated, among those with which the tables that are estimated have no more cells than
stated. A
score is the distance of a pair's table from the product of two noisy tables of single attributes; replacing a record
moves two of its cells by one each, adding one moves one, so that scores move by at most that times the largest weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations

from auditor.mechanisms import NOISE
from auditor.reading.cells import Cells
from auditor.reading.findings import exact
from auditor.reading.spec import MOVED
from auditor.reading.values import Stated, digest

#: Two attributes by number.
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class CliqueChoice:
    """What is stated of the choice.

    Attributes:
        attributes: name and values of each, in order.
        cliques: as stated: the pairs in the order of their choice, then attributes alone.
        weights: pair -> weight, where it is not 1.
        further: pairs that are chosen beyond a forest, at most; None where none are, and no `all_cells` of all bags.
        budget: the declared one, rho or epsilon; `share` and `attributes_share` are of it.
        records: that one person alters.
        moved: numbers that one record moves.
        top, top_share: the first level of the spine, and the share of the first that has one.
        stated: the section `chosen`.
    """

    attributes: tuple[tuple[str, tuple[str, ...]], ...]
    cliques: tuple[tuple[str, ...], ...]
    weights: Mapping[Pair, int]
    zcdp: bool
    neighbours: str
    records: int
    moved: int
    budget: Fraction
    share: Fraction
    attributes_share: Fraction
    top: str
    top_share: Fraction
    stated: Stated
    further: int | None = None
    all_cells: int = 65_536
    most_cells: int = 65_536

    @property
    def names(self) -> tuple[str, ...]:
        """Of the attributes."""
        return tuple(name for name, _ in self.attributes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each has."""
        return tuple(len(values) for _, values in self.attributes)

    @cached_property
    def possible(self) -> list[Pair]:
        """The pairs whose tables are not too large, in order."""
        sizes = self.sizes
        return [(a, b) for a, b in combinations(range(len(sizes)), 2) if sizes[a] * sizes[b] <= self.most_cells]

    def open_pairs(self, chosen: Sequence[Pair]) -> list[Pair]:
        """Those that can come to some that were chosen: that close no cycle; where all do, those that leave room."""
        joined = self._joined(chosen)
        if (left := [(a, b) for a, b in self.possible if joined[a] != joined[b]]) or len(chosen) >= self.rounds:
            return left
        return [pair for pair in self.possible if pair not in chosen and self._has_room([*chosen, pair])]

    def _joined(self, pairs: Sequence[Pair]) -> list[int]:
        """Of each attribute one that it is joined with, the same of all that are."""
        joined = list(range(len(self.attributes)))
        for a, b in pairs:
            joined = [joined[a] if one == joined[b] else one for one in joined]
        return joined

    @cached_property
    def rounds(self) -> int:
        """How many choices there are, whichever are made: pairs of a forest, and further ones."""
        forest = len(self.attributes) - len({*self._joined(self.possible)})
        return forest + min(self.further or 0, len(self.possible) - forest)

    def _has_room(self, chosen: Sequence[Pair]) -> bool:
        """Whether the tables that pairs are estimated in are small enough, and each pair of enough is in each."""
        tables = self._tables(chosen)
        if sum(math.prod(self.sizes[a] for a in table) for table in tables) > self.all_cells:
            return False
        alone = [(a,) for a in range(len(self.attributes)) if not any(a in pair for pair in chosen)]
        return _have_one_each(tables, [*chosen, *alone])

    def _tables(self, chosen: Sequence[Pair]) -> list[frozenset[int]]:
        """Cliques of the graph of pairs once attributes are taken out one by one, their neighbours joined.

        First the attribute that joins the fewest of them anew, then that of the smallest table, then the first.
        """
        near: dict[int, set[int]] = {a: set() for a in range(len(self.attributes))}
        sizes = self.sizes
        for one, other in chosen:
            near[one].add(other)
            near[other].add(one)
        found: list[frozenset[int]] = []
        while near:
            orders = []
            for a, others in near.items():
                new = sum(other not in near[one] for one, other in combinations(others, 2))
                orders.append((new, math.prod(map(sizes.__getitem__, (a, *others))), a))
            _, _, out = min(orders)
            table = frozenset((out, *near[out]))
            if not any(table <= other for other in found):
                found.append(table)
            others = near.pop(out)
            for one in others:
                near[one] = (near[one] | others) - {one, out}
        return found

    @property
    def largest_weight(self) -> int:
        """Of the pairs that can be chosen."""
        return max((self.weights.get(pair, 1) for pair in self.possible), default=1)

    def _of_record(self, budget: Fraction) -> Fraction:
        """What the change of one record costs, of a budget for all of a person."""
        return budget / (self.records**2 if self.zcdp else self.records)

    @property
    def epsilon(self) -> Fraction:
        """Of one choice; under rho the root of 8 rho in steps of 2^-20, rounded down."""
        each = self._of_record(self.budget * self.share) / self.rounds
        return Fraction(math.isqrt(math.floor(8 * each * 4**20)), 2**20) if self.zcdp else each

    @property
    def of_attributes(self) -> tuple[str, Fraction]:
        """Mechanism and scale of the noise on the table of each attribute."""
        each = self._of_record(self.budget * self.attributes_share) / len(self.attributes)
        return NOISE[self.zcdp], self.moved / (2 * each if self.zcdp else each)

    @property
    def cost(self) -> Fraction:
        """Rho or epsilon of one person, of all that was drawn."""
        choices = self.epsilon**2 / 8 * self.records**2 if self.zcdp else self.epsilon * self.records
        return self.rounds * choices + self.budget * self.attributes_share

    @property
    def penalty(self) -> Fraction:
        """Persons of a cell of a measured pair: the mean of |noise| of a clique at the top, to a thousandth."""
        alone = len(self.attributes) - len({a for pair in self.possible for a in pair})
        each = self._of_record(self.budget - self.cost) * self.top_share / (self.rounds + alone)
        squared = Fraction(6366, 10_000) * self.moved / (2 * each) if self.zcdp else (self.moved / each) ** 2
        return Fraction(math.isqrt(math.floor(squared * 10**6)), 1000)

    @property
    def scale(self) -> Fraction:
        """Of the mechanism: epsilon for losses that move by one."""
        return self.epsilon / (self.moved * self.largest_weight)

    def fingerprint(self) -> str:
        """SHA-256 over all that the distribution of the choice depends on."""
        content: list[object] = [
            "spinewise choice of cliques 1", "zcdp" if self.zcdp else "pure", self.neighbours, self.records,
            str(self.budget), str(self.share), str(self.attributes_share), str(self.most_cells),
            sorted([*pair, weight] for pair, weight in self.weights.items()), str(self.penalty), self.top,
            [[name, *values] for name, values in self.attributes],
        ]  # fmt: skip
        content += [["further", self.further, self.all_cells]] if self.further is not None else []
        return digest(content)


def _have_one_each(tables: Sequence[frozenset[int]], measured: Sequence[tuple[int, ...]]) -> bool:
    """Whether each table can have one of what is measured for itself: a matching, made larger path by path."""
    of: dict[tuple[int, ...], int] = {}

    def found(table: int, asked: set[tuple[int, ...]]) -> bool:
        for one in measured:
            if one not in asked and tables[table] >= set(one):
                asked.add(one)
                if one not in of or found(of[one], asked):
                    of[one] = table
                    return True
        return False

    return all(found(table, set()) for table in range(len(tables)))


def read_choice(spec: Stated, cells: Sequence[Cells]) -> CliqueChoice | None:
    """The choice that a public spec states; None where it states none.

    Args:
        spec: as a manifest has it.
        cells: of each universe.

    Raises:
        ValueError, KeyError: it makes no sense.
    """
    section = spec.get("marginals") or {}
    if (stated := section.get("choose")) is None:
        return None
    values = dict(pair for one in cells for pair in one.attributes)
    names = [str(name) for name in section["attributes"]]
    weights = {}
    for text, weight in stated["weights"]:
        one, other = sorted(names.index(term.strip()) for term in text.split("*"))
        weights[one, other] = int(weight)
    privacy, levels = spec["privacy"], spec["strategy"]["levels"]
    shares = [exact(level["share"]) for _, level in levels]
    budget = exact(section["budget"])
    if budget <= 0 or not any(shares) or exact(section["chosen"]["budget"]) != budget:
        raise ValueError(f"a choice of cliques from the budget {budget} is not possible")
    choice = CliqueChoice(
        attributes=tuple((name, values[name]) for name in names),
        cliques=tuple(tuple(map(str, clique)) for clique in section["cliques"]),
        weights=weights,
        zcdp=privacy["framework"] == "zcdp",
        neighbours=privacy["neighbours"],
        records=int(spec.get("records_per_person") or 1),
        moved=MOVED[privacy["neighbours"]],
        budget=budget,
        share=exact(stated["share"]),
        attributes_share=exact(stated["attributes_share"]),
        top=str(levels[0][0]),
        top_share=next(share for share in shares if share),
        stated=section["chosen"],
        further=None if stated.get("further") is None else int(stated["further"]),
        all_cells=int(stated.get("all_cells") or 65_536),
    )
    if not choice.possible or not 0 < choice.share + choice.attributes_share < 1:
        raise ValueError("a choice of cliques needs pairs to choose from, and less than the whole budget")
    return choice
