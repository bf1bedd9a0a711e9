"""Files as statistical offices publish them: each is read right, or stops with a sentence that names the cause.

None may be read as other people, other areas or other cells, and no sentence may lead into a dead end.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from oracles import office_forms_europe, office_forms_workbooks, office_forms_world
from oracles.office_forms import Form, Truth, form
from oracles.office_verdicts import difference, named
from typer.testing import CliRunner

from flows.cli import app
from geography.errors import SpinewiseError

MODULES = (office_forms_europe, office_forms_workbooks, office_forms_world)
SUGGESTED_QUERY = re.compile(r'--query "(.*)", or give')


@cache
def _form(name: str) -> Form:
    return form.made[name]()


def _spinewise(*words: object) -> tuple[int, str]:
    """Exit status and what is printed, in this process; raises what is no error of a user."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(done.exception, SpinewiseError):
        return done.exception.exit_status, str(done.exception)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def _import(one: Form, folder: Path, *options: str) -> tuple[int, str, Path]:
    """Exit status, what was printed, and the spec that was written if it is 0."""
    (folder / one.file).write_bytes(one.content)
    out = folder / "out"
    status, said = _spinewise("import", "table", folder / one.file, "--out", out, *one.options, *options)
    return status, said, out / "release.toml"


def _judge(done: tuple[int, str, Path], right: Truth | None, cause: tuple[str, ...], reading: Truth | None) -> None:
    """Assert that it is right; or, if it need not be read, that it is right or has stopped with its cause."""
    status, said, spec = done
    reading = right or reading
    if status == 0 and reading:
        assert not difference(spec, reading), said
        return
    assert right is None, said
    assert status == 2, said
    assert named(said, cause), f"none of {cause} is named: {said}"


@pytest.mark.parametrize("name", form.made)
def test_a_form_is_read_right_or_stops_with_its_cause(name: str, tmp_path: Path) -> None:
    one = _form(name)
    _judge(_import(one, tmp_path), one.truth, one.cause, one.everybody)


@pytest.mark.parametrize("name", [name for name in form.made if _form(name).then])
def test_the_answer_to_the_sentence_leads_on(name: str, tmp_path: Path) -> None:
    one = _form(name)
    _judge(_import(one, tmp_path, *one.then), one.after, one.then_cause, one.everybody)


@pytest.mark.parametrize("name", [name for name in form.made if not _form(name).truth])
def test_a_query_that_is_suggested_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence's own words, in the folder of the file; what is then found in the table is another matter."""
    one = _form(name)
    monkeypatch.chdir(tmp_path)
    for options in {(), one.then}:
        for query in SUGGESTED_QUERY.findall(_import(one, tmp_path, *options)[1]):
            _, said = _spinewise("import", "table", "duckdb:", "--query", query, "--out", tmp_path / "queried")
            assert not said.startswith("DuckDB:"), said


@pytest.mark.parametrize("name", [name for name in form.made if _form(name).truth or _form(name).everybody])
def test_the_right_number_of_people_is_never_another_table(name: str, tmp_path: Path) -> None:
    """With `--people` as it is published: right, or stopped."""
    one = _form(name)
    right = one.truth or one.everybody
    assert right
    status, said, spec = _import(one, tmp_path, "--people", str(int(right.counts.sum())))
    assert status in (0, 2), said
    if status == 0:
        assert not difference(spec, right), said


@pytest.mark.parametrize("wrong", ["area", "cell", "word", "person"])
def test_a_wrong_reading_is_seen(wrong: str, tmp_path: Path) -> None:
    """The same import held against a truth with one thing other than in the file."""
    one = _form("eurostat_bulk_tsv")
    right = one.truth
    assert right
    status, said, spec = _import(one, tmp_path)
    assert status == 0, said
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
    made = [_form(name) for name in form.made]
    assert len(made) >= 50
    assert {make.__module__ for make in form.made.values()} == {module.__name__ for module in MODULES}
    assert all(bool(one.truth) != bool(one.cause) for one in made)
    assert min(sum(one.truth is None for one in made), sum(one.truth is not None for one in made)) >= 20
