"""Files as statistical offices publish them: as they are stated each is read right, or stops and names the cause."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from oracles import office_forms_europe, office_forms_workbooks, office_forms_world
from oracles.office_forms import N_AREAS, PEOPLE, Form, form
from oracles.office_verdicts import difference

from features.imports.tables.description import describe_table
from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.errors import SpinewiseError

MODULES = (office_forms_europe, office_forms_workbooks, office_forms_world)
READ = [name for name, make in form.made.items() if make().truth]


@cache
def _form(name: str) -> Form:
    return form.made[name]()


def _import(one: Form, folder: Path, *, off: int = 0) -> Path:
    """The spec that is written; `off` is by how much the stated number of people is wrong."""
    path = folder / one.file
    path.write_bytes(one.content)
    people = int(PEOPLE.sum()) if one.truth is None else int(one.truth.counts.sum())
    n_areas = N_AREAS if one.truth is None else len(one.truth.codes)
    statement = Statement(str(path), **one.stated, expect_records=people + off, expect_areas=n_areas)
    return import_table(statement, folder / "out").spec


@pytest.mark.parametrize("name", READ)
def test_a_form_is_read_right(name: str, tmp_path: Path) -> None:
    one = _form(name)
    spec = _import(one, tmp_path)
    assert one.truth is not None
    assert not difference(spec, one.truth)


@pytest.mark.parametrize("name", [name for name in form.made if name not in READ])
def test_a_form_stops_with_its_cause(name: str, tmp_path: Path) -> None:
    one = _form(name)
    with pytest.raises(SpinewiseError, match=one.stops) as stop:
        _import(one, tmp_path)
    assert re.search(re.escape(one.file) + "|--", str(stop.value))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", READ[::5])
@pytest.mark.parametrize("off", [1, -1])
def test_one_person_more_or_fewer_stops(name: str, off: int, tmp_path: Path) -> None:
    with pytest.raises(SpinewiseError, match=f"1 {'fewer' if off > 0 else 'more'} than --expect-records"):
        _import(_form(name), tmp_path, off=off)


@pytest.mark.parametrize("wrong", ["area", "cell", "word", "person"])
def test_a_wrong_reading_is_seen(wrong: str, tmp_path: Path) -> None:
    """The same import held against a truth with one thing other than in the file."""
    one = _form("eurostat_sdmx_csv")
    right = one.truth
    assert right
    spec = _import(one, tmp_path)
    assert not difference(spec, right)
    counts, sexes = right.counts.copy(), right.axes[0]
    if wrong == "area":
        counts[[0, 1]] = counts[[1, 0]]
    elif wrong == "cell":
        counts[0, 0, 0], counts[0, 1, 1] = counts[0, 1, 1], counts[0, 0, 0]
    elif wrong == "word":
        sexes = sexes[::-1]
    else:
        counts[3, 1, 2] += 1
    assert difference(spec, replace(right, counts=counts, axes=(sexes, right.axes[1])))


def test_there_are_many_forms_of_both_outcomes() -> None:
    assert len(form.made) >= 120
    assert {make.__module__ for make in form.made.values()} == {module.__name__ for module in MODULES}
    assert all(bool(make().truth) != bool(make().stops) for make in form.made.values())
    assert min(len(READ), len(form.made) - len(READ)) >= 20


@pytest.mark.parametrize("name", form.made)
def test_every_form_is_described_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    """With a command that states a reading; a format that is not read stops, and an encoding that is to be stated."""
    one = _form(name)
    path = tmp_path / one.file
    path.write_bytes(one.content)
    if name in ("ine_spain_px", "estat_shift_jis"):
        with pytest.raises(SpinewiseError, match=re.escape(str(path))):
            describe_table(Statement(str(path)))
    else:
        command = describe_table(Statement(str(path)))[-1]
        assert command.startswith("spinewise import table ")
        assert "--expect-records N --expect-areas M" in command
    assert list(tmp_path.iterdir()) == [path]
