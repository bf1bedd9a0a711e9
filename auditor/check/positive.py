"""Noisy answers that depend on the release: drawn just where the published histogram of the area above is positive."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from auditor.reading.counts import Counts
from auditor.reading.files import Files
from auditor.reading.findings import Findings
from auditor.reading.places import UniversePlaces
from auditor.reading.positive import due_answers, read_positive, wrong_answers
from auditor.reading.spec import PublicUniverse
from auditor.reading.spine import Level


def check_positive(
    files: Files,
    folder: UniversePlaces,
    universe: PublicUniverse,
    levels: tuple[Level, ...],
    counts: Mapping[str, Counts],
    findings: Findings,
) -> None:
    """Compare what was drawn of a universe with its published histograms `counts`, level by level."""
    for name, query in universe.positive:
        with findings.noting_errors():
            number = [level.name for level in levels].index(name)
            level, above = levels[number], counts.get(levels[number - 1].name)
            path = folder.positive(name, query.name)
            files.seen.add(path)
            if above is None:
                continue
            due = due_answers(above, query, level)
            most = int(np.bincount(due // query.size, minlength=1).max())
            keys, _ = read_positive(files, path, level, query, most, findings)
            check = findings.check(files.name(path), "answers that do not follow from the release")
            for sentence in wrong_answers(keys, due, query, level):
                check.fail(f"{files.name(path)}: {sentence} (level {levels[number - 1].name!r})")
