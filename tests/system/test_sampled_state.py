"""On Rhode Island, margins from the sample are those of a full simulation, within their stated precision."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.again import computed_again
from releases.examples import rhode_island
from releases.small import run

from pipeline.estimation.margins import SampledRuns
from pipeline.publishing.steps import perform_public_steps
from pipeline.release.layout import RunDirectory
from postprocess.downward.samples import PRECISION, Rates

WHOLE, CUT = (1 << 28, 1 << 26), (1, 1 << 16)


def computed(released: Path, root: Path, cut: tuple[int, int], visits: tuple[float, ...]) -> dict[str, np.ndarray]:
    """The margins of a release's tables, computed again, by table and level."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SampledRuns, "rates", lambda _: Rates(int(visits[0]), visits, 2))
        with computed_again(released, root, *cut) as job:
            perform_public_steps(replace(job), last=False)
    found = {}
    for path in sorted(RunDirectory(root).public.glob("tables/*/*.parquet")):
        table = pd.read_parquet(path)
        columns = [name for name in table.columns if name.endswith(":moe90")]
        found[f"{path.parent.name} {path.stem}"] = table[columns].to_numpy(dtype=np.float64)
    return found


@pytest.mark.slow
def test_margins_of_a_state_are_those_of_a_full_simulation(shared_data: Path, tmp_path: Path) -> None:
    text = re.sub(r"(?ms)^\[report\.?.*?(?=^\[(?!report))", "", rhode_island(shared_data))
    spec = tmp_path / "release.toml"
    bare = text + "\n[publish]\nreplicates = 1\nmicrodata = false\n"
    spec.write_text(bare, "utf-8")
    released = run(spec, tmp_path / "out")
    full = computed(released, tmp_path / "full", WHOLE, (4.0,) * 5)
    sampled = computed(released, tmp_path / "sampled", CUT, (4.0, 4.0, 4.0, 1.0, 1.0))
    compared = 0
    for name, expected in full.items():
        if name.endswith((" state", " county")):
            continue  # too few numbers
        mean, found = expected.mean(), sampled[name].mean()
        # Both are simulated; half a person is what rounding hides.
        assert abs(found - mean) <= 3 * PRECISION * mean + 0.5, (name, mean, found)
        compared += 1
    assert compared >= 9
