"""Numbers that are published exactly: of each level one table, with what is exact below it, within a table of the tree.

What is exact of an area is so of every area above it, as a sum. So the tables that are exact from the lowest level up
each have all attributes of the one before. The tree begins with the table that has the last of them, and its first
table is made in that order: each step is a two-way table with known sums, of which some are the exact ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from features.marginals.cliques import JunctionTree
from features.marginals.domain import Clique, Domain
from pipeline.model.query import terms_of
from pipeline.spec.fields import Misfit
from pipeline.spec.problems import dotted, unknown

__all__ = ["chain_of", "check_within", "exact_tables", "invariants_within"]

#: Level -> queries.
Stated = Mapping[str, Sequence[str]]


def exact_tables(domain: Domain, stated: Stated, levels: Sequence[str]) -> tuple[Clique | None, ...]:
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
        below += [(level, _clique(domain, text)) for text in stated.get(level, ())]
        union = tuple(sorted({a for _, one in below for a in one}))
        if below and union not in [one for _, one in below]:
            raise Misfit((dotted(["invariants", level]), _of_several(domain, below, union, level)))
        out.insert(0, union if below else None)
    return tuple(out)


def _of_several(domain: Domain, below: Sequence[tuple[str, Clique]], union: Clique, level: str) -> str:
    largest = [(at, one) for at, one in below if not any({*one} < {*other} for _, other in below)]
    named = " and ".join(
        domain.text(one) + ("" if at == level else f" of each {at}") for at, one in dict.fromkeys(largest)
    )
    return (
        f"found {named}, which are exact at {level} and are no one table; with [marginals] one table is exact at a "
        f'level: state "{domain.query(union)}" there, or leave some out'
    )


def _clique(domain: Domain, text: str) -> Clique:
    terms = terms_of(text)
    return domain.clique(terms) if terms else ()


def chain_of(tables: Sequence[Clique | None]) -> tuple[Clique, ...]:
    """The different tables that are exact somewhere, from the lowest level up: each has all attributes of the last."""
    return tuple(dict.fromkeys(one for one in reversed(tables) if one is not None))


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


def invariants_within(domain: Domain, stated: Stated, levels: Sequence[str], bag: Clique) -> dict[str, list[str]]:
    """What the exact numbers of a spec are of a table of the tree: sums over all attributes that it has not."""
    found: dict[str, list[str]] = {}
    for level in levels:
        of_bag = [tuple(a for a in _clique(domain, text) if a in bag) for text in stated.get(level, ())]
        if of_bag:
            found[level] = [domain.query(one) for one in dict.fromkeys(of_bag)]
    return found
