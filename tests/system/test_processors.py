"""The processor does not show: a release made with one set of BLAS kernels verifies with others."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
from releases.command import spinewise

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rhode_island.toml"
FLAGS = Path("/proc/cpuinfo")


def needs(core: str, flag: str) -> object:
    """The kernels of one processor family, where this machine can run them."""
    able = platform.machine() == "x86_64" and FLAGS.exists() and flag in FLAGS.read_text(encoding="utf-8")
    return pytest.param(core, marks=pytest.mark.skipif(not able, reason=f"this processor has no {flag}"))


@pytest.fixture(scope="module")
def released(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rhode Island, with a few simulated runs, made with the oldest kernels."""
    folder = tmp_path_factory.mktemp("processors")
    text = EXAMPLE.read_text(encoding="utf-8").replace('"../../shared/data/', f'"{shared_data}/')
    (folder / "spec.toml").write_text(f"{text}\n[publish]\nreplicates = 2\n", encoding="utf-8")
    done = spinewise("run", folder / "spec.toml", "--out", folder, "--workers", 1, OPENBLAS_CORETYPE="Nehalem")
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.slow
@pytest.mark.parametrize("core", [needs("Haswell", "avx2"), needs("SkylakeX", "avx512f")])
def test_other_kernels_give_the_same_bytes(released: Path, core: str) -> None:
    done = spinewise("verify", released, "--workers", 2, OPENBLAS_CORETYPE=core)
    assert done.returncode == 0, done.stderr
