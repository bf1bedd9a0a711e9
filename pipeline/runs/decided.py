"""What a spec leaves to be decided from the records: a question that a run asks first, and the spec with its answer.

The question is charged and answered by the process that holds records, key and ledger (`pipeline.confidential.parts`).
Its answer follows from spec, records and key, so a run that was stopped asks it again and goes on with the same spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol, runtime_checkable

from geography.spine import Spine
from pipeline.confidential.parts import Question
from pipeline.confidential.steps import Measured
from pipeline.model.universe import Universe
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import record_decided
from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.runs.request import CheckedRequest, universe_checks
from pipeline.spec.release_spec import ReleaseSpec


@runtime_checkable
class DecidedFirst(Protocol):
    """Keys of a feature by which something in a spec is decided from the records before they are measured."""

    def undecided(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory
    ) -> Question | None:
        """What is asked of the records; None where nothing is left to be decided.

        Args:
            spec: that states the keys.
            universes: of the spec, with their records.
            spine: the geography.
            run: the directory of the release, whose key the answer follows from.

        Raises:
            InputError: it cannot be asked of these records.
        """

    def decided(self, spec: ReleaseSpec, answer: Mapping[str, object]) -> ReleaseSpec:
        """The spec with what the process has answered."""

    def redrawn(
        self, spec: ReleaseSpec, universes: tuple[Universe, ...], spine: Spine, run: RunDirectory, again: RunDirectory
    ) -> tuple[Question, Mapping[str, object]] | None:
        """Of a release: what was asked, to be drawn again, and what it must answer; None where nothing was.

        Args:
            run: the folder of the rerun.
            again: the release.
        """


def decided(
    checked: CheckedRequest, measured: Measured, run: RunDirectory, public: PublicSide
) -> tuple[CheckedRequest, PublicSide]:
    """The request with what its spec leaves open, and its public side; the same where that is nothing.

    Args:
        checked: what to run.
        measured: where the records are seen.
        run: its directory, held.
        public: of the spec as it is.

    Raises:
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: the records, the key or the ledger are others than before.
    """
    for part in checked.spec.of_features:
        if not isinstance(part, DecidedFirst):
            continue
        question = part.undecided(checked.spec, checked.universes, public.spine, run)
        if question is None:
            continue
        spec = part.decided(checked.spec, measured.question(question))
        files = {universe.name: universe.require_input().file for universe in checked.universes}
        universes = tuple(
            replace(one, input=replace(one.require_input(), file=files.get(one.name, files[""])))
            for one in spec.universes()
        )
        for universe in universes:
            for check in universe_checks(spec, universe):
                check()
        checked, public = replace(checked, spec=spec, universes=universes), open_listed(spec, universes)
        record_decided(run, public.identity())
    return checked, public
