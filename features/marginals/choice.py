"""Which pairs of attributes are measured together, and on which terms they are chosen privately.

The score of a pair is how far its table is from what is known without it, the product of the two attributes' own
tables (L1 distance in persons, as in MST: McKenna, Miklau and Sheldon 2021, arXiv 2108.04978), less what measuring it
would add in noise (as in AIM: McKenna, Mullins, Sheldon and Miklau 2022, arXiv 2201.12677), times its weight for users.
Pairs are taken one by one, those that would close a cycle left out: the spanning tree of the largest scores (Kruskal).

Scores are whole numbers: expected tables are rounded, what is subtracted as well, weights are whole. If one record is
replaced, two cells of a pair's table change by 1, and its distance by at most 2; if one is added, one cell does, and
the distance by at most 1. All else in a score is public. So the sensitivity is that times the largest weight.

All of it follows from the spec: the number of choices is that of a spanning forest of the pairs that can be chosen,
which is the same whichever are chosen. Noisy tables of single attributes get `attributes_share` of the declared budget
exactly; the choices get at most `share` of it (zcdp: epsilon of each is rounded down to a multiple of 2^-20); the
cliques get the rest, so that all of it together is the declared budget.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from features.marginals.cliques import AttributeSizes, Clique, homes, triangulated
from features.marginals.section import ChooseSection, MarginalsSection
from geography.errors import InputError
from pipeline.model.content import content_sha256
from pipeline.model.promise import MechanismUse
from pipeline.model.schema import Attribute
from pipeline.model.strategy import Earlier
from pipeline.model.universe import Universe
from pipeline.privacy.budget import MOVED, Framework, Neighbours, budget_of_one
from pipeline.privacy.noise.choices import Exponential
from pipeline.privacy.noise.mechanism import NoiseSpec
from pipeline.privacy.noise.mechanisms import noise_for
from pipeline.spec.fields import Misfit
from postprocess.arrays import IntArray

#: epsilon is a multiple of one over this.
_PARTS_OF_BUDGET = 1 << 20


@dataclass(frozen=True)
class Pairs:
    """What pairs are chosen from, and by what.

    Attributes:
        domain: the attributes.
        penalty: persons of expected error in each cell of a table that is measured; 0 for none.
        weights: pair -> how much it matters to users, whole and above 0; 1 where none is given.
        most_cells: of a pair's table; larger ones are not chosen.
        further: how many are chosen, at most, once each of the others would close a cycle.
        all_cells: of the bags of the junction tree together, where further pairs are chosen.
    """

    domain: AttributeSizes
    penalty: Fraction = Fraction(0)
    weights: Mapping[Clique, int] = field(default_factory=dict)
    most_cells: int = 1 << 16
    further: int = 0
    all_cells: int = 1 << 16

    def __post_init__(self) -> None:
        for pair, weight in self.weights.items():
            if isinstance(weight, bool) or not isinstance(weight, int) or weight < 1:
                raise InputError(
                    f"workload: found the weight {weight!r} of {self.domain.text(pair)}; "
                    "whole numbers from 1 are allowed"
                )

    @property
    def possible(self) -> tuple[Clique, ...]:
        """All pairs whose tables are not too large."""
        pairs = combinations(range(len(self.domain.names)), 2)
        return tuple(pair for pair in pairs if self.domain.size(pair) <= self.most_cells)

    def weight(self, pair: Clique) -> int:
        """Of a pair."""
        return self.weights.get(pair, 1)

    @property
    def largest_weight(self) -> int:
        """Of all pairs that can be chosen."""
        return max(map(self.weight, self.possible), default=1)

    def sensitivity(self, neighbours: Neighbours) -> int:
        """How far one record moves the score of any pair, at most."""
        return MOVED[neighbours] * self.largest_weight

    def forest(self, order: Sequence[Clique] | None = None) -> tuple[Clique, ...]:
        """A spanning forest of the pairs, the first of an order that close no cycle; all of them have as many pairs."""
        chosen: list[Clique] = []
        for pair in self.possible if order is None else order:
            if pair in self.joining(chosen):
                chosen.append(pair)
        return tuple(chosen)

    def joining(self, chosen: Sequence[Clique]) -> list[Clique]:
        """The pairs that close no cycle with those that were chosen."""
        group = list(range(len(self.domain.names)))
        for one, other in chosen:
            old, new = group[one], group[other]
            group = [new if number == old else number for number in group]
        return [pair for pair in self.possible if group[pair[0]] != group[pair[1]]]

    @cached_property
    def rounds(self) -> int:
        """How many choices there are: until each of the others would close a cycle, and further ones."""
        forest = len(self.forest())
        return forest + min(self.further, len(self.possible) - forest)

    def fits(self, chosen: Sequence[Clique]) -> bool:
        """Whether the bags of these pairs are small enough, and each has a pair of its own (`cliques.homes`)."""
        bags = triangulated(self.domain, chosen)
        measured = self.cliques(chosen)
        return sum(map(self.domain.size, bags)) <= self.all_cells and homes(bags, measured) is not None

    def cliques(self, chosen: Sequence[Clique]) -> tuple[Clique, ...]:
        """Pairs that were chosen, then each attribute that is in none of them."""
        alone = [(a,) for a in range(len(self.domain.names)) if not any(a in pair for pair in chosen)]
        return (*chosen, *alone)

    def expected(self, ones: Sequence[IntArray], pair: Clique) -> IntArray:
        """The table of a pair `(cells,)`, rounded, if its attributes were independent; `ones` are public tables."""
        first, second = (np.maximum(ones[a], 0) for a in pair)
        total = max(1, (int(first.sum()) + int(second.sum()) + 1) // 2)
        return ((2 * np.outer(first, second) + total) // (2 * total)).astype(np.int64).ravel()


def score(pairs: Pairs, pair: Clique, table: IntArray, expected: IntArray) -> int:
    """Of a pair with this table `(cells,)`; a whole number, which may be negative."""
    away = int(np.abs(table - expected).sum())
    return pairs.weight(pair) * (away - math.floor(pairs.penalty * len(table)))


def candidates(pairs: Pairs, chosen: Sequence[Clique], among: Collection[Clique] | None = None) -> list[Clique]:
    """The pairs that can be chosen next: those that close no cycle, and where all do, those with which tables fit.

    `among` says of which pairs it is asked; by default of all.
    """
    if len(chosen) >= pairs.rounds:
        return []
    left = pairs.joining(chosen)
    asked = [pair for pair in left or pairs.possible if among is None or pair in among]
    return asked if left else [pair for pair in asked if pair not in chosen and pairs.fits([*chosen, pair])]


def unlike_a_choice(pairs: Pairs, chosen: Sequence[Clique]) -> str:
    """Why these pairs, in their order, cannot have been chosen, whatever the records are; "" if they can."""
    for number, pair in enumerate(chosen):
        if not candidates(pairs, chosen[:number], among=[pair]):
            return f"{pairs.domain.text(pair)} could not be chosen after those before it"
    if candidates(pairs, chosen):
        return f"found {len(chosen)} pairs; {pairs.rounds} are chosen, or until no other leaves room"
    return ""


def scores_of(pairs: Pairs, tables: Mapping[Clique, IntArray], ones: Sequence[IntArray]) -> dict[Clique, int]:
    """Of all pairs that can be chosen; `tables` are theirs, and `ones` public tables of the attributes."""
    return {pair: score(pairs, pair, tables[pair], pairs.expected(ones, pair)) for pair in pairs.possible}


def largest_epsilon(rho: Fraction) -> Fraction:
    """The largest epsilon in steps of 2^-20 with epsilon^2 / 8 <= rho: what one private choice may use, exactly.

    Raises:
        InputError: rho is too small for any.
    """
    steps = math.isqrt(math.floor(8 * rho * _PARTS_OF_BUDGET**2))
    if steps < 1:
        raise InputError(f"choose: found rho = {rho} for one private choice; at least 2^-43 is needed")
    return Fraction(steps, _PARTS_OF_BUDGET)


#: Parts of a person in which the penalty of a cell is stated.
_PARTS_OF_SCALE: Final = 1000

_WORDS: Final = (
    "Which attributes are measured together was chosen from the records by the exponential mechanism before the "
    "release was measured, by means of noisy tables of single attributes; both are part of the guarantee."
)


def attribute_query(name: str) -> str:
    """The noisy table of one attribute, in statements, the ledger and the derivation of streams; no query is so."""
    return f"attribute {name}"


@dataclass(frozen=True)
class ChoiceTerms:
    """What a private choice of pairs is made by.

    Attributes:
        stated: the section [marginals.choose].
        attributes: all, in their order, with their values.
        framework, neighbours: of the release.
        records: that one person alters at most.
        budget: the declared one, rho or epsilon, of one person.
        top: the level of the spine at which pairs are chosen; its first.
        top_share: of the cliques' budget, at the first level that has any.

    Raises:
        InputError: the section does not fit the attributes, or the budget buys no such choice.
    """

    stated: ChooseSection
    attributes: Mapping[str, Sequence[str]]
    framework: Framework
    neighbours: Neighbours
    records: int
    budget: Fraction
    top: str
    top_share: Fraction

    def __post_init__(self) -> None:
        if not self._pairs.possible:
            raise InputError(
                f"choose: the table of each pair of attributes has more than {self._pairs.most_cells:,} cells"
            )
        if self.stated.share + self.stated.attributes_share >= 1:
            raise InputError(
                f"choose: the shares of choosing and of single attributes add up to "
                f"{self.stated.share + self.stated.attributes_share}; the cliques need some of the budget"
            )
        _ = self.of_attribute, self.epsilon, self.pairs

    @cached_property
    def domain(self) -> AttributeSizes:
        """The attributes."""
        return AttributeSizes(tuple(self.attributes), tuple(map(len, self.attributes.values())))

    @cached_property
    def _pairs(self) -> Pairs:
        weights = {}
        for text, weight in self.stated.weights.items():
            names = [term.strip() for term in text.split("*")]
            if len(names) != 2 or len(set(names)) != 2 or not set(names) <= set(self.domain.names):
                raise InputError(
                    f"choose.weights: found {text!r}; two of the attributes are needed, as in "
                    f"{' * '.join(self.domain.names[:2])!r}"
                )
            if (pair := self.domain.clique(names)) in weights:
                raise InputError(f"choose.weights: found {self.domain.text(pair)} twice; state each pair once")
            weights[pair] = weight
        if self.stated.all_cells is not None and self.stated.further is None:
            raise InputError("choose.all_cells: found without choose.further, and it is about further pairs")
        least = math.prod(sorted(self.domain.sizes)[:3])
        if self.stated.all_cells is not None and self.stated.all_cells < least:
            raise InputError(
                f"choose.all_cells: found {self.stated.all_cells}; a pair that closes a cycle needs a table of three "
                f"attributes, of {least} cells at least, so that none would be chosen of those that are paid for"
            )
        return Pairs(
            self.domain,
            weights=weights,
            further=self.stated.further or 0,
            all_cells=self.stated.all_cells or Pairs.all_cells,
        )

    @cached_property
    def rounds(self) -> int:
        """How many pairs are chosen."""
        return self._pairs.rounds

    @cached_property
    def epsilon(self) -> Fraction:
        """Of one choice, about one record: the range of its privacy loss."""
        each = budget_of_one(self.framework, self.budget * self.stated.share, self.records) / self.rounds
        return each if self.framework == "pure" else largest_epsilon(each)

    @property
    def scale(self) -> Fraction:
        """Of the exponential mechanism, whose losses a record moves by the sensitivity."""
        return self.epsilon / self._pairs.sensitivity(self.neighbours)

    @cached_property
    def of_attribute(self) -> NoiseSpec:
        """The noise on the table of each attribute."""
        whole = budget_of_one(self.framework, self.budget * self.stated.attributes_share, self.records)
        share = Fraction(1, len(self.domain.names))
        return noise_for(self.framework, whole, Fraction(1), share, self.neighbours)

    @property
    def cost_of_choice(self) -> Fraction:
        """Of one of the choices, about one person, exact."""
        if self.framework == "pure":
            return self.epsilon * self.records
        return self.epsilon**2 / 8 * self.records**2

    @property
    def cost_of_attribute(self) -> Fraction:
        """Of the table of one attribute, about one person, exact."""
        return self.budget * self.stated.attributes_share / len(self.domain.names)

    @property
    def cost(self) -> Fraction:
        """Of all of it, about one person, exact."""
        return self.rounds * self.cost_of_choice + len(self.domain.names) * self.cost_of_attribute

    @property
    def rest(self) -> Fraction:
        """The budget of the cliques."""
        return self.budget - self.cost

    @cached_property
    def pairs(self) -> Pairs:
        """What is chosen from: a cell costs what noise on a clique at the top is off by on average (AIM)."""
        n_cliques = len(self._pairs.cliques(self._pairs.forest())) + self.rounds - len(self._pairs.forest())
        whole = budget_of_one(self.framework, self.rest, self.records)
        noise = noise_for(self.framework, whole, self.top_share, Fraction(1, n_cliques), self.neighbours)
        squared = noise.mean_part * noise.continuous_variance
        penalty = Fraction(math.isqrt(math.floor(squared * _PARTS_OF_SCALE**2)), _PARTS_OF_SCALE)
        return replace(self._pairs, penalty=penalty)

    @property
    def provisional(self) -> tuple[Clique, ...]:
        """Cliques for a plan, before any is chosen: as many as there will be, the pairs with the most cells.

        With further pairs they are the ones with the fewest cells where others leave no room for all of them.
        """
        found: tuple[Clique, ...] = ()
        for sign in (-1, 1):
            order = sorted(self._pairs.possible, key=lambda pair: (sign * self.domain.size(pair), pair))
            found = self._pairs.forest(order)
            order.sort(key=lambda pair: (self.domain.size(pair), pair))
            for pair in order:
                if candidates(self._pairs, found, among=[pair]):
                    found = (*found, pair)
            if len(found) == self.rounds:
                break
        return self._pairs.cliques(found)

    @cached_property
    def earlier(self) -> Earlier:
        """All mechanisms, as statements and the ledger have them."""
        noise, names = self.of_attribute, self.domain.names
        ones = [
            MechanismUse(
                self.top,
                attribute_query(name),
                frozenset({name}),
                len(self.attributes[name]),
                noise,
                self.cost_of_attribute,
            )
            for name in names
        ]
        seen = frozenset(names[a] for pair in self._pairs.possible for a in pair)
        choices = [
            MechanismUse(
                self.top,
                f"pair {number + 1} of {self.rounds}",  # no query is called so
                seen,
                1,
                Exponential(self.scale),
                self.cost_of_choice,
                self._pairs.largest_weight,
            )
            for number in range(self.rounds)
        ]
        return Earlier((*ones, *choices), _WORDS)

    def fingerprint(self) -> str:
        """SHA-256 over all that the distribution of the choice and of its noisy tables depends on."""
        stated = self.stated
        privacy = [self.framework, self.neighbours, self.records, str(self.budget)]
        weights = sorted([*pair, weight] for pair, weight in self.pairs.weights.items())
        shares = [str(stated.share), str(stated.attributes_share)]
        scored = [*shares, str(self._pairs.most_cells), weights, str(self.pairs.penalty)]
        attributes = [[name, *values] for name, values in self.attributes.items()]
        content: list[object] = ["spinewise choice of cliques 1", *privacy, *scored, self.top, attributes]
        content += [["further", self._pairs.further, self._pairs.all_cells]] if stated.further is not None else []
        return content_sha256(content)


def stated_terms(
    stated: MarginalsSection,
    attributes: Mapping[str, Sequence[str]],
    privacy: tuple[Framework, Neighbours, int],
    budget: Fraction,
    top: str,
    top_share: Fraction,
) -> ChoiceTerms:
    """The terms of a section that leaves its cliques to a choice.

    Args:
        stated: the section.
        attributes, budget, top, top_share: as in `ChoiceTerms`.
        privacy: framework, neighbours, and the records of a person.

    Raises:
        Misfit: with the key of what does not fit.
    """
    assert stated.choose is not None
    try:
        return ChoiceTerms(stated.choose, attributes, *privacy, budget, top, top_share)
    except InputError as error:
        key, _, text = str(error).partition(": ")
        if key.split(".")[0] not in ("choose", "workload"):
            key, text = "choose", str(error)
        raise Misfit((f"marginals.{key.replace('workload', 'choose.weights')}", text)) from None


def terms_of_universes(stated: MarginalsSection, attributes: Sequence[Attribute], own: Universe) -> ChoiceTerms | None:
    """Those of a spec that is divided, whose own universe is `own`; None where its cliques are declared."""
    if stated.choose is None or stated.budget is None:
        return None
    return stated_terms(
        stated,
        {one.name: one.values for one in attributes},
        (own.framework, own.neighbours, own.unit.records),
        stated.budget,
        own.level_names[0],
        next(level.share for level in own.strategy.levels if level.share),
    )
