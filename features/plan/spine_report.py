"""A description of a spec's geography: levels, fan-outs, chains, and the distances of off-spine areas."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from geography.bypass import only_children
from geography.off_spine import OffSpineAreas, off_spine_distances
from geography.spine import Spine
from pipeline.inputs.geography import read_listed_spine, read_off_spine, read_spine
from pipeline.model.draw import by_level
from pipeline.spec.release_spec import ReleaseSpec
from postprocess.arrays import IntArray


def describe_spine(spec: ReleaseSpec) -> tuple[Spine, list[str]]:
    """The spine that a release by this spec has, and lines that describe it; reads public files only.

    Raises:
        InputError: the geography is wrong.
    """
    spine = read_spine(spec.geography)
    lines = list(_levels(spec, spine))
    if spec.geography.regroup is not None:
        listed = read_listed_spine(spec.geography)
        areas = read_off_spine(spec.geography.regroup, listed)
        lines += ["", *_distances(listed, spine, areas)]
    return spine, lines


def _levels(spec: ReleaseSpec, spine: Spine) -> Iterator[str]:
    alone = only_children(spine)
    universe = spec.universes()[0]
    draws = by_level(universe.draws(spine), spine.level_names)
    rows = [["level", "geounits", "children: least", "median", "most", "without siblings", "measured"]]
    for number, level in enumerate(spine.levels):
        children = ["", "", ""]
        if number < spine.n_levels - 1:
            sizes = np.diff(spine.child_offsets(number))
            children = [f"{sizes.min():,}", f"{np.median(sizes):,.0f}", f"{sizes.max():,}"]
        measured = max((draw.n_measured(len(level)) for draw in draws[number]), default=0)
        rows.append([level.name, f"{len(level):,}", *children, f"{int(alone[number].sum()):,}", f"{measured:,}"])
    yield from _aligned(rows)


def _distances(listed: Spine, spine: Spine, areas: OffSpineAreas) -> Iterator[str]:
    yield "off-spine areas: geounits to add and subtract, as listed and regrouped"
    before = off_spine_distances(listed, areas)
    after = off_spine_distances(spine, areas.moved(listed, spine))
    rows = [["kind", "areas", "mean as listed", "most", "mean regrouped", "most"]]
    for kind in np.unique(areas.kinds):
        of_kind = areas.kinds == kind
        rows.append([str(kind), f"{int(of_kind.sum()):,}", *_figures(before[of_kind]), *_figures(after[of_kind])])
    yield from _aligned(rows)


def _figures(distances: IntArray) -> list[str]:
    return [f"{distances.mean():.2f}", f"{distances.max():,}"]


def _aligned(rows: list[list[str]]) -> Iterator[str]:
    """Lines of a table: the first column to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first, *numbers = [
            cell.ljust(w) if not i else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join([first, *numbers]).rstrip()
