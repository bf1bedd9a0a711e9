"""Thousands of spoilt specs, tables and summary files: each ends with status 2 and the name of the place, or is right.

What turns out to be a valid input all the same is looked at too, and not counted. A traceback fails the test.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from oracles.how_many import SIZES, seed_of
from oracles.malformed import changed_bytes, changed_cells, spec_texts
from oracles.summary_files import made_up_state, write_2010, write_2020
from releases.small import request_of, write_town

from features.imports import command as imports
from flows.commands.validate import validate
from geography.errors import SpinewiseError
from pipeline.errors import RefusedError
from pipeline.execution.options import Output
from pipeline.execution.progress import Silent
from pipeline.runs.run import run_release


def for_each(
    strategy: st.SearchStrategy[object], kind: str, sizes: dict[str, int], check: Callable[[object], bool]
) -> None:
    """Check drawn inputs until so many of them were malformed; `check` says whether one was."""

    @seed(seed_of(sizes))
    @settings(
        max_examples=sizes[kind],
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(drawn: object) -> None:
        assume(check(drawn))

    each()


def outcome(command: Callable[[], object]) -> tuple[int, str]:
    """The exit status of a command's function, and all that it tells; any other exception goes through."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            command()
        except typer.Exit as end:
            return end.exit_code, told.getvalue()
        except SpinewiseError as error:
            return error.exit_status, f"{told.getvalue()}{error}"
    return 0, told.getvalue()


def _context() -> typer.Context:
    """Of a command that says as much as by default."""
    return typer.Context(typer.main.get_command(imports.app), obj=Output())


def is_malformed(status: int, told: str, *places: str) -> bool:
    """True for status 2, where the message is one of ours and names a place; fails for any other end but 0."""
    assert status in (0, 2), told
    if status == 0:
        return False
    assert told.strip()
    assert any(place in told for place in places), told
    assert "Traceback" not in told
    return True


def refuses_to_run(spec: Path, out: Path) -> None:
    """No release comes of it."""
    with contextlib.suppress(SpinewiseError, RefusedError):
        run_release(request_of(spec, out), Silent())
        raise AssertionError("a release was made of malformed input")
    assert not list(out.rglob("manifest.json"))
    shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize("sizes", SIZES)
def test_specs(sizes: dict[str, int], tmp_path: Path) -> None:
    """Keys replaced, removed, renamed and added, and characters changed, in a spec that has everything."""
    good = write_town(tmp_path).read_text()
    spec = tmp_path / "spoilt.toml"
    numbers = itertools.count()

    def check(text: object) -> bool:
        spec.write_bytes(str(text).encode("utf-8", "surrogatepass"))
        status, told = outcome(lambda: validate(tmp_path, spec, json=False))
        malformed = is_malformed(status, told, str(spec), ".csv")
        if malformed and next(numbers) % 20 == 0:
            refuses_to_run(spec, tmp_path / "out")
        return malformed

    for_each(spec_texts(good), "spec", sizes, check)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("kind", "files"), [("records", ("persons.csv", "units.csv")), ("areas", ("blocks.csv", "facilities.csv"))]
)
def test_tables_of_a_release(kind: str, files: tuple[str, ...], sizes: dict[str, int], tmp_path: Path) -> None:
    """Records, and the public files beside them, spoilt by cell and by byte."""
    spec = write_town(tmp_path)
    good = {name: (tmp_path / name).read_bytes() for name in files}
    numbers = itertools.count()

    def check(drawn: Any) -> bool:
        name, content = drawn
        (tmp_path / name).write_bytes(content)
        try:
            status, told = outcome(lambda: validate(tmp_path, spec, json=False))
            malformed = is_malformed(status, told, *files, "constraints: ")
            if malformed and next(numbers) % 20 == 0:
                refuses_to_run(spec, tmp_path / "out")
        finally:
            (tmp_path / name).write_bytes(good[name])
        return malformed

    spoilt = st.one_of(
        *(st.tuples(st.just(name), changed_cells(text, ",") | changed_bytes(text)) for name, text in good.items())
    )
    for_each(spoilt, kind, sizes, check)


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_to_import(sizes: dict[str, int], tmp_path: Path) -> None:
    """CSV and Parquet files spoilt by cell and byte, some with options that do not fit: no folder is left."""
    write_town(tmp_path / "town")
    csv = (tmp_path / "town" / "persons.csv").read_bytes()[:3000].rsplit(b"\n", 1)[0] + b"\n"
    rows = [line.split(",") for line in csv.decode().splitlines()]
    buffer = io.BytesIO()
    pq.write_table(pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))), buffer)
    out = tmp_path / "out"
    options: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [{}, {}, {"geography": "block"}, {"geography": "block,age"}, {"geography": "nothing"}, {"key": "age"},
         {"key": "nothing"}, {"count": "sex"}, {"count": "nothing"}, {"query": "select 1"}, {"name": "a/b"},
         {"households": "{source}"}, {"areas": Path("nothing.csv")}]
    )  # fmt: skip

    def check(drawn: Any) -> bool:
        (name, content), more = drawn
        source = tmp_path / name
        source.write_bytes(content)
        given: dict[str, Any] = {k: str(source) if v == "{source}" else v for k, v in more.items()}
        status, told = outcome(lambda: imports.table(_context(), str(source), out, **given))
        malformed = is_malformed(status, told, name, "release.toml", "nothing.csv")
        assert out.exists() != malformed
        assert not list(tmp_path.glob(".out*"))
        shutil.rmtree(out, ignore_errors=True)
        return malformed

    spoilt = st.one_of(
        st.tuples(st.just("persons.csv"), changed_cells(csv, ",") | changed_bytes(csv)),
        st.tuples(st.just("persons.parquet"), changed_bytes(buffer.getvalue())),
    )
    for_each(st.tuples(spoilt, options), "table", sizes, check)


@pytest.mark.parametrize("sizes", SIZES)
def test_summary_files(sizes: dict[str, int], tmp_path: Path) -> None:
    """Headers and segments of both layouts, in folders and zips, spoilt by field and byte: no folder is left."""
    state = made_up_state(1, 5)
    folders = [write_2020(state, tmp_path / "a.pl"), write_2010(state, tmp_path / "b.pl")]
    archive = tmp_path / "c.pl.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in sorted(folders[0].iterdir()):
            zipped.write(file, file.name)
    out = tmp_path / "out"
    good = {file: file.read_bytes() for folder in folders for file in sorted(folder.iterdir())}
    good[archive] = archive.read_bytes()

    def check(drawn: Any) -> bool:
        file, content = drawn
        file.write_bytes(content)
        source = file if file == archive else file.parent
        try:
            status, told = outcome(lambda: imports.pl94171(_context(), source, out))
        finally:
            file.write_bytes(good[file])
        malformed = is_malformed(status, told, str(source))
        assert out.exists() != malformed
        assert not list(tmp_path.glob(".out*"))
        shutil.rmtree(out, ignore_errors=True)
        return malformed

    def spoilt_file(file: Path, content: bytes) -> st.SearchStrategy[object]:
        separator = "|" if file.parent == folders[0] else ","
        by_byte = changed_bytes(content)
        return st.tuples(st.just(file), by_byte if file == archive else changed_cells(content, separator) | by_byte)

    spoilt = st.one_of(*(spoilt_file(file, content) for file, content in good.items()))
    for_each(spoilt, "summary", sizes, check)
