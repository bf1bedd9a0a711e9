"""Combinations that a spec says cannot occur, carried to all tables of the tree.

Two passes of messages along the tree: a cell of a separator that no possible cell of one table lies in is impossible in
the other. As a network of constraints that is a tree (Freuder 1982), after both passes a cell is possible exactly if
some whole record has it; so no area can come to a number that its records cannot have.

A combination is at home in every table that has all its attributes; what it leaves empty elsewhere
(`possible_cells`) is written out for every table, in entries of the same form, so that each universe states all of its
impossible cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from features.marginals.cliques import AttributeSizes, Clique, JunctionTree, marginal, needed
from geography.errors import InputError
from pipeline.spec.edit_rules import combinations_of
from pipeline.spec.problems import Problems, dotted, unknown
from postprocess.arrays import BoolArray


def possible_cells(tree: JunctionTree, zeros: Mapping[Clique, BoolArray]) -> list[BoolArray]:
    """Of each bag the cells `(cells,)` that some record can have.

    Args:
        tree: of the cliques.
        zeros: clique -> which of its cells can be positive anywhere, `(cells,)`.

    Raises:
        InputError: there are zeros of attributes that cross bags, or no record is possible.
    """
    domain = tree.domain
    out = [np.ones(domain.size(bag), dtype=np.bool_) for bag in tree.bags]
    for clique, can in zeros.items():
        if (number := tree.bag_of(clique)) is None:
            raise InputError(f"zeros of {domain.text(clique)}: no clique has all of these attributes")
        out[number] &= spread(can, clique, tree.bags[number], domain)
    edges = [(n, tree.parents[n], tree.separators[n]) for n in range(1, len(tree.bags))]
    for one, other, kept in (*reversed(edges), *((up, below, kept) for below, up, kept in edges)):
        out[other] &= spread(any_cell(out[one], tree.bags[one], kept, domain), kept, tree.bags[other], domain)
    if not all(can.any() for can in out):
        raise InputError("zeros: no record is possible; at least one cell of each clique must be")
    return out


def any_cell(can: BoolArray, bag: Clique, kept: Clique, domain: AttributeSizes) -> BoolArray:
    """Of a bag's table, the cells of a coarser one in which some cell is set."""
    return marginal(can[None].astype(np.int64), bag, kept, domain)[0] > 0


def spread(can: BoolArray, kept: Clique, bag: Clique, domain: AttributeSizes) -> BoolArray:
    """The cells of a bag that lie in some cells of a coarser table."""
    shape = [domain.sizes[a] if a in kept else 1 for a in bag]
    return np.broadcast_to(can.reshape(shape), domain.shape(bag)).ravel()


#: An entry of `structural_zeros`: attribute -> values; a record with one of each of them cannot be.
Entry = Mapping[str, Sequence[str]]


def stated_entries(
    zeros: Sequence[Entry | str],
    attributes: Mapping[str, Sequence[str]],
    tree: JunctionTree,
    problems: Problems,
    *,
    chosen: bool,
) -> list[Entry]:
    """The combinations of a spec that is not divided yet, edit rules as what they mean; what does not fit is noted.

    Args:
        zeros: as stated, combinations and edit rules.
        attributes: all, with their values.
        tree: of the cliques.
        problems: takes what does not fit.
        chosen: whether a run chooses the cliques, so that those of the tree are not the ones that will be.
    """
    told: set[tuple[str, Clique]] = set()
    kept = []
    for key, entry in combinations_of(zeros, attributes, problems):
        before = len(problems.lines)
        for name, values in entry.items():
            if name not in attributes:
                problems.add(f"{key}.{dotted([name])}", unknown("attribute", name, list(attributes)))
            elif strange := [value for value in values if value not in attributes[name]]:
                problems.add(f"{key}.{dotted([name])}", unknown(f"value of {name}", strange[0], attributes[name]))
        if len(problems.lines) > before:
            continue
        clique = tree.domain.clique(list(entry))
        if (key, clique) not in told and (refused := _refused(clique, tree, chosen=chosen)):
            told.add((key, clique))
            problems.add(key, refused)
        kept.append(entry)
    return kept


