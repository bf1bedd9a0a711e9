"""The public files of private choices, checked against the spec."""

from __future__ import annotations

import numpy as np

from pipeline.errors import ReleaseError
from pipeline.execution.job import Job
from pipeline.release.selected import read_selected


def selected_problems(job: Job) -> list[str]:
    """A sentence for each public file of a selection that is not as the spec says."""
    problems = []
    for universe in job.universes:
        for selection in universe.selections:
            path = job.folder(universe).selected(selection.name, selection.level)
            name = f"public/{path.relative_to(job.run.public).as_posix()}"
            geocodes = job.spine.level(selection.level).geocodes
            try:
                geocodes_found = [part.geocodes for part in read_selected(path, selection, len(geocodes))]
            except ReleaseError as error:
                problems.append(str(error).replace(str(path), name))
                continue
            if not geocodes_found or not np.array_equal(np.concatenate(geocodes_found), geocodes):
                problems.append(f"{name} does not have the geounits of level {selection.level!r}, in the spine's order")
    return problems
