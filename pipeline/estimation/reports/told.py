"""What a release's own reports tell of their errors, beyond how answers were randomised."""

from __future__ import annotations

import json

from pipeline.collect.collected import Collected
from pipeline.collect.collected_words import CollectedWords
from pipeline.collect.unlisted import UNLISTED, Unlisted
from pipeline.errors import ReleaseError
from pipeline.execution.job import Job
from pipeline.model.universe import Universe


def told(job: Job, universe: Universe) -> Collected | None:
    """How answers were randomised, with what the public file of the reports says of words that are not listed.

    Returns:
        None where counts are not made from reports.

    Raises:
        ReleaseError: the file is not that of a release.
    """
    collected = universe.collected
    if not isinstance(collected, CollectedWords):
        return collected
    try:
        found = json.loads(job.run.reports.read_bytes())
        if found[UNLISTED] is None:
            return collected
        unlisted = Unlisted.of_data(found[UNLISTED], int(found["used"]))
        return collected.told(unlisted.excess, unlisted.reports)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        raise ReleaseError(f"{job.run.reports}: not what a release says of its reports: {error!r}") from None
