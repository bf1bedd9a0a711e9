"""Exported files say what the release says; measurements made elsewhere give the same release again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matrix.shown import SHOWN, export_has_the_numbers, files_of_tables
from releases.command import feature_module, needs, printed
from releases.small import public_bytes

from auditor.check.release import check_release
from features.exports.command import Layout
from features.exports.release import LAYOUTS, export_release
from pipeline.confidential.custody import check_made_here
from pipeline.errors import InputError
from pipeline.execution.progress import Silent
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.release.status import MADE_ELSEWHERE
from pipeline.runs.from_measurements import estimate_release
from pipeline.runs.verify import verify_release


@pytest.fixture(scope="module")
def nmf(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town's measurements in the layout of 2020."""
    return export(town, "nmf", tmp_path_factory.mktemp("nmf") / "out")


def export(town: Path, layout: str, out: Path, *, tables: Sequence[str] = (), levels: Sequence[str] = ()) -> Path:
    return export_release(open_finished(town, check_hashes=True), layout, out, tables=tables, levels=levels)


@pytest.mark.parametrize("layout", SHOWN)
def test_tables_are_the_releases(layout: str, surveyed: Path, tmp_path: Path) -> None:
    """Of persons, households and both; the average number of persons is for layouts of columns alone."""
    files = len(files_of_tables(surveyed))
    out = tmp_path / "out"
    done = printed("export", surveyed, "--format", layout, "--out", out)
    assert done == f"{out}\n"
    assert export_has_the_numbers(layout, out, surveyed) == (files - 3 if layout == "sdmx" else files)
    assert set(Layout) == set(LAYOUTS)


@needs("report")
@pytest.mark.slow
def test_measurements_made_elsewhere_give_the_same_release(
    town: Path, town_spec: Path, nmf: Path, tmp_path: Path
) -> None:
    """Rows in any order, the Bureau's names, files in a folder of parts: all but the manifest is the same."""
    folder = tmp_path / "nmf"
    shutil.copytree(nmf, folder)
    rows = pq.read_table(folder / "block.parquet")
    rows = rows.take(pa.array(np.random.default_rng(0).permutation(rows.num_rows)))
    names = [
        f"{name} _dpq" if name == "total" else name.replace("grown * sex", "sex*grown_dpq")
        for name in rows.column("query_name").to_pylist()
    ]
    rows = rows.set_column(1, "query_name", pa.array(names))
    (folder / "block.parquet").unlink()
    (folder / "Block").mkdir()
    half = rows.num_rows // 2
    for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
        pq.write_table(part, folder / "Block" / f"part-{number}.parquet")
    root = estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())
    found, wanted = public_bytes(root), public_bytes(town)
    assert found.keys() == wanted.keys()
    # These tell who drew the noise.
    differing = {name for name in found if found[name] != wanted[name]}
    assert differing == {"public/datapackage.json", "public/manifest.json", "public/report.html"}
    directory = RunDirectory(root)
    manifest = read_manifest(directory.manifest)
    assert manifest.status == MADE_ELSEWHERE
    assert manifest.input_fingerprints == {}
    assert all("was not drawn by this program" in statement.words for statement in manifest.privacy)
    assert not directory.key.exists()
    assert verify_release(directory, 1, Silent()) == []
    assert check_release(root) == []
    with pytest.raises(InputError, match="no key and no record to repeat it from"):
        check_made_here(directory)
    with pytest.raises(InputError, match="how they were drawn cannot be audited"):
        feature_module("features.audit.finished").open_audited(directory.root)
    with pytest.raises(InputError, match="is not empty; name another folder"):
        estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())


def changed(change: Callable[[pd.DataFrame], pd.DataFrame | None], nmf: Path, folder: Path) -> Path:
    shutil.copytree(nmf, folder)
    rows = pd.read_parquet(folder / "tract.parquet")
    pd.DataFrame(rows if (new := change(rows)) is None else new).to_parquet(folder / "tract.parquet")
    return folder


