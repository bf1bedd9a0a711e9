"""What the section [marginals] means for its attributes: the junction tree, and a universe for each table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from features.marginals.cliques import JunctionTree, junction_tree
from features.marginals.domain import Clique, Domain
from features.marginals.exact import chain_of, check_within, exact_tables
from features.marginals.section import MarginalsSection
from geography.errors import InputError
from pipeline.model.schema import Attribute
from pipeline.model.universe import Universe
from pipeline.spec.fields import Misfit, check_name

__all__ = ["attributes_of", "stated_cliques", "tree_of", "tree_of_universes", "universe_names"]


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
    domain = Domain(tuple(sizes), tuple(sizes.values()))
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
        if exact := chain_of(tables):
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


def attributes_of(stated: MarginalsSection, universes: Sequence[Universe]) -> tuple[Attribute, ...]:
    """All attributes in their order, which the universes have in parts."""
    found = {one.name: one for universe in universes for one in universe.schema.attributes}
    return tuple(found[name] for name in stated.attributes or ())


def tree_of_universes(
    stated: MarginalsSection, attributes: Sequence[Attribute], own: Universe
) -> tuple[JunctionTree, tuple[Clique, ...]]:
    """The same as `tree_of`; `own` is the release's own universe."""
    exact: dict[str, list[str]] = {}
    for level, query in own.invariants:
        exact.setdefault(level, []).append(query.name)
    return tree_of(stated, {one.name: len(one.values) for one in attributes}, exact, own.level_names)


def stated_cliques(
    stated: MarginalsSection, universes: Sequence[Universe]
) -> tuple[tuple[Attribute, ...], tuple[Clique, ...] | None]:
    """All attributes, and the cliques; None where they are yet to be chosen."""
    attributes = attributes_of(stated, universes)
    if stated.undivided is not None:
        return attributes, None
    return attributes, tree_of_universes(stated, attributes, universes[0])[1]
