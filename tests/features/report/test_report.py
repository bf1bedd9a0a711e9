"""The report without a browser: it says what public files say, margins, memory; its twin stays restricted."""

from __future__ import annotations

import html
import math
import re
import stat
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matrix.shown import content_of, numbers_of, page_shows_the_tables
from releases.drawn import drawn_table, parts_of
from releases.pages import marked_texts, outside_of_signs, report_in, visible
from releases.small import QUICK, run, write_town

from features.report.moments import Reported
from features.report.table_numbers import MarginSummary
from geography.spine import Spine
from pipeline.cost import memory
from pipeline.cost.memory import memory_of
from pipeline.inputs.geography import read_spine
from pipeline.model.texts.catalogue import Numerals
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.area_sizes import TENFOLD
from pipeline.release.layout import RunDirectory
from pipeline.release.reliability import UNKNOWN, classes_of, tenths
from pipeline.spec.release_spec import ReleaseSpec, load_spec


def test_the_page_holds_every_number_and_says_which_are_exact_and_which_unknown(town: Path) -> None:
    assert page_shows_the_tables(town) == 3 + 2 + 3 + 3 + 3
    page, release = RunDirectory(town).report.read_text("utf-8"), open_release(town)
    certain = 0
    for table in content_of(page)["tables"]:
        for level, where in table["levels"].items():
            universe = release.companion(table["universe"]) if table["universe"] else release
            exact = universe.exact_table(table["name"], level).to_numpy()
            stored = universe.table(table["name"], level)
            unknown = stored[[f"{label}:low90" for label in table["labels"]]].isna().to_numpy()
            below = numbers_of(page, where["numbers"]).reshape(3, -1, len(stored))[1].T
            assert np.array_equal(below == 0, exact)
            assert np.array_equal(below == 1, unknown & ~exact)
            certain += exact.sum()
    assert certain > 20


def test_the_restricted_twin_is_closed_and_is_not_public(town: Path) -> None:
    directory = RunDirectory(town)
    assert stat.S_IMODE(directory.accuracy_page.stat().st_mode) == 0o600
    page = directory.accuracy_page.read_text("utf-8")
    stored = pd.read_parquet(directory.main.table("total", "block")).set_index("geocode")["total"]
    truth = pd.read_parquet(directory.main.true_histogram("block")).groupby("geocode", observed=True)["count"].sum()
    error = (stored - truth.reindex(stored.index).fillna(0)).abs()
    rows = re.findall(r'<tr><th scope="row">total</th><td class="text">block</td>(.*)', page)
    cells = re.findall(r"<td>([^<]*)</td>", rows[0])
    assert cells[:2] == [str(len(stored)), f"{error.mean():.2f}"]
    assert cells[7] == str(int(error.max()))


def tiles(release: Release) -> list[tuple[int, str]]:
    """The number and the text of each tile."""
    (part,) = re.findall(r'<ul class="tiles">(.*?)</ul>', release.report.read_text("utf-8"), re.DOTALL)
    found = re.findall(r"<li><b>([0-9,]+)</b><span>(.*?)</span>", part, re.DOTALL)
    return [(int(number.replace(",", "")), html.unescape(text)) for number, text in found]


def interval(text: str) -> tuple[int, int]:
    """The ends that a tile says."""
    (ends,) = re.findall(r"; 90 % interval: ([0-9,]+) to ([0-9,]+)$", text)
    return int(ends[0].replace(",", "")), int(ends[1].replace(",", ""))


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


#: Words of the town's spec and its units: names of levels, tables, queries and attributes, and what is in the notes.
DATA = set(
    re.findall(
        r"\w+",
        "county tract block total sex detail detailed grown status units Adults Sexo Condado habitantes edad "
        "Office of Towns counts town example CC BY The town people The first note is too building students dorm "
        "abril de",
    )
)


def test_whatever_the_page_says_is_from_the_catalogue(named_town: Path) -> None:
    """Every text is between signs; what is not is a word of the spec."""
    page = report_in(named_town, "es", marked_texts())
    text = visible(page)
    assert text.count("\u27e6") > 150
    assert outside_of_signs(text) - DATA == set()


