"""What was measured, on the page: all pairs of attributes, the cliques that have them, and what others would need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final

from features.marginals.cliques import Clique, JunctionTree, brought
from features.marginals.section import MarginalsSection
from features.marginals.tree import Cliques
from pipeline.pages.templates import ReleaseFacts

#: Pairs of which the clique that they would need is listed; of 32 attributes all of them.
MOST_LISTED: Final = 496


@dataclass(frozen=True)
class TableView:
    """One table of the tree.

    Attributes:
        number: from 1, as the matrix names it.
        attributes: what they are called.
        cells: of each area.
        measured: a declared clique; else estimated alone, since the tree needs it.
    """

    number: int
    attributes: tuple[str, ...]
    cells: int
    measured: bool


@dataclass(frozen=True)
class PairView:
    """Two attributes.

    Attributes:
        tables: the numbers of those that have both: all that are measured, else those that are estimated alone.
        measured: whether a measured one does.
    """

    tables: tuple[int, ...]
    measured: bool


@dataclass(frozen=True)
class NeededView:
    """What would have to be measured for a pair to have intervals.

    Attributes:
        attributes: of the clique, what they are called.
        cells: of it, in each area.
        wider: tables that would be estimated with it without being measured: what they are called, and their cells.
    """

    attributes: tuple[str, ...]
    cells: int
    wider: tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True)
class ChoiceView:
    """What a private choice of the cliques cost, as parts of the declared budget.

    Attributes:
        pairs: how many were chosen.
        attributes: of how many there was a noisy table.
        symbol: of the budget.
        budget: the declared one, as an exact text.
        choices, tables: parts of it: of all choices, and of all noisy tables of single attributes.
    """

    pairs: int
    attributes: int
    symbol: str
    budget: str
    choices: float
    tables: float


@dataclass(frozen=True)
class MarginalsView:
    """What the section shows.

    Attributes:
        attributes: what they are called, in their order.
        pairs: a row and a column for each attribute; None on the diagonal.
        tables: those of the cliques, then those that are estimated alone.
        needed: of each pair that no table has; none where they are many.
        choice: None where the cliques were declared.
        margins: whether the release has intervals.
        amounts: what the attributes whose values are bins are called.
        drawn: the columns of the microdata with numbers drawn inside them; none without microdata.
    """

    attributes: tuple[str, ...]
    pairs: tuple[tuple[PairView | None, ...], ...]
    tables: tuple[TableView, ...]
    needed: tuple[NeededView, ...]
    choice: ChoiceView | None
    margins: bool
    amounts: tuple[str, ...]
    drawn: tuple[str, ...]

    @property
    def n_pairs(self) -> int:
        """Of attributes."""
        return len(self.attributes) * (len(self.attributes) - 1) // 2

    @cached_property
    def n_measured(self) -> int:
        """Pairs that are within a clique."""
        return sum(pair is not None and pair.measured for row in self.pairs for pair in row) // 2

    @cached_property
    def n_guessed(self) -> int:
        """Pairs that no table has."""
        return sum(pair is not None and not pair.tables for row in self.pairs for pair in row) // 2

    @property
    def n_cliques(self) -> int:
        """Tables that are measured."""
        return sum(table.measured for table in self.tables)


def marginals_view(stated: MarginalsSection, facts: ReleaseFacts) -> MarginalsView | None:
    """The section on cliques of a release whose spec has them."""
    together = facts.universes[0].together
    if not isinstance(together, Cliques) or stated.cliques is None:
        return None
    tree = together.tree
    cliques = [tree.domain.clique(names) for names in stated.cliques]
    alone = [bag for bag in tree.bags if not any({*bag} <= {*clique} for clique in cliques)]
    # What the attributes are called: each by the labels of a universe that has it.
    labels = {name: title for one in together.universes for name, title in facts.spec.labels(one).attributes.items()}
    titles = tuple(labels.get(name, name.replace("_", " ")) for name in tree.domain.names)
    tables = [
        TableView(number, _named(clique, titles), tree.domain.size(clique), number <= len(cliques))
        for number, clique in enumerate([*cliques, *alone], start=1)
    ]
    pairs = dict(_pairs(cliques, alone))
    n = range(len(titles))
    guessed = [pair for pair in combinations(n, 2) if pair not in pairs]
    none = PairView((), measured=False)
    choice = None
    if (terms := together.terms) is not None:
        n_attributes, whole = len(terms.domain.names), terms.budget
        of_choices, of_tables = terms.rounds * terms.cost_of_choice, n_attributes * terms.cost_of_attribute
        symbol = "ε" if terms.framework == "pure" else "ρ"
        parts = float(of_choices / whole), float(of_tables / whole)
        choice = ChoiceView(terms.rounds, n_attributes, symbol, str(whole), *parts)
    return MarginalsView(
        titles,
        tuple(tuple(None if a == b else pairs.get((min(a, b), max(a, b)), none) for b in n) for a in n),
        tuple(tables),
        tuple(_needed(tree, guessed, titles)) if len(guessed) <= MOST_LISTED else (),
        choice,
        facts.spec.publish.margins,
        tuple(titles[tree.domain.names.index(one.name)] for one in together.amounts),
        tuple(one.column.name for one in together.amounts if facts.spec.publish.microdata),
    )


def _named(clique: Clique, titles: Sequence[str]) -> tuple[str, ...]:
    return tuple(titles[a] for a in clique)


def _pairs(cliques: Sequence[Clique], alone: Sequence[Clique]) -> Iterator[tuple[Clique, PairView]]:
    """Of each pair that is in a table, those that have it; the measured ones last, as they count."""
    for first, tables, measured in ((len(cliques) + 1, alone, False), (1, cliques, True)):
        found: dict[Clique, list[int]] = {}
        for number, table in enumerate(tables, start=first):
            for pair in combinations(table, 2):
                found.setdefault(pair, []).append(number)
        yield from ((pair, PairView(tuple(numbers), measured)) for pair, numbers in found.items())


def _needed(tree: JunctionTree, pairs: Sequence[Clique], titles: Sequence[str]) -> Iterator[NeededView]:
    size = tree.domain.size
    for pair in pairs:
        wider = tuple((_named(one, titles), size(one)) for one in brought(tree, pair))
        yield NeededView(_named(pair, titles), size(pair), wider)
