"""A plan answers, or says within seconds what is too large; what no machine can solve, a run refuses alike, first."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest
from releases.command import feature_module, needs, spinewise

from pipeline.cost.limits import check_possible
from pipeline.cost.memory import check_memory, fitting
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.model.universe import Universe
from pipeline.runs.request import Request, check_request
from pipeline.spec.preset import load_preset
from pipeline.spec.release_spec import ReleaseSpec, load_spec

#: CPU seconds, on any machine that is not many times slower than the ones that this was made on.
SECONDS = 60.0


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
    plan_release = feature_module("features.plan.release_plan").plan_release
    began = time.process_time()
    planned = plan_release(write_binary(tmp_path, attributes), 1)
    assert time.process_time() - began < SECONDS
    (universe,) = planned.universes
    assert len(universe.rows) == 3 * attributes
    errors = {(row.level, row.numbers): row.per_number for row in universe.rows}
    assert len(errors) == 3
    for row in universe.rows:  # all attributes are alike
        assert row.per_number == pytest.approx(errors[row.level, 2], rel=1e-9)


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


def test_a_run_is_not_refused_for_its_plan_alone(tmp_path: Path) -> None:
    """3,000 combinations of grouped values: hours for the errors of a plan, which the run does not work out."""
    plan_release = feature_module("features.plan.release_plan").plan_release
    path = write_binary(tmp_path, 2)
    text = path.read_text().replace('a0 = ["no", "yes"]', f"a0 = {[str(value) for value in range(3000)]}")
    text = text.replace("'", '"').replace('a0 = "1/2"', '"halves" = "1/2"').replace('"a0", levels', '"halves", levels')
    values = [str(value) for value in range(1500)], [str(value) for value in range(1500, 3000)]
    recode = f'[schema.recodes.halves]\nattribute = "a0"\ngroups = {{ low = {values[0]}, high = {values[1]} }}\n'
    path.write_text(text.replace("[strategy.queries]", recode.replace("'", '"') + "[strategy.queries]"))
    with pytest.raises(InputError, match=r"found 6,000 cells, too many to work out errors for"):
        plan_release(path, 1)
    checked = check_request(Request(path, tmp_path / "out", None, 1, i_know=True))
    check_memory(checked.spec, fitting(checked.spec, read_spine(checked.spec.geography), 1, 64 * 10**9))


def _own(path: Path) -> tuple[ReleaseSpec, Universe]:
    spec = load_spec(path)
    return spec, spec.universes()[0]


def write_persons(folder: Path, preset: str) -> Path:
    """A spec of a preset of persons on the schema that it is made for: 1,227,744 cells."""
    roles = [value for recode in load_preset(preset).recodes if recode.name == "relgq_4"
             for _, group in recode.groups for value in group]  # fmt: skip
    shape = {"sex": 2, "age": 116, "hispanic": 2, "cenrace": 63}
    schema = {"relgq": roles} | {name: [str(i) for i in range(n)] for name, n in shape.items()}
    path = write_binary(folder, 1)
    text = path.read_text().replace('[privacy]\nrho = "2"\n', f'strategy = "{preset}"\n')
    text = text.replace('a0 = ["no", "yes"]\n', "".join(f"{name} = {values}\n" for name, values in schema.items()))
    head, strategy, rest = text.partition("[strategy.queries]")
    assert strategy
    path.write_text(head.replace("'", '"') + "[input]" + rest.partition("[input]")[2])
    return path


@needs("plan")
@pytest.mark.parametrize(
    ("preset", "margins", "says"),
    [
        ("dhc-persons", False, r"level block measures 1,903,289 answers of each geounit"),
        ("dhc-persons-county", True, r"publish.margins is true"),
        ("dhc-persons-county", False, r"found 1,227,744 cells, too many to work out errors for"),
    ],
)
def test_characteristics_of_persons_are_refused_at_once_with_the_figure(
    tmp_path: Path, preset: str, margins: bool, says: str
) -> None:
    """Its detail at every level cannot be run; measured down to the county it can, without margins and a plan."""
    path = write_persons(tmp_path, preset)
    if not margins:
        path.write_text(path.read_text() + "[publish]\nmargins = false\n")
    plan_release = feature_module("features.plan.release_plan").plan_release
    began = time.process_time()
    with pytest.raises(InputError, match=says):
        plan_release(path, 1)
    assert time.process_time() - began < SECONDS
    if preset == "dhc-persons-county" and not margins:
        check_possible(*_own(path))


def test_a_solver_that_needs_matrices_of_all_cells_is_refused(tmp_path: Path) -> None:
    path = write_persons(tmp_path, "dhc-persons-county")
    path.write_text(path.read_text() + '[publish]\nmargins = false\n[postprocess]\nsolver = "cvxpy"\n')
    with pytest.raises(InputError, match=r"postprocess.solver is 'cvxpy'; what fits"):
        check_possible(*_own(path))
