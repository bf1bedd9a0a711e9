"""The first number of the report has its 90 % interval beside it, that of the tables; an exact one has none."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.small import QUICK, run, write_town

from features.imports.tables.importer import import_table
from features.imports.tables.statement import Statement
from pipeline.reading.release import Release, open_release, reader_of


def tiles(root: Path) -> list[tuple[int, str]]:
    """The number and the text of each tile."""
    page = (root / "public" / "report.html").read_text("utf-8")
    (part,) = re.findall(r'<ul class="tiles">(.*?)</ul>', page, re.DOTALL)
    found = re.findall(r"<li><b>([0-9,]+)</b><span>(.*?)</span>", part, re.DOTALL)
    return [(int(number.replace(",", "")), html.unescape(text)) for number, text in found]


def interval(text: str) -> tuple[int, int]:
    """The ends that a tile says."""
    (ends,) = re.findall(r"; 90 % interval: ([0-9,]+) to ([0-9,]+)$", text)
    return int(ends[0].replace(",", "")), int(ends[1].replace(",", ""))


def imported(folder: Path, *changes: tuple[str, str]) -> Release:
    """A release of a table of ten areas, as the import writes its spec."""
    rng = np.random.default_rng(3)
    rows = [(f"a{i}", sex, int(rng.integers(0, 900))) for i in range(10) for sex in "fm"]
    pd.DataFrame(rows, columns=["area", "sex", "count"]).to_csv(folder / "table.csv", index=False)
    stated = Statement(
        str(folder / "table.csv"), geography="area", count="count", attributes="sex",
        expect_records=sum(row[-1] for row in rows), expect_areas=10,
    )  # fmt: skip
    spec = import_table(stated, folder / "in").spec
    text = (
        spec.read_text().replace("# accept = ", "accept = ").replace('rho = "1"', 'rho = "1"\nkey = "insecure-test:1"')
    )
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    spec.write_text(text + "\n[publish]\nreplicates = 3\n")
    return open_release(run(spec, folder / "out"))


@pytest.mark.parametrize("change", [(), (('total = "total"\nsex = "sex"', 'sex = "sex"'),)])
def test_the_interval_is_that_of_the_number_published_or_not(
    change: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    """One area at the top: of the table of totals, and without one of a query."""
    release = imported(tmp_path, *change)
    row = release.query("total").at("all").iloc[0]
    number, text = tiles(release.directory)[0]
    assert number == row["total"]
    assert interval(text) == (row["total:low90"], row["total:high90"])
    assert row["total:low90"] < number


def test_of_several_areas_at_the_top_and_of_exact_numbers(tmp_path: Path) -> None:
    """People are exact in each county; housing units are not, and their sum over counties has the interval of a sum."""
    noisy = ('invariants = { block = ["total"] }\n', "invariants = {}\n")
    release = open_release(run(write_town(tmp_path / "in", *QUICK, noisy), tmp_path / "out"))
    (_, people), (units, text), *_ = tiles(release.directory)
    assert "interval" not in people
    companion = release.companion("units")
    everybody = companion.query("total").query.groups
    (half,) = reader_of(companion).half_widths.of_area(
        np.ones(reader_of(companion).spine.n_leaves, dtype=bool), everybody
    )
    assert interval(text) == (max(0, units - half), units + half)
    assert half > 0
