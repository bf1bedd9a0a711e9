"""Which changes of records the invariants leave possible, and so what a statement can be about.

A guarantee compares inputs that agree on the invariants. A record has coordinates: its place (a geounit of every level)
and its attributes. An invariant counts records by their geounit at one level and by groups of their values, so a change
of ONE record keeps all invariants exactly if it keeps the record's answer to each: its geounit at the lowest level that
has an invariant, and its groups in every query of one. What this excludes for one record may be possible for two that
swap a coordinate: a swap keeps an invariant exactly if the two have the same answer without that coordinate, or the
same coordinate as the invariant sees it. In product form, a swap of records (u, w) and (u', w') moves a query by

    -e(u,w) + e(u',w) - e(u',w') + e(u,w')  =  -(e(u) - e(u')) (x) (e(w) - e(w'))

which is four numbers by one each or nothing: twice what a change of one record moves, where any two records together
may move eight (squared L2; four in L1, not more than twice either). Proved by enumeration in the tests.

Changes to impossible cells (structural zeros) are no changes. Of the spine it is assumed that some geounit of each
level but the lowest has two lowest-level geounits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pipeline.model.query import Query
    from pipeline.model.universe import Universe


#: Records that change together in a swap; also how many times as many numbers move as with one.
SWAP = 2

_SHOWN_VALUES, _SHOWN_GROUPS = 6, 4


@dataclass(frozen=True)
class RecordChange:
    """A kind of change that keeps the invariants.

    Attributes:
        records: how many records change together: 1, or 2 that swap.
        limits: which of these changes keep the invariants, in words; "" if all do.
    """

    records: int
    limits: str = ""


def vacuous(universe: Universe) -> str:
    """Why no two inputs can be compared at all, so that a guarantee would say nothing; "" if some can."""
    if not universe.invariants:
        return ""
    if universe.neighbours == "add-remove":
        return (
            'with neighbours = "add-remove", inputs that differ in whether a record is there never agree on an '
            "invariant, which counts every record: the guarantee would compare nothing"
        )
    if record_change(universe) is None:
        return (
            "no record can change, and no two can swap places or values, without moving an invariant: the guarantee "
            "would compare nothing"
        )
    return ""


def record_change(universe: Universe) -> RecordChange | None:
    """The smallest change of records that keeps the invariants; None where no one record and no swap of two does."""
    if not universe.invariants:
        return RecordChange(1)
    if universe.neighbours == "add-remove":
        return None
    view = _View(universe)
    if view.lowest < view.n_levels - 1 or view.some_class_of_two(view.fixed(0)):
        return RecordChange(1, view.same(view.lowest, view.fixed(0)))
    swaps = [attribute_changes(universe, name)[-1:] for name in universe.schema.names]
    swaps += [place_changes(universe, level)[-1:] for level in universe.level_names[:-1]]
    if any(change.records == SWAP for changes in swaps for change in changes):
        return RecordChange(SWAP, "no record can change alone without changing an invariant")
    return None


def attribute_changes(universe: Universe, name: str) -> tuple[RecordChange, ...]:
    """Changes of one attribute alone that keep the invariants: of one record's value, and by a swap if that adds some.

    Empty where there is none: then nothing is promised about the attribute.
    """
    view = _View(universe)
    number = universe.schema.names.index(name)
    values = view.value_classes(number)
    possible = view.by_value(number)
    together = _together(possible)
    changes = []
    if (together & (values[:, None] == values[None, :]))[~np.eye(len(values), dtype=np.bool_)].any():
        changes.append(RecordChange(1, view.groups_in_words(number, values)))
    if universe.neighbours == "change-one":
        changes += view.swaps(number, values, possible, together)[:1]
    return tuple(changes)


def place_changes(universe: Universe, level: str) -> tuple[RecordChange, ...]:
    """The same for the place of a record within its geounit of `level`, which is not the lowest."""
    view = _View(universe)
    number = view.numbers[level]
    if view.lowest <= number:
        return (RecordChange(1),)
    below = view.fixed(number + 1)
    if universe.neighbours == "change-one" and view.some_class_of_two(below):
        return (RecordChange(SWAP, view.same(-1, below)),)
    return ()


def change_in_words(universe: Universe, change: RecordChange) -> str:
    """What neighbours differ in: "changing one record within the same state"."""
    if change.records == SWAP:
        return f"two records swapping places or values ({change.limits})"
    who = "all records of one unit" if universe.measure.total else "one record"
    if (series := universe.series) is not None:
        spells = f"{series.terms.spells} {series.terms.counted}{'s' if series.terms.spells > 1 else ''}"
        who = f"all records of one person over {series.horizon} with at most {spells}"
    within = f" within {change.limits}" if change.limits else ""
    return f"{'changing' if universe.neighbours == 'change-one' else 'adding or removing'} {who}{within}"


class _View:
    """The invariants of a universe as its cells and levels see them."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.names = universe.level_names
        self.numbers = {name: number for number, name in enumerate(self.names)}
        self.n_levels = len(self.names)
        self.invariants = [(self.numbers[level], query) for level, query in universe.invariants]
        self.lowest = max((level for level, _ in self.invariants), default=-1)
        self.shape = tuple(len(universe.schema.attribute(name).values) for name in universe.schema.names)
        self.possible = ~np.asarray(universe.structural_zeros, dtype=np.bool_)

    def fixed(self, first: int) -> list[Query]:
        """The queries of invariants at level number `first` and below."""
        return [query for level, query in self.invariants if level >= first]

    def classes(self, queries: Sequence[Query], attributes: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Cells with the same answers to all queries, by these attributes alone, have the same number `(n_cells,)`."""
        found = np.zeros(int(np.prod(self.shape)), dtype=np.int64)
        for query in queries:
            for i in range(len(self.shape)) if attributes is None else attributes:
                groups = np.asarray(query.groups[i])
                if groups.any():
                    along = groups.reshape([-1 if j == i else 1 for j in range(len(self.shape))])
                    codes = np.broadcast_to(along, self.shape).ravel()
                    found = np.unique(found * (int(groups.max()) + 1) + codes, return_inverse=True)[1]
        return found

    def some_class_of_two(self, queries: Sequence[Query]) -> bool:
        """Whether two possible cells have the same answers to all the queries."""
        return bool((np.bincount(self.classes(queries)[self.possible]) >= 2).any())

    def value_classes(self, attribute: int) -> NDArray[np.int64]:
        """Values of an attribute that no invariant tells apart have the same number `(n_values,)`."""
        found = np.zeros(self.shape[attribute], dtype=np.int64)
        for _, query in self.invariants:
            groups = np.asarray(query.groups[attribute])
            found = np.unique(found * (int(groups.max()) + 1) + groups, return_inverse=True)[1]
        return found

    def by_value(self, attribute: int) -> NDArray[np.bool_]:
        """Which cells are possible, `(n_values, n_contexts)`; a context has the values of the other attributes."""
        table = np.moveaxis(self.possible.reshape(self.shape), attribute, 0)
        return table.reshape(self.shape[attribute], -1)

    def swaps(
        self,
        attribute: int,
        values: NDArray[np.int64],
        possible: NDArray[np.bool_],
        together: NDArray[np.bool_],
    ) -> list[RecordChange]:
        """Swaps of an attribute's values that one record cannot change alone, for the invariants that forbid it.

        Args:
            attribute: its number.
            values: see `value_classes`.
            possible: see `by_value`.
            together: pairs of values that some context allows both.
        """
        showing = [(level, query) for level, query in self.invariants if _shows(query, attribute)]
        groups = [query.groups[attribute] for _, query in showing]
        differing = np.stack([np.not_equal.outer(own, own) for own in groups] or [together & False])
        others = [i for i in range(len(self.shape)) if i != attribute]
        found = []
        # Pairs of values that all these invariants tell apart come first, then those that fewer do.
        sets = np.unique(differing.reshape(len(differing), -1).T, axis=0)
        for chosen in sorted(sets.tolist(), reverse=True):
            those = [pair for pair, is_one in zip(showing, chosen, strict=False) if is_one]
            if not those:
                continue
            pairs = (differing == np.array(chosen)[:, None, None]).all(axis=0) & (values[:, None] != values[None, :])
            lowest = max(level for level, _ in those)
            queries = [query for _, query in those]
            # Of the cells with the first value: one for each context, in the order of `by_value`.
            known = np.moveaxis(self.classes(queries, others).reshape(self.shape), attribute, 0)[0].ravel()
            twice = np.flatnonzero(np.bincount(known) >= 2).tolist()
            places = lowest < self.n_levels - 1 and (together & pairs).any()
            if places or any((_together(possible[:, known == one], 2) & pairs).any() for one in twice):
                found.append(RecordChange(SWAP, self.same(lowest, queries, without=attribute)))
        return found

    def same(self, level: int, queries: Sequence[Query], *, without: int = -1) -> str:
        """ "of the same county and the same sex * age": what the records of a change have in common, by their names."""
        names = self.universe.schema.names
        seen = [i for i in range(len(names)) if i != without and any(_shows(query, i) for query in queries)]
        shared = ([self.names[level]] if level >= 0 else []) + [
            names[i] if self._whole(i, queries) else f"group of {names[i]} that the invariants show" for i in seen
        ]
        return " and ".join(f"the same {name}" for name in shared)

    def _whole(self, attribute: int, queries: Sequence[Query]) -> bool:
        """Whether the queries tell all values of an attribute apart."""
        codes = np.stack([np.asarray(query.groups[attribute]) for query in queries], axis=1)
        return len(np.unique(codes, axis=0)) == len(codes)

    def groups_in_words(self, attribute: int, classes: NDArray[np.int64]) -> str:
        """The values between which one record can change; "" if no invariant tells any apart."""
        if not classes.any():
            return ""
        values = self.universe.schema.attribute(self.universe.schema.names[attribute]).values
        groups = [[values[i] for i in np.flatnonzero(classes == one)] for one in np.unique(classes)]
        several = [group for group in groups if len(group) > 1]
        texts = [
            " | ".join(group[:_SHOWN_VALUES]) + (f" | {len(group) - _SHOWN_VALUES} more" * (len(group) > _SHOWN_VALUES))
            for group in several[:_SHOWN_GROUPS]
        ]
        more = f" and {len(several) - _SHOWN_GROUPS} more groups" if len(several) > _SHOWN_GROUPS else ""
        return f"only between values that no invariant tells apart: {'; '.join(texts)}{more}"


def _shows(query: Query, attribute: int) -> bool:
    return bool(np.asarray(query.groups[attribute]).any())


def _together(possible: NDArray[np.bool_], times: int = 1) -> NDArray[np.bool_]:
    """Pairs of values that are both possible in so many contexts, `(n_values, n_values)`."""
    counts = possible.astype(np.float32)
    found: NDArray[np.bool_] = counts @ counts.T >= times
    return found
