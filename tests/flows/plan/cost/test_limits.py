"""A plan answers, or says within seconds what is too large; a run of the same is refused before anything is charged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from flows.plan.cost.fitting import check_memory, fitting
from flows.plan.cost.limits import is_planned
from flows.plan.release_plan import plan_release
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.spec.release_spec import load_spec

#: CPU seconds, on any machine that is not many times slower than the ones that this was made on.
SECONDS = 20.0


def write_binary(folder: Path, attributes: int) -> Path:
    """A spec of so many attributes of two values, each of which is measured by itself."""
    names = [f"a{number}" for number in range(attributes)]
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{c}{t}{b}\n" for c in "12" for t in "12" for b in "123"))
    (folder / "persons.csv").write_text(",".join(["block", *names]) + "\n")
    (folder / "spec.toml").write_text(
        '[privacy]\nrho = "2"\n[geography]\nfile = "blocks.csv"\ncolumn = "block"\n'
        "levels = { county = 1, tract = 2, block = 3 }\n[schema.attributes]\n"
        + "".join(f'{name} = ["no", "yes"]\n' for name in names)
        + "[strategy.queries]\n"
        + "".join(f'{name} = "1/{attributes}"\n' for name in names)
        + '[strategy.levels]\ncounty = "1/2"\ntract = "1/4"\nblock = "1/4"\n[tables]\n'
        + "".join(f'{name} = {{ query = "{name}", levels = ["county", "block"] }}\n' for name in names)
        + '[input]\nfile = "persons.csv"\nform = "microdata"\ngeocode = "block"\n'
    )
    spec = folder / "spec.toml"
    spec.write_text('name = "binary"\n' + spec.read_text())
    return spec


@pytest.mark.parametrize("attributes", [12, 16])
def test_many_queries_of_one_attribute_are_planned(tmp_path: Path, attributes: int) -> None:
    """12 took a minute: each of 4,096 parts of the errors was made by itself, for each query."""
    began = time.process_time()
    planned = plan_release(write_binary(tmp_path, attributes), None, 1)
    assert time.process_time() - began < SECONDS
    (universe,) = planned.universes
    assert len(universe.rows) == 3 * attributes
    errors = {(row.level, row.numbers): row.per_number for row in universe.rows}
    assert len(errors) == 3
    for row in universe.rows:  # all attributes are alike
        assert row.per_number == pytest.approx(errors[row.level, 2], rel=1e-9)


def test_what_is_too_large_is_refused_at_once_by_plan_and_run(tmp_path: Path) -> None:
    path = write_binary(tmp_path, 24)
    began = time.process_time()
    with pytest.raises(InputError) as refused:
        plan_release(path, None, 1)
    assert time.process_time() - began < SECONDS / 2
    assert str(refused.value) == (
        "binary: found 16,777,216 cells, too many to work out errors for at 3 levels: 24 attributes that queries keep "
        "whole or sum out have 16,777,216 subsets; what fits: at most 19 attributes that are kept whole or summed out"
    )
    (tmp_path / "less").mkdir()
    spec = load_spec(write_binary(tmp_path / "less", 20))
    with pytest.raises(InputError, match=r"the run is expected to take .* GB of memory"):
        check_memory(spec, fitting(spec, read_spine(spec.geography), 1, 64 * 10**9))


@pytest.mark.parametrize(
    ("levels", "apart", "combinations", "planned"),
    [
        (6, 4, 63, True),  # redistricting files: all attributes are kept whole or summed out, or grouped by race alone
        (6, 1, 2016, True),
        (3, 1, 12_000, False),  # 1.2 million cells, with two grouped attributes of 100 and 120 values
        (3, 3, 1, True),  # the same cells, where none is grouped
        (3, 19, 1, True),
        (3, 20, 1, False),
    ],
)
def test_which_sizes_are_planned(levels: int, apart: int, combinations: int, planned: bool) -> None:
    assert is_planned(levels, apart, combinations) == planned
