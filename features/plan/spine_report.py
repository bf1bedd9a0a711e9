"""A description of a spec's geography: levels, fan-outs, chains, and the distances of off-spine areas."""

from __future__ import annotations

import numpy as np
from rich.table import Table

from geography.off_spine import OffSpineAreas, off_spine_distances
from geography.spine import Spine, only_children
from pipeline.execution.console import table_of
from pipeline.inputs.geography import read_listed_spine, read_off_spine, read_spine
from pipeline.model.draw import by_level
from pipeline.spec.release_spec import ReleaseSpec


def describe_spine(spec: ReleaseSpec) -> tuple[Spine, list[str | Table]]:
    """The spine that a release by this spec has, and tables that describe it; reads public files only.

    Raises:
        InputError: the geography is wrong.
    """
    spine = read_spine(spec.geography)
    described: list[str | Table] = [_levels(spec, spine)]
    if spec.geography.regroup is not None:
        listed = read_listed_spine(spec.geography)
        areas = read_off_spine(spec.geography.regroup, listed)
        described += ["", "off-spine areas: geounits to add and subtract, as listed and regrouped"]
        described.append(_distances(listed, spine, areas))
    return spine, described


def _levels(spec: ReleaseSpec, spine: Spine) -> Table:
    alone = only_children(spine)
    draws = by_level(spec.universes()[0].draws(spine), spine.level_names)
    table = table_of(("level",), ("geounits", "children: least", "median", "most", "without siblings", "measured"))
    for number, level in enumerate(spine.levels):
        children = ["", "", ""]
        if number < spine.n_levels - 1:
            sizes = np.diff(spine.child_offsets(number))
            children = [f"{sizes.min():,}", f"{np.median(sizes):,.0f}", f"{sizes.max():,}"]
        measured = max((draw.n_measured(len(level)) for draw in draws[number]), default=0)
        table.add_row(level.name, f"{len(level):,}", *children, f"{int(alone[number].sum()):,}", f"{measured:,}")
    return table


def _distances(listed: Spine, spine: Spine, areas: OffSpineAreas) -> Table:
    before = off_spine_distances(listed, areas)
    after = off_spine_distances(spine, areas.moved(listed, spine))
    table = table_of(("kind",), ("areas", "mean as listed", "most", "mean regrouped", "most"))
    for kind in np.unique(areas.kinds):
        of_kind = areas.kinds == kind
        figures = [f for each in (before, after) for f in (f"{each[of_kind].mean():.2f}", f"{each[of_kind].max():,}")]
        table.add_row(str(kind), f"{int(of_kind.sum()):,}", *figures)
    return table
