"""What sees the confidential records, by where a universe's noisy numbers come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.confidential.measure import check_universe, measure_level, tabulate_universe
from pipeline.confidential.reports import measure_reports, tabulate_reports
from pipeline.execution.job import Job
from pipeline.model.source import OwnNoise, Source
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.survey.survey import Survey


class ConfidentialPart(Protocol):
    """What is done with the records of a universe, up to its measurements."""

    def tabulate(self, job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
        """Count the records, and keep what is counted in restricted/.

        Returns:
            The keyed fingerprint of what is counted, and confidential sentences on records that are not.

        Raises:
            RecordsError: the records cannot be read or counted; the message may show what is in them.
        """

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[NDArray[np.int64]]]) -> list[str]:
        """Refuse what no release could keep; what is odd, in confidential sentences. Errors as `check_universe`."""

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is measured at a level; `fingerprint` is that of `tabulate`."""


class TrueRecords:
    """True records, on whose counts noise is drawn."""

    def tabulate(self, job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
        """See `ConfidentialPart.tabulate`."""
        return tabulate_universe(job, key, universe)

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[NDArray[np.int64]]]) -> list[str]:
        """See `ConfidentialPart.check`."""
        return check_universe(job, universe, facilities)

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """See `ConfidentialPart.measure`."""
        measure_level(job, key, fingerprint, universe, level)


class RandomisedReports:
    """Reports that were randomised before they were sent: their totals are published as they are."""

    def tabulate(self, job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
        """See `ConfidentialPart.tabulate`."""
        return tabulate_reports(job, key, universe)

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[NDArray[np.int64]]]) -> list[str]:  # noqa: ARG002
        """Nothing: of reports nothing is known that could contradict what is exact."""
        return []

    def measure(
        self,
        job: Job,
        key: MasterKey,  # noqa: ARG002
        fingerprint: str,  # noqa: ARG002
        universe: Universe,
        level: str,
    ) -> None:
        """See `ConfidentialPart.measure`; no key is needed, as no noise is drawn."""
        measure_reports(job, universe, level)


#: Type of a source -> what sees its records.
Parts = Mapping[type[Source], ConfidentialPart]

#: Of every source of the core. Only what performs the confidential steps has this list.
PARTS: Final[Parts] = {OwnNoise: TrueRecords(), Survey: RandomisedReports()}


def part_for(source: Source, parts: Parts) -> ConfidentialPart:
    """What sees the records of a source: of the list, or what a feature's source names, which is imported now."""
    if source.confidential is None:
        return parts[type(source)]
    module, name = source.confidential
    found: ConfidentialPart = getattr(import_module(module), name)()
    return found
