"""A run fits into the memory that there is, or is refused with the figures, within seconds and before anything else."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from releases.command import needs, spinewise
from releases.small import QUICK, run, write_town

import pipeline.cost.memory
from geography.spine import Spine
from pipeline.cost.limits import check_possible
from pipeline.cost.memory import ENGINE_MB, MAIN_MB, WORKER_MB, fitting, memory_of
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import ReleaseSpec, load_spec

BARE = ("replicates = 3\nunbiased = true", "margins = false")


def opened(path: Path) -> tuple[ReleaseSpec, Spine]:
    spec = load_spec(path)
    return spec, read_spine(spec.geography)


@pytest.fixture(name="heavy")
def _heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell and geounit takes a megabyte, so that a town is as heavy as a country."""
    for name in ("GEOUNIT_BYTES", "MEASURED_BYTES", "FILLED_BYTES", "ABOVE_BYTES"):
        monkeypatch.setattr(pipeline.cost.memory, name, 1e6)
    monkeypatch.setattr("pipeline.cost.memory.LEAST_PART_CELLS", 8)


@pytest.mark.usefixtures("heavy")
def test_a_cut_spine_takes_what_its_largest_part_takes(tmp_path: Path) -> None:
    spec, spine = opened(write_town(tmp_path, BARE))
    whole, cut = memory_of(spec, spine, 1), memory_of(spec, spine, 1, most_cells=1, part_cells=1)
    fixed = MAIN_MB + ENGINE_MB
    assert (whole.parts, cut.parts) == (1, 6)
    assert cut.peak_mb - fixed - WORKER_MB < 0.5 * (whole.peak_mb - fixed)


@pytest.mark.usefixtures("heavy")
def test_less_memory_means_parts_then_fewer_workers_then_a_refusal(tmp_path: Path) -> None:
    spec, spine = opened(write_town(tmp_path, BARE))
    wanted = memory_of(spec, spine, 3)
    seen = []
    for share in (1.01, 0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.2):
        way = fitting(spec, spine, 3, int(share * wanted.peak_mb * 1e6))
        assert way.fits == (way.memory.peak_mb <= share * wanted.peak_mb)
        seen.append((way.fits, way.memory.parts > 1, way.memory.workers))
    assert seen[0] == (True, False, 3)
    assert (True, True, 2) in seen
    assert seen[-1] == (False, True, 1)
    assert sorted(seen, key=lambda one: (not one[0], one[1], -one[2])) == seen


def test_a_refused_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(tmp_path / "in", *QUICK)
    monkeypatch.setenv("SPINEWISE_MEMORY", "0.05")
    with pytest.raises(InputError, match=r"town: the run can take up to .* and 0\.1 GB|0\.0 GB are available"):
        run(spec, tmp_path / "out")
    assert not (tmp_path / "out" / "town").exists()


#: CPU seconds, on any machine that is not many times slower than the ones that this was made on.
SECONDS = 60.0


def write_binary(folder: Path, attributes: int) -> Path:
    """A spec of so many attributes of two values, each of which is measured by itself."""
    names = [f"a{number}" for number in range(attributes)]
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{c}{t}{b}\n" for c in "12" for t in "12" for b in "123"))
    (folder / "persons.csv").write_text(",".join(["block", *names]) + "\n")
    spec = folder / "spec.toml"
    spec.write_text(
        'name = "binary"\n[privacy]\nrho = "2"\n[geography]\nfile = "blocks.csv"\ncolumn = "block"\n'
        "levels = { county = 1, tract = 2, block = 3 }\n[schema.attributes]\n"
        + "".join(f'{name} = ["no", "yes"]\n' for name in names)
        + "[strategy.queries]\n"
        + "".join(f'{name} = "1/{attributes}"\n' for name in names)
        + '[strategy.levels]\ncounty = "1/2"\ntract = "1/4"\nblock = "1/4"\n[tables]\n'
        + "".join(f'{name} = {{ query = "{name}", levels = ["county", "block"] }}\n' for name in names)
        + '[input]\nfile = "persons.csv"\nform = "microdata"\ngeocode = "block"\n'
    )
    return spec


@needs("plan")
def test_what_no_machine_can_solve_is_refused_at_once_and_alike(tmp_path: Path) -> None:
    """`run` said after 41 CPU seconds that 4,222,137 GB of memory would help."""
    ledger, out = tmp_path / "ledger.sqlite", tmp_path / "out"
    opened = spinewise(
        "ledger", "open", "persons", "--population", "binary", "--rho", "4", SPINEWISE_LEDGER=str(ledger)
    )
    assert opened.returncode == 0, opened.stderr
    path = write_binary(tmp_path, 24)
    path.write_text(path.read_text().replace("[privacy]", '[privacy]\ndataset = "persons"'))
    events, before = ledger.read_bytes(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in (("plan", path), ("run", path, "--out", out, "--no-prefect"), ("run", path, "--out", out)):
        refused = spinewise(*command, SPINEWISE_LEDGER=str(ledger))
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "found 16,777,216 possible cells" in " ".join(refused.stderr.split())
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3 * SECONDS / 2
    assert not out.exists()
    assert ledger.read_bytes() == events


def test_structural_zeros_are_no_possible_cells(tmp_path: Path) -> None:
    path = write_binary(tmp_path, 20)
    with pytest.raises(InputError, match=r"found 1,048,576 possible cells"):
        check_possible(*_own(path))
    zeros = 'structural_zeros = [ { a0 = "yes", a1 = "yes" } ]\n'
    path.write_text(path.read_text().replace("[privacy]", zeros + "[privacy]"))
    check_possible(*_own(path))


def _own(path: Path) -> tuple[ReleaseSpec, Universe]:
    spec = load_spec(path)
    return spec, spec.universes()[0]