def _doubled(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([rows, rows.iloc[[3]]])


FAULTS: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame | None], str]] = {
    "variance": (
        lambda rows: rows.assign(variance=rows["variance"] * 1.01),
        r"variance of 'total' at level 'tract' in A01",
    ),
    "missing": (lambda rows: rows.iloc[1:], r"noisy answers of 'total' are missing for 1 of 6 geounits: 'A01'"),
    "twice": (_doubled, r"are present several times for 1 of 6"),
    "query": (lambda rows: rows.assign(query_name="sex"), r"row 1: a noisy answer of 'sex' at level 'tract'"),
    "name": (lambda rows: rows.assign(query_name="income"), r"query_name 'income': .*is not an attribute or recode"),
    "geocode": (lambda rows: rows.assign(geocode="X99"), r"geocodes that are not measured there by the spec: 'X99'"),
    "negative": (lambda rows: rows.assign(variance=-1.0), r"row 1: variance: found -1.0; a number from 0 is needed"),
    "column": (lambda rows: rows.drop(columns="value"), r"no column value; noisy measurement files have"),
    "shape": (
        lambda rows: rows.assign(query_shape=[shape[::-1] for shape in rows["query_shape"]]),
        r"query_shape of 'grown \* sex' at level 'tract': found \[1, 2, 2\]",
    ),
    "empty": (
        lambda rows: rows.assign(value=rows["value"].map(lambda value: [None] * len(value))),
        r"value of 'total' at level 'tract': a number is missing or beyond",
    ),
    "huge": (
        lambda rows: rows.assign(value=rows["value"].map(lambda value: [2**60] * len(value))),
        r"a number is missing or beyond 1,125,899,906,842,624",
    ),
    "text": (lambda rows: rows.assign(variance="x"), r"cannot be read as noisy measurements"),
    "length": (
        lambda rows: rows.assign(value=[value[:-1] for value in rows["value"]]),
        r"row 1: value of 'total' at level 'tract': found 0 numbers; 1 are needed",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_measurements_that_are_not_the_specs_are_told_with_their_place(
    fault: str, town_spec: Path, nmf: Path, tmp_path: Path
) -> None:
    change, message = FAULTS[fault]
    folder = changed(change, nmf, tmp_path / "nmf")
    with pytest.raises(InputError, match=message):
        estimate_release(folder, town_spec, tmp_path / "out", 1, Silent())
    assert not (tmp_path / "out" / "town").exists()


def test_missing_files_and_levels_are_told_at_once(town: Path, town_spec: Path, nmf: Path, tmp_path: Path) -> None:
    shutil.copytree(nmf, tmp_path / "nmf")
    (tmp_path / "nmf" / "tract.parquet").unlink()
    with pytest.raises(InputError, match=r"no file tract\.parquet, nor a folder tract"):
        estimate_release(tmp_path / "nmf", town_spec, tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match="no such folder; a folder of noisy measurement files"):
        estimate_release(tmp_path / "none", town_spec, tmp_path / "out", 1, Silent())
    with pytest.raises(InputError, match="--level village: no such level; the levels are county, tract, block"):
        export(town, "csv", tmp_path / "x", levels=["village"])
    with pytest.raises(InputError, match="--table x: no such table; the tables are total, sex, detail"):
        export(town, "csv", tmp_path / "x", tables=["x"])
    with pytest.raises(InputError, match="--format nmf: --table and --level choose among tables of csv"):
        export(town, "nmf", tmp_path / "x", tables=["total"])
    with pytest.raises(InputError, match="has no attribute votingage"):
        export(town, "pl94171", tmp_path / "x")
    assert list(tmp_path.iterdir()) == [tmp_path / "nmf"]
    rows = pq.read_table(nmf / "tract.parquet")
    pq.write_table(rows.append_column("variance", rows["variance"]), tmp_path / "nmf" / "tract.parquet")
    with pytest.raises(InputError, match=r"tract\.parquet: several columns are named variance"):
        estimate_release(tmp_path / "nmf", town_spec, tmp_path / "out", 1, Silent())
    assert not (tmp_path / "out" / "town").exists()
