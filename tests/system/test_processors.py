"""The processor does not show: a release made with one set of BLAS kernels verifies with others."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.command import spinewise
from releases.small import QUICK, write_town

from pipeline.release.layout import RunDirectory

FLAGS = Path("/proc/cpuinfo")


def needs(core: str, flag: str) -> object:
    """The kernels of one processor family, where this machine can run them."""
    able = platform.machine() == "x86_64" and FLAGS.exists() and flag in FLAGS.read_text(encoding="utf-8")
    return pytest.param(core, marks=pytest.mark.skipif(not able, reason=f"this processor has no {flag}"))


#: Every set of kernels that a processor of this family can have, and the flag that a machine needs to run it.
KERNELS = {
    "Prescott": "pni",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512f",
    "Cooperlake": "avx512_bf16",
    "SapphireRapids": "amx_bf16",
}
#: A private choice of detail, and a second invariant, beside the town's other options.
_ALL_OPTIONS = (
    (
        "[strategy.queries]",
        '[select.chosen]\nlevel = "block"\nversions = ["total", "sex", "sex * age"]\nthresholds = [0, 10, 40]\n'
        'share = "1/5"\nchoice_share = "1/4"\n\n[strategy.queries]',
    ),
    ('[invariants]\ncounty = ["total"]', '[invariants]\ncounty = ["total", "sex"]'),
    ('detail = "detailed"', 'detail = { query = "detailed", levels = ["county", "tract", "block"] }'),
)


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town with every option of [publish], a choice, a companion and constraints of all kinds; oldest kernels."""
    folder = tmp_path_factory.mktemp("town")
    spec = write_town(folder, *QUICK, *_ALL_OPTIONS)
    done = spinewise("run", spec, "--out", folder / "out", "--workers", 1, OPENBLAS_CORETYPE="Nehalem")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.slow
@pytest.mark.parametrize("core", [needs(core, flag) for core, flag in KERNELS.items()])
def test_every_option_gives_the_same_bytes_with_all_kernels(town: Path, core: str) -> None:
    done = spinewise("verify", town, "--workers", 1, OPENBLAS_CORETYPE=core)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_is_known_exactly_has_no_variance(town: Path) -> None:
    """County totals are invariants; that each sex is, too, makes it no less exact. Noise of rounding does not show."""
    for level, expected in (("county", True), ("tract", False)):
        estimates = pd.read_parquet(RunDirectory(town).main.estimates(level))
        variances = np.stack(estimates["total:variance"].tolist())
        assert (variances == 0).all() if expected else (variances > 0.01).all()
