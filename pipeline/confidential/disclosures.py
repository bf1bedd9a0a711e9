"""What a run discloses exactly, as the ledger records it: by name, and by a hash that says which numbers these are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from geography.spine import Spine
from pipeline.model.content import content_sha256
from pipeline.model.query import Query
from pipeline.model.schema import Schema
from pipeline.model.universe import Universe
from pipeline.privacy.ledger.events import Exact, Subject, inputs_of
from postprocess.arrays import IntArray


def exact_disclosures(universe: Universe, spine: Spine, facilities: Sequence[IntArray]) -> tuple[Exact, ...]:
    """The invariants, structural zeros and bounds of a universe.

    What is hashed decides which of two disclosures of one name are the same numbers: of an invariant the groups of
    values that it counts, and the area of each leaf; of zeros the cells; of bounds all that they state.

    Args:
        universe: the release's own, or a companion.
        spine: the geography.
        facilities: of each of the universe's bounds.
    """
    found = []
    for level, query in universe.invariants:
        content: list[object] = ["invariant", _groups(query, universe.schema), _areas(spine, level)]
        count = len(spine.level(level)) * query.size
        found.append(_exact(universe, Subject("invariant", level, query.name), content, count))
    if universe.structural_zeros.any():
        cells = np.flatnonzero(universe.structural_zeros).tolist()
        content = ["zeros", [[a.name, *a.values] for a in universe.schema.attributes], cells]
        found.append(_exact(universe, Subject("zeros"), content, len(cells)))
    for bound, counts in zip(universe.bounds, facilities, strict=True):
        stated = [bound.level, bound.lower, bound.upper, sorted(bound.columns)]
        counted = hashlib.sha256(np.ascontiguousarray(counts, dtype="<i8").tobytes()).hexdigest()
        groups, areas = _groups(bound.query, universe.schema), _areas(spine, bound.level)
        content = ["bounds", stated, groups, areas, counted]
        found.append(_exact(universe, Subject("bounds", "", bound.name), content, counts.size))
    return tuple(found)


def inputs_from_records(universe: Universe, spine: Spine, accepted: Sequence[str]) -> tuple[Exact, ...]:
    """The public inputs of a universe that were made from the records and are used all the same.

    Args:
        universe: the release's own, or a companion.
        spine: the geography.
        accepted: of the release, by the names of its provenance; see `pipeline.publishing.provenance.accepted_inputs`.
    """
    schema = [[attribute.name, *attribute.values] for attribute in universe.schema.attributes]
    return tuple(
        _exact(universe, Subject("inputs", "", name), ["inputs", name, spine.fingerprint(), schema], 1)
        for name in inputs_of(universe.name, accepted)
    )


def _exact(universe: Universe, subject: Subject, content: list[object], count: int) -> Exact:
    return Exact(subject, universe.name, content_sha256(["exact", 1, universe.name, *content]), count)


def _groups(query: Query, schema: Schema) -> list[object]:
    """The values that the query tells apart; attributes that it sums over do not change its answers."""
    return [
        [attribute.name, list(attribute.values), group.tolist()]
        for attribute, group, labels in zip(schema.attributes, query.groups, query.labels, strict=True)
        if labels
    ]


def _areas(spine: Spine, level: str) -> str:
    """Hash of which leaves make up each geounit of a level; the levels in between do not matter."""
    number = spine.index_of(level)
    leaves = spine.leaf_level.geocodes
    areas = spine.level(level).geocodes[spine.leaf_ancestors(number)]
    order = np.argsort(leaves, kind="stable")
    digest = hashlib.sha256()
    for codes in (leaves[order], areas[order]):
        # The lengths make the joined codes unambiguous, whatever characters they hold.
        digest.update(np.strings.str_len(codes).astype("<i8").tobytes())
        digest.update("".join(codes.tolist()).encode())
    return digest.hexdigest()
