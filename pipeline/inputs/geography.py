"""The geography of a release as its spec names it: the list of leaves, and the areas off the spine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from geography.build import spine_from_pairs, spine_from_prefixes, spine_from_table, spine_within
from geography.off_spine import OffSpineAreas, regroup
from geography.spine import Spine, first_few
from pipeline.errors import InputError, SpineError
from pipeline.inputs.public_file import text_columns
from pipeline.records.columns import text_array
from pipeline.spec.sections import GeographySection, RegroupSection


def read_spine(geography: GeographySection) -> Spine:
    """The spine of the spec's public list of leaves, regrouped where the spec asks for it.

    Raises:
        InputError: a file cannot be read; SpineError: its codes are not a tree, or areas are not made of its leaves.
    """
    listed = read_listed_spine(geography)
    if geography.regroup is None:
        return listed
    section = geography.regroup
    regrouped = regroup(listed, read_off_spine(section, listed), section.fan_out, keep=section.keep)
    return replace(regrouped, left_out=listed.left_out)


def read_off_spine(section: RegroupSection, spine: Spine) -> OffSpineAreas:
    """The areas off the spine that the spec names.

    Raises:
        InputError: the file cannot be read, or has no area of the kinds; SpineError: a leaf is not on the spine.
    """
    kinds, codes, leaves = (
        text_array(column) for column in text_columns(section.file, ["kind", "code", "geocode"], "the file of areas")
    )
    if spine.left_out is not None:
        inside = spine.find_leaves(leaves) >= 0
        inside |= ~spine.left_out.has(spine.n_levels - 1, leaves)
        kinds, codes, leaves = kinds[inside], codes[inside], leaves[inside]
    if section.kinds is not None:
        kinds_in_file = np.unique(kinds)
        if unknown := [kind for kind in section.kinds if kind not in kinds_in_file]:
            raise InputError(
                f"geography.regroup.kinds: {section.file} has no area of kind {unknown[0]!r}; its kinds are "
                f"{first_few(kinds_in_file)}"
            )
        selected = np.isin(kinds, section.kinds)
        kinds, codes, leaves = kinds[selected], codes[selected], leaves[selected]
    try:
        return OffSpineAreas.of(spine, kinds, codes, leaves)
    except SpineError as error:
        raise SpineError(f"{section.file}: {error}") from None


def read_listed_spine(geography: GeographySection) -> Spine:
    """The spine as the list has it, or the areas of it that the spec names; errors as `read_spine`."""
    spine = _whole_list(geography)
    if geography.within is None:
        return spine
    try:
        return spine_within(spine, geography.within)
    except SpineError as error:
        raise SpineError(f"geography.{error}; the list is {geography.file}") from None


def left_out_remark(geography: GeographySection) -> str | None:
    """What a release of some areas of the list leaves out, as a sentence; None where it is of the whole list."""
    if geography.within is None:
        return None
    areas = " and ".join(
        f"{level} {first_few(np.array(codes), quoted=False)}" for level, codes in geography.within.items()
    )
    return f"geography.within: only areas of {areas} are released; records elsewhere on the list are left out"


def _whole_list(geography: GeographySection) -> Spine:
    path, label, text = geography.file, "the file of the geography", geography.text_format
    try:
        if geography.form == "prefixes":
            (codes,) = text_columns(path, [str(geography.column)], label, text)
            return spine_from_prefixes(text_array(codes), geography.prefix_lengths)
        if geography.form == "pairs":
            child, parent = text_columns(path, [str(geography.column), str(geography.parent)], label, text)
            return spine_from_pairs(text_array(child), text_array(parent), geography.level_names)
        columns = text_columns(path, geography.level_names, label, text)
        table = pa.table(dict(zip(geography.level_names, columns, strict=True)))
        if geography.repeated:
            table = table.group_by(list(geography.level_names), use_threads=False).aggregate([])
        return spine_from_table(table, geography.level_names)
    except SpineError as error:
        raise SpineError(f"{path}: {error}") from None
