"""Tables and microdata say what the histograms say, and the steps of a run tell nothing that is not public."""

from __future__ import annotations

import json
from pathlib import Path

from releases.small import run

from pipeline.execution.steps import Step


def test_steps_are_tens_and_tell_public_things_only(town_spec: Path, tmp_path: Path) -> None:
    performed: list[Step] = []

    def perform(step: Step) -> dict[str, object] | None:
        performed.append(step)
        told = step.perform()
        json.dumps(told)
        assert told is None or step.stage == "estimate"
        return told

    run(town_spec, tmp_path, perform=perform)
    names = [step.name for step in performed]
    assert len(set(names)) == len(names) < 100
    assert [name for name in names if name.startswith("measure")] == [
        *("measure county", "measure tract", "measure block"),
        *("measure units county", "measure units tract", "measure units block"),
    ]
    assert names.index("charge") < names.index("measure county")
    assert names.index("check units") < names.index("charge")
