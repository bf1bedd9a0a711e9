"""What the report says in words: its first number with the interval of the tables, and where noise is large."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import QUICK, run, write_town

from pipeline.reading.release import Release, open_release, reader_of

SPEC = """
name = "words"
privacy = {{ rho = "{rho}", key = "insecure-test:1" }}
geography = {{ file = "people.csv", column = "block", levels = {{ county = 1, block = 3 }} }}
schema.attributes = {{ group = ["a", "b"] }}
input = {{ file = "people.csv", form = "wide", geocode = "block", cells = [ {{ counts = "{{group}}" }} ] }}
strategy = {{ queries = {{ total = "1/2", group = "1/2" }}, levels = {{ county = "1/2", block = "1/2" }} }}
tables = {{ {tables} }}
publish = {{ replicates = 4, microdata = false }}
postprocess = {{ solver = "batched" }}
"""
LARGE = re.compile(r"at level (\w+): noise is large beside the numbers, typically ± (\d+) where")


def released(folder: Path, rho: str, tables: str, counties: str) -> Release:
    """Blocks of 600 on average, 300 in each group."""
    folder.mkdir(exist_ok=True)
    blocks = [f"{county}{number:02d}" for county in counties for number in range(12)]
    counts = np.random.default_rng(2).poisson(300, (len(blocks), 2))
    pd.DataFrame(counts, columns=["a", "b"]).assign(block=blocks).to_csv(folder / "people.csv", index=False)
    (folder / "release.toml").write_text(SPEC.format(rho=rho, tables=tables), encoding="utf-8")
    return open_release(run(folder / "release.toml", folder / "out"))


def tiles(release: Release) -> list[tuple[int, str]]:
    """The number and the text of each tile."""
    (part,) = re.findall(r'<ul class="tiles">(.*?)</ul>', release.report.read_text("utf-8"), re.DOTALL)
    found = re.findall(r"<li><b>([0-9,]+)</b><span>(.*?)</span>", part, re.DOTALL)
    return [(int(number.replace(",", "")), html.unescape(text)) for number, text in found]


def interval(text: str) -> tuple[int, int]:
    """The ends that a tile says."""
    (ends,) = re.findall(r"; 90 % interval: ([0-9,]+) to ([0-9,]+)$", text)
    return int(ends[0].replace(",", "")), int(ends[1].replace(",", ""))


@pytest.mark.parametrize("tables", ['total = "total", group = "group"', 'group = "group"'])
def test_the_interval_is_that_of_the_number_published_or_not(tables: str, tmp_path: Path) -> None:
    """One area at the top: of the table of totals, and without one of a query."""
    release = released(tmp_path, "1", tables, "A")
    row = release.query("total").at("county").iloc[0]
    number, text = tiles(release)[0]
    assert number == row["total"]
    assert interval(text) == (row["total:low90"], row["total:high90"])
    assert row["total:low90"] < number


def test_of_several_areas_at_the_top_and_of_exact_numbers(tmp_path: Path) -> None:
    """People are exact in each county; housing units are not, and their sum over counties has the interval of a sum."""
    noisy = ('invariants = { block = ["total"] }\n', "invariants = {}\n")
    release = open_release(run(write_town(tmp_path / "in", *QUICK, noisy), tmp_path / "out"))
    (_, people), (units, text), *_ = tiles(release)
    assert "interval" not in people
    companion = reader_of(release.companion("units"))
    everywhere = np.ones(companion.spine.n_leaves, dtype=bool)
    (half,) = companion.half_widths.of_area(everywhere, release.companion("units").query("total").query.groups)
    assert interval(text) == (max(0, units - half), units + half)
    assert half > 0


def test_the_page_names_tables_whose_noise_is_large(town: Path, tmp_path: Path) -> None:
    """A standard deviation of 283 under rho 1/20000, beside 300 in a group."""
    release = released(tmp_path, "1/20000", 'group = "group"', "AB")
    ((level, half),) = LARGE.findall(release.report.read_text("utf-8"))
    assert (level, 100 <= int(half) <= 600) == ("block", True)
    assert LARGE.findall((town / "public" / "report.html").read_text("utf-8")) == []
