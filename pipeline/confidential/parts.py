"""What sees the confidential records, by where a universe's noisy numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from geography.spine import Spine
from pipeline.confidential.custody import Keyholder
from pipeline.confidential.measure import check_universe, measure_level, measure_positive, tabulate_universe
from pipeline.execution.job import Job
from pipeline.model.source import OwnNoise, Source
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.records.problems import MistakeLog
from pipeline.release.layout import RunDirectory
from postprocess.arrays import IntArray


@dataclass(frozen=True, eq=False)
class Inspection:
    """What a validation finds in records, of which nothing is kept.

    Attributes:
        mistakes: that stop a run; None where whatever is wrong is left out.
        remarks: what is odd and stops nothing; confidential sentences.
        n_rows, n_counted: that were read, and that count.
    """

    mistakes: MistakeLog | None
    remarks: tuple[str, ...]
    n_rows: int
    n_counted: int


class ConfidentialPart:
    """What is done with the records of a universe, up to its measurements.

    It is of true records, on whose counts noise is drawn, but for what a part of a feature says otherwise.
    """

    def tabulate(self, job: Job, key: MasterKey, universe: Universe) -> tuple[str, list[str]]:
        """Count the records, and keep what is counted in restricted/.

        Returns:
            The keyed fingerprint of what is counted, and confidential sentences on records that are not.

        Raises:
            RecordsError: the records cannot be read or counted; the message may show what is in them.
        """
        return tabulate_universe(job, key, universe)

    def check(self, job: Job, universe: Universe, facilities: Mapping[str, Sequence[IntArray]]) -> list[str]:
        """Refuse what no release could keep; what is odd, in confidential sentences. Errors as `check_universe`."""
        return check_universe(job, universe, facilities)

    def measure(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is measured at a level; `fingerprint` is of the records, from `bound_fingerprints`."""
        measure_level(job, key, fingerprint, universe, level)

    def measure_positive(self, job: Job, key: MasterKey, fingerprint: str, universe: Universe, level: str) -> None:
        """Publish what is drawn only where the released parent is positive, once the level above is released."""
        measure_positive(job, key, fingerprint, universe, level)

    def inspected(self, universe: Universe, spine: Spine) -> Inspection:
        """Of a source without true counts: read all records; InputError where they cannot be read."""
        raise NotImplementedError

    def over_periods(self, periods: Sequence[Universe], spine: Spine) -> tuple[str, ...]:
        """Of a series: what is odd in records of successive periods, the release's own last; confidential sentences.

        Raises:
            InputError: the spec does not say what is needed for it, or the records cannot be read.
        """
        raise NotImplementedError


def part_of(source: Source) -> ConfidentialPart:
    """What sees the records of a source; KeyError where its feature is not installed.

    It is imported when it is asked for, by name: the core imports no feature, and their list is above the core.
    """
    makers = {OwnNoise: ConfidentialPart, **import_module("features.confidential_registry").makers()}
    part: ConfidentialPart = makers[type(source)]()
    return part


class RecordQuestion(Protocol):
    """What a feature asks of the records beside the measurements of a release. Public; sent to the process."""

    @property
    def run(self) -> RunDirectory:
        """Where the noisy numbers are written."""


#: What sees the records for a question, given the question and what gives the key: it charges the ledger, writes noisy
#: numbers, and says what is public.
Answering = Callable[[Any, Keyholder], Mapping[str, object]]


def answering(question: RecordQuestion) -> Answering:
    """What answers a question, imported when it is asked."""
    return cast("Answering", import_module("features.confidential_registry").answering(type(question)))
