"""With an enormous budget there is no noise, and every released number is the true one."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.examples import rhode_island
from releases.small import QUICK, request_of, run, write_town

from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.release.spine import read_public_spine
from pipeline.storage.readable import unchecked


def assert_true(root: Path, spec: Path) -> None:
    directory = RunDirectory(root)
    for universe in request_of(spec, root).universes:
        folder = directory.universe(universe.name)
        for level in read_public_spine(unchecked(directory.spine), universe.level_names).levels:
            released = read_histogram(unchecked(folder.histogram(level.name)), level.geocodes, universe.schema)
            truth = read_histogram(folder.true_histogram(level.name), level.geocodes, universe.schema)
            assert truth.nnz > 0
            assert abs(released - truth).nnz == 0, (universe.name, level.name)


@pytest.mark.parametrize(("estimator", "framework"), [("full", "zcdp"), ("topdown", "pure")])
def test_the_truth_comes_back(tmp_path: Path, estimator: str, framework: str) -> None:
    main, companion = ('rho = "1e9"', 'rho = "1e9"')
    if framework == "pure":
        main, companion = ('framework = "pure"\nepsilon = "1e9"', 'epsilon = "1e9"')
    spec = write_town(
        tmp_path / "in",
        ('rho = "2"', main),
        ('rho = "1"', companion),
        ("[publish]\nreplicates = 3", f'[postprocess]\nestimator = "{estimator}"\n\n[publish]\nmargins = false'),
    )
    assert_true(run(spec, tmp_path / "out"), spec)
    spec = write_town(tmp_path / "small", *QUICK, ("unbiased = true", "margins = false"))
    with pytest.raises(AssertionError):
        assert_true(run(spec, tmp_path / "noisy"), spec)


@pytest.mark.slow
def test_the_truth_of_rhode_island_comes_back(shared_data: Path, tmp_path: Path) -> None:
    spec = tmp_path / "ri.toml"
    text = rhode_island(shared_data).replace('rho = "2.56"', 'rho = "1e9"')
    spec.write_text(text + "\n[publish]\nmargins = false\n")
    assert_true(run(spec, tmp_path / "out"), spec)
