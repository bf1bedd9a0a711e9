"""What the section [marginals] means for its attributes: exact tables, the junction tree, its universes together.

What is exact of an area is so of every area above it, as a sum. So the tables that are exact from the lowest level up
each have all attributes of the one before. The tree begins with the table that has the last of them, and its first
table is made in that order: each step is a two-way table with known sums, of which some are the exact ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from features.marginals.choice import ChoiceTerms, terms_of_universes
from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, guessed, junction_tree
from features.marginals.section import Bins, MarginalsSection
from geography.errors import InputError
from pipeline.model.query import terms_of
from pipeline.model.schema import Attribute, NumberColumn
from pipeline.model.strategy import Earlier
from pipeline.model.together import Together
from pipeline.model.universe import Universe
from pipeline.spec.fields import Misfit, check_name
from pipeline.spec.problems import dotted, unknown

if TYPE_CHECKING:
    from features.marginals.estimation import CliqueEstimation
    from pipeline.execution.job import Job


#: Level -> queries.
Stated = Mapping[str, Sequence[str]]


def exact_tables(domain: AttributeSizes, stated: Stated, levels: Sequence[str]) -> tuple[Clique | None, ...]:
    """Of each level, top first, the table that is exact in its areas; None where nothing is.

    Args:
        domain: the attributes.
        stated: the section `[invariants]`.
        levels: of the spine.

    Raises:
        Misfit: a name is unknown, or what is exact at a level is no one table.
    """
    for level, queries in stated.items():
        key = dotted(["invariants", level])
        if level not in levels:
            raise Misfit((key, unknown("level", level, levels, are="the levels are")))
        seen: dict[frozenset[str], str] = {}
        for text in queries:
            terms = terms_of(text)
            if strange := [term for term in terms if term not in domain.names]:
                raise Misfit((key, unknown("attribute", strange[0], domain.names)))
            if text.strip() == "detailed" or len(set(terms)) != len(terms):
                raise Misfit((key, f"found {text!r}; with [marginals] it is 'total', or attributes joined by *"))
            if (other := seen.setdefault(frozenset(terms), text)) is not text:
                raise Misfit((key, f"{text!r} is the same query as {other!r}; name it once"))
    out: list[Clique | None] = []
    below: list[tuple[str, Clique]] = []
    for level in reversed(levels):
        below += [(level, domain.table(terms_of(text))) for text in stated.get(level, ())]
        union = tuple(sorted({a for _, one in below for a in one}))
        if below and union not in [one for _, one in below]:
            raise Misfit((dotted(["invariants", level]), _of_several(domain, below, union, level)))
        out.insert(0, union if below else None)
    return tuple(out)


def _of_several(domain: AttributeSizes, below: Sequence[tuple[str, Clique]], union: Clique, level: str) -> str:
    largest = [(at, one) for at, one in below if not any({*one} < {*other} for _, other in below)]
    named = " and ".join(
        domain.text(one) + ("" if at == level else f" of each {at}") for at, one in dict.fromkeys(largest)
    )
    return (
        f"found {named}, which are exact at {level} and are no one table; with [marginals] one table is exact at a "
        f'level: state "{domain.query(union)}" there, or leave some out'
    )


def check_within(tree: JunctionTree, tables: Sequence[Clique | None], levels: Sequence[str]) -> None:
    """Misfit where no table of the tree has all attributes of one that is exact."""
    domain = tree.domain
    for level, one in zip(levels, tables, strict=True):
        if one is not None and tree.bag_of(one) is None:
            text = domain.text(one)
            raise Misfit(
                (
                    dotted(["invariants", level]),
                    f"found {text}, which are in no clique together, so their number cannot be kept: the clique {text} "
                    f"({domain.size(one):,} cells) would be needed",
                )
            )


def invariants_within(
    domain: AttributeSizes, stated: Stated, levels: Sequence[str], bag: Clique
) -> dict[str, list[str]]:
    """What the exact numbers of a spec are of a table of the tree: sums over all attributes that it has not."""
    found: dict[str, list[str]] = {}
    for level in levels:
        of_bag = [tuple(a for a in domain.table(terms_of(text)) if a in bag) for text in stated.get(level, ())]
        if of_bag:
            found[level] = [domain.query(one) for one in dict.fromkeys(of_bag)]
    return found


def tree_of(
    stated: MarginalsSection,
    sizes: Mapping[str, int],
    invariants: Mapping[str, Sequence[str]],
    levels: Sequence[str],
) -> tuple[JunctionTree, tuple[Clique, ...]]:
    """The junction tree of a section, and its cliques.

    Args:
        stated: the section.
        sizes: attribute -> number of its values, all attributes in their order.
        invariants: level -> queries that are exact, which the first bag has.
        levels: of the spine.

    Raises:
        Misfit: the cliques do not fit the attributes, or form no tree, or what is exact is no table of it.
    """
    domain = AttributeSizes(tuple(sizes), tuple(sizes.values()))
    try:
        cliques = tuple(domain.clique(names) for names in stated.cliques or ())
        if twice := [clique for number, clique in enumerate(cliques) if clique in cliques[:number]]:
            raise InputError(f"cliques: found {domain.text(twice[0])} twice; each is measured once")
        if missing := [name for number, name in enumerate(domain.names) if not any(number in one for one in cliques)]:
            raise InputError(
                f"cliques: none has the attribute {missing[0]!r}; each attribute is measured in one at least"
            )
        fill = stated.fill or (stated.choose is not None and stated.choose.further is not None)
        tree = junction_tree(domain, cliques, fill=fill)
        tables = exact_tables(domain, invariants, levels)
        check_within(tree, tables, levels)
        # The different tables from the lowest level up: each has all attributes of the last.
        if exact := tuple(dict.fromkeys(one for one in reversed(tables) if one is not None)):
            tree = junction_tree(domain, cliques, fill=fill, first=exact[0], chain=exact[1:])
        return tree, cliques
    except InputError as error:
        key, _, text = str(error).partition(": ")
        raise Misfit((f"marginals.{key}", text)) from None


def universe_names(tree: JunctionTree) -> tuple[str, ...]:
    """The name of the universe of each bag: "" of the first one, the others after their attributes."""
    names = [""]
    for number, bag in enumerate(tree.bags[1:], start=1):
        name = "-".join(tree.domain.named(bag))
        try:
            check_name(name)
        except ValueError:
            name = f"clique-{number}"
        names.append(f"clique-{number}" if name.casefold() in [one.casefold() for one in names] else name)
    return tuple(names)


# -- of a spec that is divided ----------------------------------------------------------------------------------------


_DRAWN_WORDS: Final = (
    "Any number inside the bin of an amount is drawn at random from the public seed: it depends on the records by "
    "their released bin alone, and carries no information beyond it."
)


@dataclass(frozen=True, eq=False)
class Cliques(Together):
    """What the universes have in common.

    Attributes:
        tree: of the cliques, a universe for each bag.
        universes: their names, in the tree's order.
        attributes: all, in the tree's order.
        alike: whether the parts of an area are expected to be alike.
        amounts: the attributes whose values are bins.
        terms: on which the cliques are chosen privately; None where they are declared.
        chosen_from: published fingerprint of the records that they were chosen from; "" before they are chosen.
    """

    tree: JunctionTree
    universes: tuple[str, ...]
    attributes: tuple[Attribute, ...]
    alike: bool
    amounts: tuple[Bins, ...] = ()
    terms: ChoiceTerms | None = None
    chosen_from: str = ""

    @classmethod
    def of(cls, stated: MarginalsSection, universes: Sequence[Universe]) -> Cliques:
        """Of the universes of a spec that was found to be of cliques (`division_check`)."""
        found, own = {one.name: one for universe in universes for one in universe.schema.attributes}, universes[0]
        attributes = tuple(found[name] for name in stated.attributes or ())
        exact: dict[str, list[str]] = {}
        for level, query in own.invariants:
            exact.setdefault(level, []).append(query.name)
        tree, _ = tree_of(stated, {one.name: len(one.values) for one in attributes}, exact, own.level_names)
        names, terms = tuple(universe.name for universe in universes), terms_of_universes(stated, attributes, own)
        amounts = tuple(Bins.of(name, texts) for name, texts in (stated.amounts or {}).items())
        chosen_from = "" if stated.chosen is None else stated.chosen.records
        return cls(tree, names, attributes, stated.alike, amounts, terms, chosen_from)

    @property
    def earlier(self) -> Earlier | None:
        """See `Together.earlier`: the private choice of the cliques."""
        return None if self.terms is None else replace(self.terms.earlier, records=self.chosen_from)

    @property
    def undecided(self) -> str:
        """See `Together.undecided`."""
        if self.terms is None or self.chosen_from:
            return ""
        if self.terms.pairs.further:
            return (
                f"Which {self.terms.rounds} pairs of attributes are measured, at most, is chosen privately when it is "
                f"run; the pairs named here have the noise of any, and further ones are chosen while all tables have "
                f"together at most {self.terms.pairs.all_cells:,} cells."
            )
        return (
            f"Which {self.terms.rounds} pairs of attributes are measured is chosen privately when it is run; the "
            "pairs named here have the most cells of those that could be, and the noise of any."
        )

    def record_attributes(self, universe: str) -> tuple[Attribute, ...]:
        """See `Together.record_attributes`: whole records, with the release's own universe."""
        return () if universe else self.attributes

    def record_numbers(self, universe: str) -> tuple[NumberColumn, ...]:
        """See `Together.record_numbers`: numbers drawn inside the bins of amounts."""
        return () if universe else tuple(one.column for one in self.amounts)

    @property
    def words(self) -> str:
        """See `Together.words`."""
        return _DRAWN_WORDS if self.amounts else ""

    def remark(self, terms: Collection[str]) -> str:
        """See `Together.remark`."""
        named = [one for one in self.amounts if one.name in terms]
        if not named:
            return ""
        columns = " and ".join(one.column.name for one in named)
        return (
            f"{' and '.join(one.name for one in named)}: counted by bins; {columns} in the microdata is drawn at "
            "random inside the bin and says nothing beyond it."
        )

    def home(self, terms: Collection[str]) -> str:
        """See `Together.home`."""
        domain = self.tree.domain
        if strange := [term for term in terms if term not in domain.names]:
            raise InputError(f"{strange[0]!r} is not an attribute of the release; it has {', '.join(domain.names)}")
        clique = domain.table(list(terms))
        number = self.tree.bag_of(clique)
        if number is None:
            raise InputError(guessed(self.tree, clique))
        return self.universes[number]

    def estimation(self, job: Job) -> CliqueEstimation:
        """See `Together.estimation`."""
        from features.marginals.estimation import CliqueEstimation  # with scipy

        return CliqueEstimation(self.tree, self.universes, self.attributes, job, self.amounts, self.alike)
