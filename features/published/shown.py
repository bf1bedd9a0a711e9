"""What the report shows of published tables: each beside what was estimated, and how much they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from features.published.section import PublishedNumbers, PublishedSection
from pipeline.metadata.products import drawn_file
from pipeline.pages.templates import ReleaseFacts
from pipeline.release.measurements import read_measurement
from pipeline.release.tables import read_table
from postprocess.arrays import IntArray

#: Areas of a level, and cells of a table, that are listed one by one, at most.
_MOST_LISTED, _MOST_CELLS = 50, 8


def published_view(
    facts: ReleaseFacts, section: PublishedSection, numbers: Sequence[PublishedNumbers]
) -> dict[str, Any]:
    """What the section is given: who protected the tables and how, and each protected table at each level.

    Raises:
        ReleaseError: a file is missing or damaged.
    """
    methods = dict.fromkeys(str(one.method) for one in numbers if one.method is not None)
    exact = [one for one in numbers if one.method is None]
    words = facts.words("")
    return {
        "by": section.by,
        "methods": list(methods),
        "exact": [{"table": words.table(one.table), "level": one.level} for one in exact],
        "rows": list(_rows(facts, [one for one in numbers if one.method is not None])),
    }


def _rows(facts: ReleaseFacts, numbers: Sequence[PublishedNumbers]) -> Iterator[dict[str, Any]]:
    (universe, *_), folder, words = facts.universes, facts.run.universe(""), facts.words("")
    levels_of = {table.name: table.levels for table in universe.tables}
    for one, draw in zip(numbers, universe.draws(facts.spine), strict=True):
        if one.method is None or one.level not in levels_of[one.table]:
            continue  # the release has no such table of its own there
        codes = facts.spine.level(one.level).geocodes
        published = read_measurement(facts.readable(drawn_file(folder, draw))).values
        estimated = read_table(facts.readable(folder.table(one.table, one.level)), geocodes=codes).counts
        differences = np.abs(estimated - published)
        row: dict[str, Any] = {
            "level": one.level,
            "table": words.table(one.table),
            "n": published.size,
            "changed": 100.0 * float((differences > 0).mean()),
            "mean": float(differences.mean()),
            "squares": float((differences.astype(np.float64) ** 2).mean() / float(one.method.variance)),
            "cells": [],
            "areas": [],
        }
        if len(codes) <= _MOST_LISTED and one.query.size <= _MOST_CELLS:
            named = facts.names.get(one.level)
            names = codes.tolist() if named is None else named.in_language(facts.spec.report.language or "")
            row["cells"] = list(one.query.answer_labels())
            row["areas"] = [(name, _pairs(*two)) for name, *two in zip(names, published, estimated, strict=True)]
        yield row


def _pairs(published: IntArray, estimated: IntArray) -> list[tuple[int, int]]:
    """Of each cell the number that was published and that which was estimated."""
    return list(zip(published.tolist(), estimated.tolist(), strict=True))
