"""Thousands of spoilt specs, records, questions, answers, tables and summary files: refused by name, or right."""

from __future__ import annotations

import csv
import random
import shutil
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from oracles.bad_inputs import KINDS, World, changed_rows, csv_bytes
from oracles.damage import damaged, restored
from oracles.how_many import SIZES
from oracles.summary_files import made_up_state, write_2010, write_2020
from oracles.watched import ends_well, for_each_number, spinewise, watched
from releases.small import write_town


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs(kind: str, sizes: dict[str, int], world: World) -> None:
    """No traceback, no hang, no silent acceptance, no status that does not fit."""
    ends: Counter[str] = Counter()

    def each(number: int) -> None:
        with watched():
            ends[KINDS[kind](random.Random(f"bad {kind} {number}"), world)] += 1

    for_each_number(kind, sizes, each)
    assert ends["refused"] > sizes[kind] / 10
    assert kind == "answer" or ends["accepted"]


def imported(kind: str, source: Path, out: Path, *options: str) -> None:
    """No folder is left of what is refused, which is named."""
    status, printed = spinewise("import", kind, source, "--out", out, *options)
    ends_well(status, printed)
    assert status in (0, 2), printed
    assert not status or any(name in " ".join(printed.split()) for name in (source.name, "release.toml", "nothing.csv"))
    assert out.exists() == (status == 0)
    assert not list(out.parent.glob(".out*"))
    shutil.rmtree(out, ignore_errors=True)


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_to_import(sizes: dict[str, int], tmp_path: Path) -> None:
    """CSV and Parquet files spoilt by cell and byte, some with options that do not fit."""
    write_town(tmp_path / "town")
    source = tmp_path / "persons.csv"
    source.write_bytes((tmp_path / "town" / "persons.csv").read_bytes()[:3000].rsplit(b"\n", 1)[0] + b"\n")
    pq.write_table(pa_csv.read_csv(source), source.with_suffix(".parquet"))
    with source.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    options = (
        "", "", "--geography block", "--geography block,age", "--geography nothing", "--key age", "--key nothing",
        "--count sex", "--count nothing", "--query select", "--name a/b", f"--households {source}",
        "--areas nothing.csv",
    )  # fmt: skip

    def each(number: int) -> None:
        rng = random.Random(f"table {number}")
        path = rng.choice((source, source, source.with_suffix(".parquet")))
        with restored([path]):
            by_cell = path == source and rng.random() < 0.5
            path.write_bytes(csv_bytes(rng, changed_rows(rng, rows)) if by_cell else damaged(rng, path))
            imported("table", path, tmp_path / "out", *rng.choice(options).split())

    for_each_number("table", sizes, each)


@pytest.mark.parametrize("sizes", SIZES)
def test_summary_files(sizes: dict[str, int], tmp_path: Path) -> None:
    """Headers and segments of both layouts, in folders and zips, spoilt by field and byte."""
    state = made_up_state(1, 5)
    folders = [write_2020(state, tmp_path / "a.pl"), write_2010(state, tmp_path / "b.pl")]
    archive = tmp_path / "c.pl.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in sorted(folders[0].iterdir()):
            zipped.write(file, file.name)
    files = [archive, *(file for folder in folders for file in sorted(folder.iterdir()))]

    def each(number: int) -> None:
        rng = random.Random(f"summary {number}")
        path = rng.choice(files)
        with restored([path]):
            if path != archive and rng.random() < 0.5:
                separator = "|" if path.parent == folders[0] else ","
                rows = [line.split(separator) for line in path.read_text("latin-1").splitlines()]
                spoilt = "\n".join(separator.join(row) for row in changed_rows(rng, rows))
                path.write_bytes(f"{spoilt}\n".encode("utf-8", "replace"))
            else:
                path.write_bytes(damaged(rng, path))
            imported("pl94171", path if path == archive else path.parent, tmp_path / "out")

    for_each_number("summary", sizes, each)