def _refused(clique: Clique, tree: JunctionTree, *, chosen: bool) -> str:
    """Why no release could keep what is empty of these attributes together; "" where it can."""
    text, domain = tree.domain.text(clique), tree.domain
    if chosen and len(clique) > 1:
        return (
            f"found {text}; which pairs are measured is chosen in the run, and what is empty of two attributes needs a "
            "clique that has both: name values of one attribute, or declare cliques"
        )
    if tree.bag_of(clique) is not None:
        return ""
    near = [domain.text(bag) for bag in tree.bags if {*bag} & {*clique}]
    return (
        f"found {text}, which are in no clique together, so records would be drawn that have it: they are in "
        f"{'; '.join(near)}, and {needed(tree, clique)}"
    )


def carried(tree: JunctionTree, attributes: Mapping[str, Sequence[str]], entries: Sequence[Entry]) -> list[list[Entry]]:
    """The combinations of each table of the tree: those that are at home in it, and those that others carry to it.

    Args:
        tree: of the cliques.
        attributes: all, with their values.
        entries: each within a bag.

    Raises:
        InputError: no record is possible.
    """
    if not entries:
        return [[] for _ in tree.bags]
    of_clique: dict[Clique, list[Entry]] = {}
    for entry in entries:
        of_clique.setdefault(tree.domain.clique(list(entry)), []).append(entry)
    possible = possible_cells(tree, {one: _mask(one, tree.domain, attributes, own) for one, own in of_clique.items()})
    out = []
    for number, (bag, can) in enumerate(zip(tree.bags, possible, strict=True)):
        own = [entry for entry in entries if {*tree.domain.clique(list(entry))} <= {*bag}]
        left = _mask(bag, tree.domain, attributes, own) & ~can
        beside = [tree.separators[number]] if number else []
        beside += [tree.separators[n] for n, up in enumerate(tree.parents) if up == number]
        more: list[Entry] = []
        for separator in filter(None, dict.fromkeys(beside)):  # bags that share nothing carry nothing to each other
            # Cells of the separator that are empty, and in which something is left that the bag's own do not say.
            empty = ~any_cell(can, bag, separator, tree.domain) & any_cell(left, bag, separator, tree.domain)
            more += _boxes(empty, separator, tree.domain, attributes)
            left = left & ~spread(empty, separator, bag, tree.domain)
        out.append([*own, *more])
    return out


def are_carried(
    tree: JunctionTree, attributes: Mapping[str, Sequence[str]], entries: Sequence[Sequence[Entry]]
) -> bool:
    """Whether the combinations of each table are all that those of all tables leave empty there."""
    if not any(entries):
        return True
    own = [_mask(bag, tree.domain, attributes, one) for bag, one in zip(tree.bags, entries, strict=True)]
    try:
        found = possible_cells(tree, dict(zip(tree.bags, own, strict=True)))
    except InputError:
        return False
    return all(np.array_equal(one, other) for one, other in zip(own, found, strict=True))


def _mask(
    clique: Clique, domain: AttributeSizes, attributes: Mapping[str, Sequence[str]], entries: Sequence[Entry]
) -> BoolArray:
    """`(cells,)` of a table: which of them the entries, each of some of its attributes, leave possible."""
    can = np.ones(domain.shape(clique), dtype=np.bool_)
    for entry in entries:
        chosen = [
            [value in entry[name] for value in attributes[name]] if (name := domain.names[a]) in entry else [True]
            for a in clique
        ]
        met = np.array(True)
        for axis, one in enumerate(chosen):
            met = met & np.array(one).reshape([-1 if n == axis else 1 for n in range(len(clique))])
        can &= ~met
    return can.ravel()


def _boxes(
    cells: BoolArray, clique: Clique, domain: AttributeSizes, attributes: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, tuple[str, ...]]]:
    """Entries that mean these cells of a table: for all values but the last attribute's, those of the last."""
    names = domain.named(clique)
    for values, row in zip(
        product(*(attributes[name] for name in names[:-1])), cells.reshape(-1, domain.sizes[clique[-1]]), strict=True
    ):
        if row.any():
            last = tuple(value for value, is_empty in zip(attributes[names[-1]], row, strict=True) if is_empty)
            yield {**{name: (value,) for name, value in zip(names[:-1], values, strict=True)}, names[-1]: last}
