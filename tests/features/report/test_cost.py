"""A plan counts the memory of the report: by its tables, areas and levels, and only where it shows covariances."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from features.report.moments import Reported
from features.report.workers import table_moments, tables_by_level
from geography.spine import Spine
from pipeline.cost import memory
from pipeline.cost.memory import memory_of
from pipeline.estimation.expectation import Expectation
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import ReleaseSpec, load_spec
from postprocess.linear.pairs import rows_of

ALL = ("county", "tract", "block")
AGES = 12


def opened(
    folder: Path,
    tables: Mapping[str, tuple[str, ...]],
    tracts: int = 4,
    *,
    levels: int = 3,
    ages: int = AGES,
    publish: str = "replicates = 4",
) -> tuple[ReleaseSpec, Spine]:
    """A spec of ages and halves of them, on tracts of 1, 2, 3 ... blocks; none is like another."""
    folder.mkdir(parents=True)
    codes = [f"1{tract:03d}{block:03d}" for tract in range(tracts) for block in range(tract + 1)]
    (folder / "blocks.csv").write_text("block\n" + "\n".join(codes) + "\n")
    names = {2: "county = 1, block = 7", 3: "county = 1, tract = 4, block = 7"}[levels]
    stated = [name for name in ALL if name in names]
    values = [f'"{age}"' for age in range(ages)]
    low, high = ", ".join(values[: ages // 2]), ", ".join(values[ages // 2 :])
    path = folder / "spec.toml"
    path.write_text(
        'name = "ages"\n[privacy]\nrho = "2"\n[geography]\nfile = "blocks.csv"\ncolumn = "block"\n'
        f"levels = {{ {names} }}\n[schema.attributes]\nage = [{', '.join(values)}]\n"
        f'[schema.recodes.halves]\nattribute = "age"\ngroups = {{ low = [{low}], high = [{high}] }}\n'
        '[strategy.queries]\ntotal = "1/4"\nhalves = "1/4"\ndetailed = "1/2"\n[strategy.levels]\n'
        + "".join(f'{name} = "1/{len(stated)}"\n' for name in stated)
        + f"[publish]\n{publish}\n[tables]\n"
        + "".join(
            f'{query} = {{ query = "{query}", levels = {[name for name in places if name in stated]} }}\n'.replace(
                "'", '"'
            )
            for query, places in tables.items()
        )
    )
    spec = load_spec(path)
    return spec, read_spine(spec.geography)


def reported(spec: ReleaseSpec, spine: Spine) -> Reported:
    (universe,) = spec.universes()
    return Reported.of(universe, spine, margins=spec.publish.margins)


def test_factors_are_those_that_the_report_works_out(tmp_path: Path) -> None:
    spec, spine = opened(tmp_path / "in", {"total": ALL, "halves": ("tract",), "detailed": ("county", "block")}, 5)
    (universe,) = spec.universes()
    expectation = Expectation.of(universe, spine, [], "full")
    planned = expectation.planned()
    sizes = []
    for level, table in tables_by_level(universe, spine):
        moments = table_moments(expectation, planned, level, table)
        assert (
            moments.shared.shape[-2:]
            == (
                len(rows_of(expectation.basis, table.query)),
                expectation.basis.n_asymmetric,
            )
            or not moments.shared.size
        )
        sizes.append(moments.shared.size + moments.nested.size)
    found = reported(spec, spine)
    assert found.widest == max(sizes)


def test_the_report_is_part_of_the_memory_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other steps where it takes little, after them where it takes much: then the larger of the two counts.

    Here it takes more memory than all else.
    """
    monkeypatch.setattr("features.report.moments.HELD_BYTES", 1e6)
    spec, spine = opened(tmp_path / "in", {"detailed": ALL}, 12)
    found = reported(spec, spine)
    beside = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_AHEAD", 0)
    after = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_HELD", 0)
    processes = memory.MAIN_MB + memory.ENGINE_MB + 2 * memory.WORKER_MB
    assert after.peak_mb == pytest.approx(processes + found.bytes / 1e6, rel=1e-3)  # and the histograms
    assert memory_of(spec, spine, 2).peak_mb < after.peak_mb < beside.peak_mb < 1.1 * after.peak_mb