def test_scripts_and_pages_write_numbers_alike(browser: Any) -> None:
    page = browser.new_page()
    numbers = [0, 999, 1234, 9999, 12345, 1234567, 12.5, 1234.5]
    written = (
        "([language, numbers]) => numbers.map(one => new Intl.NumberFormat(language, "
        "{ maximumFractionDigits: 1, numberingSystem: 'latn' }).format(one))"
    )
    for language in ("en", "es", "es-MX", "de", "pt-PT", "hi"):
        found = page.evaluate(written, [language, numbers])
        assert found == [Numerals(language).decimal(Decimal(str(one))) for one in numbers], language
    page.close()


@pytest.mark.parametrize("step", [7, 1000])
def test_margins_by_brute_force(step: int) -> None:
    whole = drawn_table(400, 5, seed=2)
    assert whole.margins is not None
    summary = MarginSummary()
    for part in parts_of(whole, step):
        summary.add(part)
    margins = tenths(whole.margins)
    sizes = whole.counts.sum(axis=1)
    for found in [*summary.by_size(), summary.all()]:
        low = 0 if found.size < 0 else TENFOLD[found.size]
        high = math.inf if found.size < 0 or found.size + 1 == len(TENFOLD) else TENFOLD[found.size + 1]
        rows = (sizes >= low) & (sizes < high)
        known = np.sort(margins[rows][margins[rows] != UNKNOWN]) / 10
        assert (found.areas, found.numbers) == (rows.sum(), len(known))
        for quantile, value in ((0.1, found.low), (0.5, found.median), (0.9, found.high)):
            if len(known):
                exact = known[math.ceil(quantile * len(known) - 1e-9) - 1]
                assert value is not None
                assert exact * 0.99 - 1e-9 <= value <= exact + 1e-9
        some = whole.counts[rows] > 0
        classes = np.bincount(classes_of(whole.counts[rows], margins[rows])[some], minlength=3)
        assert found.shares == tuple(classes.tolist())


AGES = [f'"{age}"' for age in range(12)]
ALL = '["county", "tract", "block"]'

OF_AGES = """
name = "ages"
{zeros}
privacy = {{ rho = "2" }}
geography = {{ file = "blocks.csv", column = "block", levels = {{ county = 1, tract = 4, block = 7 }} }}
schema.attributes = {{ age = [{ages}] }}
schema.recodes.halves = {{ attribute = "age", groups = {{ low = [{low}], high = [{high}] }} }}
strategy.queries = {{ total = "1/4", halves = "1/4", detailed = "1/2" }}
strategy.levels = {{ county = "1/3", tract = "1/3", block = "1/3" }}
publish = {{ {publish} }}
[tables]
"""


def stated(
    folder: Path, tables: Mapping[str, str], tracts: int = 4, *, publish: str = "replicates = 4", zeros: str = ""
) -> tuple[ReleaseSpec, Spine]:
    """A spec of ages and halves of them, on tracts of 1, 2, 3 ... blocks; none is like another."""
    folder.mkdir(exist_ok=True)
    codes = [f"1{tract:03d}{block:03d}" for tract in range(tracts) for block in range(tract + 1)]
    (folder / "blocks.csv").write_text("block\n" + "\n".join(codes) + "\n")
    low, high = ", ".join(AGES[:6]), ", ".join(AGES[6:])
    text = OF_AGES.format(ages=", ".join(AGES), low=low, high=high, publish=publish, zeros=zeros)
    lines = [f'{name} = {{ query = "{name}", levels = {levels} }}\n' for name, levels in tables.items()]
    (folder / "spec.toml").write_text(text + "".join(lines))
    spec = load_spec(folder / "spec.toml")
    return spec, read_spine(spec.geography)


def reported(spec: ReleaseSpec, spine: Spine) -> Reported:
    (universe,) = spec.universes()
    return Reported.of(universe, spine, margins=spec.publish.margins)


def test_the_report_is_part_of_the_memory_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside other steps where it takes little, after them where it takes much: then the larger of the two counts.

    Here it takes more memory than all else.
    """
    monkeypatch.setattr("features.report.moments.HELD_BYTES", 1e6)
    spec, spine = stated(tmp_path, {"detailed": ALL}, 12)
    found = reported(spec, spine)
    beside = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_AHEAD", 0)
    after = memory_of(spec, spine, 2)
    monkeypatch.setattr("features.report.moments.MOST_HELD", 0)
    processes = memory.MAIN_MB + memory.ENGINE_MB + 2 * memory.WORKER_MB
    assert after.peak_mb == pytest.approx(processes + found.bytes / 1e6, rel=1e-3)  # and the histograms
    assert memory_of(spec, spine, 2).peak_mb < after.peak_mb < beside.peak_mb < 1.1 * after.peak_mb
