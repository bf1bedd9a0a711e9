"""What a spec leaves to be decided from the records: a question that a run asks first, and the spec with its answer.

The question is charged and answered by the process that holds records, key and ledger (`pipeline.confidential.parts`).
Its answer follows from spec, records and key, so a run that was stopped asks it again and goes on with the same spec.
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.confidential.process import RecordHolder
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import record_decided
from pipeline.runs.open_public import PublicSide, open_listed
from pipeline.runs.request import CheckedRequest, universe_checks


def decided(
    checked: CheckedRequest, measured: RecordHolder, run: RunDirectory, public: PublicSide
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
