"""The report in a real browser: its numbers are those of the files, names do no harm, everybody can read it."""

from __future__ import annotations

import itertools
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.command import PROJECT, feature_module, needs
from releases.examples import rhode_island
from releases.named import FORMULA, SCRIPT, TURNED
from releases.policy import runs_its_own_scripts_alone
from releases.small import QUICK, request_of, run, write_town
from typer.testing import CliRunner

import features.report.moments
import pipeline.pages.data
from features.registry import part_of
from flows.cli import app
from geography.spine import Level
from pipeline.errors import InputError
from pipeline.execution.job import Job
from pipeline.execution.steps import Notes, Silent, Step
from pipeline.execution.workers import Workers
from pipeline.published import release_at
from pipeline.reading.release import Release, open_release, reader_of
from pipeline.release.layout import RunDirectory
from pipeline.release.run_directory import make_run_folders
from pipeline.release.tables import ReleasedTable, rows_at_once, write_table
from pipeline.runs.open_public import open_listed
from pipeline.runs.run import run_release
from pipeline.runs.verify import verify_release

_SPEC = """
name = "large"
[privacy]
rho = "2"
key = "insecure-test:1"
[geography]
file = "blocks.csv"
column = "block"
levels = {{ county = 2, tract = 5, block = 9 }}
[schema.attributes]
age = [{ages}]
[strategy.queries]
total = "1/2"
age = "1/2"
[strategy.levels]
county = "1/4"
tract = "1/4"
block = "1/2"
[input]
file = "blocks.csv"
form = "microdata"
geocode = "block"
[tables]
total = "total"
age = "age"
"""


def large_report(folder: Path, tracts: int, blocks: int, cells: int) -> Job:
    """The job whose public/ has tables of all levels and their report.

    Args:
        tracts, blocks: tracts of the release, and blocks of each; a hundred tracts are a county.
        cells: answers of the table `age`.
    """
    folder.mkdir(parents=True)
    codes = [f"{t // 100:02d}{t % 1000:03d}{b:04d}" for t in range(tracts) for b in range(blocks)]
    ages = [f"a{age:02d}" for age in range(cells)]
    pd.DataFrame({"block": codes, "age": ages[0]}).to_csv(folder / "blocks.csv", index=False)
    (folder / "spec.toml").write_text(_SPEC.format(ages=", ".join(f'"{age}"' for age in ages)))
    checked = request_of(folder / "spec.toml", folder / "out")
    public = open_listed(checked.spec, checked.universes)
    run = RunDirectory(folder / "out" / "large")
    make_run_folders(run)
    job = Job(run, public.spec, public.universes, public.spine, Workers(1), Silent())
    counts = np.random.default_rng(7).poisson(3, (len(codes), cells)).astype(np.int64)
    for number in range(job.spine.n_levels - 1, -1, -1):
        level = job.spine.levels[number]
        _write(job, level, "age", counts, tuple(ages))
        _write(job, level, "total", counts.sum(axis=1, keepdims=True), ("total",))
        if number:
            counts = np.add.reduceat(counts, job.spine.child_offsets(number - 1)[:-1])
    part_of("report", "written").write_report(job)
    return job


def _write(job: Job, level: Level, name: str, counts: np.ndarray, labels: tuple[str, ...]) -> None:
    """A table with intervals of 1 to 8 persons below and above, but not below 0."""
    lows, highs = np.random.default_rng(len(level)).integers(1, 9, (2, *counts.shape))
    step = rows_at_once(labels, with_margins=True)
    write_table(
        job.run.main.table(name, level.name),
        job.run.staging,
        (
            ReleasedTable(
                name, level.name, name, level.geocodes[at : at + step], labels, counts[at : at + step],
                np.maximum(counts - lows, 0.0)[at : at + step], (counts + highs + 0.0)[at : at + step],
            )
            for at in range(0, len(level), step)
        ),
    )  # fmt: skip


@pytest.fixture
def shown_town(browser: Any, town: Path) -> Iterator[Opened]:
    """The town's report; whatever a test does with it, it must not complain or ask for anything."""
    found = opened(browser, RunDirectory(town).report)
    yield found
    assert found.complaints == []
    assert [url for url in found.requests if not url.startswith("blob:")] == []


def rows(shown: Opened) -> list[list[str]]:
    """The texts of the table of counts, a list a row; without symbols."""
    cells = shown.page.evaluate(
        "[...document.querySelectorAll('#counts-body tr')].map(row => [...row.children].map(cell => cell.textContent))"
    )
    return [[cell.split(" ")[0].replace(",", "") for cell in row] for row in cells]


def test_search_finds_an_area_by_keyboard(shown_town: Opened, town: Path) -> None:
    shown_town.page.focus("#search")
    shown_town.page.keyboard.type("b02")
    shown_town.page.wait_for_selector("#found li[role=option]")
    found = shown_town.page.locator("#found li").all_text_contents()
    assert found[0] == "tract B02"
    assert all(text.startswith("block B02") for text in found[1:])
    shown_town.page.keyboard.press("ArrowDown")
    assert shown_town.page.get_attribute("#search", "aria-activedescendant") == "found-0"
    shown_town.wait("press", "#search", "Enter")
    assert shown_town.page.locator("#area h3").text_content() == "tract B02"
    stored = pd.read_parquet(RunDirectory(town).main.table("total", "tract")).set_index("geocode").loc["B02"]
    cells = shown_town.page.locator("#area tbody td").all_text_contents()
    assert cells[0] == f"{int(stored['total'].item()):,}"
    interval = f"({stored['total:low90']:,.0f}\N{EN DASH}{stored['total:high90']:,.0f})"
    assert open_release(town).query("total").ranks_at("tract").loc[["B02"]].to_numpy().tolist() == [[5, 5, 5]]
    assert cells[1] == f"{interval} rank 5"
    shown_town.wait("click", "text=Show each block in it")
    assert "in tract B02" in shown_town.page.locator("#counts-caption").text_content()
    blocks = pd.read_parquet(RunDirectory(town).main.table("total", "block"))["geocode"]
    assert [row[0] for row in rows(shown_town)] == [code for code in blocks if code.startswith("B02")]
    shown_town.wait("click", "#everywhere")
    assert len(rows(shown_town)) == len(blocks)
    shown_town.page.fill("#search", "nowhere")
    shown_town.page.wait_for_selector("text=No such area in this page.")


#: A view of the report, as its address has it.
_VIEW = "table=sex&level=tract&cell=young%20*%20m&show=share&order=most&area=tract:B02&compare=tract:A01,tract:B02"


def at(browser: Any, file: Path, fragment: str) -> Opened:
    shown = opened(browser, file)
    shown.page.goto(file.resolve().as_uri() + "#" + fragment)
    shown.page.reload()
    shown.page.wait_for_selector("html[data-ready]")
    return shown


def fragment(shown: Opened) -> str:
    return str(shown.page.url.partition("#")[2])


def test_a_view_is_linked_and_gone_back_to(browser: Any, town: Path) -> None:
    file = RunDirectory(town).report
    shown = at(browser, file, _VIEW)
    assert shown.page.locator("#area-title").text_content() == "tract B02"
    assert shown.page.input_value("#measure") == "share"
    assert shown.page.input_value("#sort") == "most"
    assert shown.page.locator("#compare-body tr").count() == 3
    assert shown.page.input_value("#link").partition("#")[2] == _VIEW
    shown.wait("select_option", "#table", "2")  # detail
    shown.wait("click", "#counts-body tr:first-child button")
    assert "table=detail" in fragment(shown)
    shown.wait("go_back")
    shown.wait("go_back")
    assert (fragment(shown), shown.page.input_value("#table")) == (_VIEW, "1")
    assert shown.page.locator("#area-title").text_content() == "tract B02"
    again = opened(browser, file)
    again.page.goto(shown.page.input_value("#link"))
    again.page.wait_for_function("() => document.getElementById('area-title')?.textContent === 'tract B02'")
    assert shown.complaints + again.complaints == []


_WIDTHS = (360, 800, 1280)

_LOOKS = {
    "light": {"color_scheme": "light", "forced_colors": "none"},
    "dark": {"color_scheme": "dark", "forced_colors": "none"},
    "forced": {"color_scheme": "dark", "forced_colors": "active"},
}


def broken(page: Any) -> list[str]:
    """Each broken rule of axe-core, with the elements that break it."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    found = axe.Axe().run(page).response["violations"]
    return [f"{one['id']}: {[node['target'] for node in one['nodes']][:5]}" for one in found]


def everything(shown: Opened) -> None:
    """All that the page can show at once: an area, a comparison, a table with shares, every list open."""
    shown.wait("select_option", "#table", "1")  # sex
    for row in (1, 2):
        shown.wait("click", f"#counts-body tr:nth-child({row}) button")
        shown.wait("click", "[data-key=compare]")
    shown.wait("click", "[data-key=head-1]")
    shown.page.click("#several")
    shown.page.evaluate("for (const one of document.querySelectorAll('.online, #map-tools')) one.hidden = false")
    shown.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "forced"])
def test_no_rule_is_broken(browser: Any, town: Path, look: str) -> None:
    """At the width of a telephone, a tablet and a desk."""
    shown = opened(browser, RunDirectory(town).report, dark=look != "light", width=_WIDTHS[-1])
    shown.page.emulate_media(**_LOOKS[look])
    everything(shown)
    for width in _WIDTHS:
        shown.page.set_viewport_size({"width": width, "height": 900})
        shown.page.wait_for_timeout(300)  # drawn again 150 ms after the last change of size
        assert broken(shown.page) == [], f"{width} points wide"
        assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.complaints == []
    if look == "light":  # what is broken is found: a button without a name, and text that is hardly visible
        shown.page.evaluate("document.getElementById('next').textContent = ''")
        shown.page.evaluate("document.querySelector('.lead').style.color = '#ccc'")
        assert {one.split(":")[0] for one in broken(shown.page)} >= {"button-name", "color-contrast"}
    shown.page.context.close()


@pytest.mark.slow
@needs("fitness")
def test_the_other_pages_break_no_rule_and_follow_the_readers_colours(browser: Any, town: Path, tmp_path: Path) -> None:
    """Audit, fitness, and the restricted pages: on a telephone in light, on a desk in dark."""
    findings = feature_module("features.audit.findings")
    found = findings.Audit("Audit", (findings.Finding("a", "b", "c", True, 0.5, 1e-6, "d"),), {"x": "y"})
    audit, _ = feature_module("features.audit.report").write_audit(found, tmp_path)
    judged = CliRunner().invoke(
        app, ["fitness", str(town), "--threshold", "60", "--html", str(tmp_path / "fitness.html")]
    )
    assert judged.exit_code == 0, judged.output
    shutil.copytree(town, tmp_path / "town")
    restricted = CliRunner().invoke(app, ["--quiet", "fitness", str(tmp_path / "town"), "--truth", "--compare"])
    assert restricted.exit_code == 0, restricted.output
    told, fitness = RunDirectory(tmp_path / "town").fitness_page, tmp_path / "fitness.html"
    pages = (audit, fitness, told, RunDirectory(town).accuracy_page)
    for file in pages:
        colours = set()
        for dark, width in ((False, _WIDTHS[0]), (True, _WIDTHS[2])):
            shown = opened(browser, file, dark=dark, width=width, ready=False)
            shown.page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            shown.page.wait_for_timeout(300)
            assert broken(shown.page) == [], file.name
            assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
            colours.add(shown.page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert shown.complaints == []
            shown.page.context.close()
        assert colours == {"rgb(251, 250, 247)", "rgb(20, 24, 26)"}


PACKAGES = ("geography", "postprocess", "pipeline", "flows", "features", "spinewise", "auditor")
META = '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{{ policy }}">'


@pytest.fixture(scope="module")
def pages(town: Path) -> dict[str, Path]:
    """A page of each template of a run, by the template's name."""
    run = RunDirectory(town)
    return {"report": run.report, "accuracy": run.accuracy_page}


def templates() -> dict[str, Path]:
    """The whole pages among the templates, by name; parts of pages are not."""
    found = [path for package in PACKAGES for path in (PROJECT / package).rglob("*.html*")]
    return {
        path.name.partition(".")[0]: path for path in found if path.read_text("utf-8").lower().startswith("<!doctype")
    }


def test_every_template_of_a_page_begins_with_the_policy(pages: dict[str, Path]) -> None:
    found = templates()
    assert len(found) >= len(pages)
    for name, path in found.items():
        text = path.read_text("utf-8")
        assert META in text, path
        assert text.count("Content-Security-Policy") == 1
        assert re.search(r"<(script|style|link|title|body)\b", text.partition(META)[0]) is None, path
        assert name in (*pages, "audit", "fitness", "history"), f"{name}: a page of it is to be opened here"


@pytest.mark.parametrize("name", ["report", "accuracy"])
def test_a_page_works_and_what_is_put_into_it_does_not_run(
    name: str, browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    runs_its_own_scripts_alone(browser, pages[name], tmp_path, ready=name == "report")


#: What a script writes of a value that it does not have.
_MISSING = re.compile(r"\b(?:NaN|undefined|null|Infinity)\b")


def words(release: Release, table: str, level: str, code: str, label: str) -> str:
    """A number with its interval as the page has to say it, from the Parquet file and the exact facts."""
    row = release.table(table, level).loc[code]
    low, high = row[label + ":low90"], row[label + ":high90"]
    if release.exact_table(table, level).loc[code, label]:
        return f"{row[label]:,.0f} exact"
    return f"{row[label]:,.0f} " + ("(not known)" if pd.isna(low) else f"({low:,.0f}\N{EN DASH}{high:,.0f})")


def reliability(release: Release, table: str, level: str, code: str, label: str) -> str:
    row = release.table(table, level).loc[code]
    margin: float = max(1.0, row[label + ":moe90"]) if not pd.isna(row[label + ":moe90"]) else np.inf
    if release.exact_table(table, level).loc[code, label] or 10 * margin <= row[label]:
        return "Good for most uses"
    return "Use with care" if 2 * margin <= row[label] else "Do not use on its own"


@pytest.mark.slow
@pytest.mark.parametrize(("table", "level", "mark"), [("total", "tract", "shape"), ("quarters", "block", "symbol")])
def test_under_the_mouse_is_what_the_file_says(
    shown: Opened, release: Release, table: str, level: str, mark: str
) -> None:
    """Over areas of the map, and over dots: each area's name, number, interval or that it is exact, and its use."""
    names = [one.name for one in reader_of(release).universe.tables]
    for field, wanted in (("#table", names.index(table)), ("#level", release.levels.index(level))):
        if shown.page.input_value(field) != str(wanted):
            shown.wait("select_option", field, str(wanted))
    label, places = release.table(table, level).columns[0], shown.page.locator(f"#picture svg .mark-{mark} path")
    codes = set()
    for place in range(min(12, places.count())):
        shown.page.mouse.move(0, 0)
        places.nth(place).hover(force=True)
        shown.page.wait_for_selector("#tip:not([hidden])")
        title, *lines = shown.page.locator("#tip > *").all_text_contents()
        code = title.removeprefix(f"{level} ")
        assert lines[0] == f"{label}: {words(release, table, level, code, label)}"
        assert lines[-1].split(" ", 1)[1] == reliability(release, table, level, code, label)
        codes.add(code)
    assert len(codes) >= (6 if level == "tract" else 10)


@pytest.mark.slow
def test_card_and_table_say_what_the_file_says(shown: Opened, release: Release) -> None:
    names = [one.name for one in reader_of(release).universe.tables]
    for table, level in (("detail", "tract"), ("detail", "block"), ("sex", "tract")):
        shown.page.select_option("#table", str(names.index(table)))
        shown.wait("select_option", "#level", str(release.levels.index(level)))
        stored = release.table(table, level)
        labels = [name for name in stored.columns if not name.endswith((":moe90", ":low90", ":high90"))]
        rows = shown.page.evaluate(
            "[...document.querySelectorAll('#counts-body tr')]"
            ".map(row => [...row.children].map(one => one.textContent))"
        )
        assert len(rows) == min(25, len(stored))
        for code, total, *cells in rows:
            expected = [words(release, table, level, code, label) for label in labels]
            assert total == words(release, "total", level, code, "total")
            assert [re.sub(" [●◐○] ", " ", cell) for cell in cells] == expected
        shown.wait("click", "#counts-body tr:first-child button")
        card = shown.page.locator("#area tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.children].map(one => one.textContent))"
        )
        said = [(value, *margin.partition(" rank ")) for _, value, margin, _ in card]
        assert [f"{value} {margin}" for value, margin, *_ in said] == [
            words(release, table, level, rows[0][0], label) for label in labels
        ]
        query = next(one.query.name for one in reader_of(release).universe.tables if one.name == table)
        ranks = release.query(query).ranks_at(level).loc[[rows[0][0]]].to_numpy().reshape(len(labels), 3).tolist()
        for one, (rank, low, high) in zip(said, ranks, strict=True):
            wanted = f"{rank}" if low == high else f"{rank} ({low}\N{EN DASH}{high})"
            # Where no measurement determines a number, it may have any rank.
            assert one[3] == wanted or (one[3] in ("(not known)", "") and [low, high] == [1, len(stored)])
        assert [kind[2:] for *_, kind in card] == [
            reliability(release, table, level, rows[0][0], label) for label in labels
        ]


@pytest.mark.slow
def test_no_page_shows_what_a_script_does_not_have(browser: Any, release: Release) -> None:
    """All tables, levels and measures of the report, and the agency's page beside it."""
    shown = opened(browser, release.report)
    options = "[...document.querySelectorAll('#%s option')].map(one => one.value)"
    for table in shown.page.evaluate(options % "table"):
        shown.page.select_option("#table", table)
        shown.page.wait_for_timeout(50)
        for level in shown.page.evaluate(options % "level"):
            shown.page.select_option("#level", level)
            shown.page.wait_for_timeout(50)
            for measure in shown.page.evaluate(options % "measure"):
                shown.page.select_option("#measure", measure)
                shown.page.wait_for_timeout(50)
                assert not _MISSING.findall(shown.page.locator("body").inner_text()), (table, level, measure)
                legend = shown.page.locator("#legend li").all_text_contents()
                ends = [re.findall(r"[\d.,]+", line) for line in legend if " to " in line and " less " not in line]
                assert all(len(set(pair)) == 2 for pair in ends)
                assert all(one[1] != two[0] for one, two in itertools.pairwise(ends)), legend
    assert shown.complaints == []
    text = opened(browser, RunDirectory(release.directory).accuracy_page, ready=False).page.locator("body").inner_text()
    assert text.strip()
    assert not _MISSING.findall(text)


def square(north: int) -> float:
    """Square kilometres of a square of a degree whose southern side is so many degrees north: its exact area."""
    south, top = (math.radians(one) for one in (north, north + 1))
    return 6371.0072**2 * math.radians(1) * (math.sin(top) - math.sin(south))


def test_a_map_begins_with_what_does_not_grow_with_its_areas(shown: Opened, release: Release) -> None:
    """Density of one number, shares of several; densities are those of the exact areas of the squares."""
    assert shown.page.input_value("#measure") == "density"
    assert shown.page.locator("#picture-title").text_content() == "People per km², by tract"
    found = shown.page.evaluate(
        "[...document.querySelectorAll('#picture .mark-shape path')].map(one => one.__data__.datum)"
        ".map(one => [one.row, one.value])"
    )
    counts = release.table("total", "tract")["total"].to_numpy()
    densities = dict(found)
    assert set(densities) == set(range(6))
    for row, value in densities.items():
        assert value == pytest.approx(counts[row] / square(row // 3), rel=1e-3)
    names = [one.name for one in reader_of(release).universe.tables]
    shown.wait("select_option", "#table", str(names.index("quarters")))
    assert shown.page.input_value("#measure") == "share"
    shown.wait("select_option", "#level", "2")  # blocks have no map
    assert shown.page.input_value("#measure") == "count"


_STATUS = "NOT FOR RELEASE: insecure test key"


@pytest.fixture
def shown_names(browser: Any, named_town: Path) -> Iterator[Opened]:
    found = opened(browser, RunDirectory(named_town).report)
    yield found
    assert found.complaints == []


def taken(shown: Opened, button: str, folder: Path) -> Path:
    with shown.page.expect_download() as waiting:
        shown.page.click(button)
    target = folder / waiting.value.suggested_filename
    waiting.value.save_as(target)
    return target


def stored(root: Path, table: str) -> pd.DataFrame:
    """All areas of all levels, from the Parquet files, with the names of the areas."""
    release, parts = open_release(root), []
    levels = next(one.levels for one in reader_of(release).universe.tables if one.name == table)
    for level in (name for name in release.levels if name in levels):
        part = pd.read_parquet(RunDirectory(root).main.table(table, level))
        part.insert(0, "level", level)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def test_the_whole_table_is_every_area_of_every_level(shown_names: Opened, named_town: Path, tmp_path: Path) -> None:
    """As CSV and as a workbook, with the numbers of the Parquet files; what is not known is empty in both."""
    release = open_release(named_town)
    for number, table in enumerate(reader_of(release).universe.tables):
        shown_names.wait("select_option", "#table", str(number)) if number else None
        expected = stored(named_town, table.name)
        text = taken(shown_names, "#all-csv", tmp_path)
        assert text.name == f"{reader_of(release).spec.name}-{table.name}.csv"
        found = pd.read_csv(text, dtype={"geocode": str})
        assert found.columns[-1] == "notes"
        book = openpyxl.load_workbook(taken(shown_names, "#all-xlsx", tmp_path))
        assert book.sheetnames == ["numbers", "notes"]
        head, *rows = book["numbers"].iter_rows(values_only=True)
        sheet = pd.DataFrame(rows, columns=list(head))
        for frame in (found, sheet):
            totals = [one for one in frame if str(one).split(":")[0] == "total"]
            has_total = len(table.query.answer_labels()) > 1
            numbers = frame.drop(columns=["name", "notes", *(totals if has_total else [])], errors="ignore")
            pd.testing.assert_frame_equal(numbers, expected, check_dtype=False)
            if has_total:
                sums = expected[list(table.query.answer_labels())].sum(axis=1)
                assert frame["total"].tolist() == sums.tolist()
                of_the_table = frame.merge(stored(named_town, "total"), on=["level", "geocode"])
                assert len(of_the_table) >= 5  # at least the tracts
                for one in totals:
                    assert of_the_table[f"{one}_x"].tolist() == of_the_table[f"{one}_y"].tolist()
        assert book["notes"]["A2"].value == _STATUS
        assert all(isinstance(one, int) for one in rows[0][3:7])


def test_the_page_escapes_every_word(named_town: Path) -> None:
    """The script of a name is in compressed data alone; title, notes and labels are text."""
    page = release_at(named_town).report.read_text()
    assert "<script>alert" not in page
    assert "The town&#39;s &lt;people&gt;" in page
    assert "<people>" not in page
    assert "Adults <b>" not in page
    for text in ("residents", "2030-04-01", "counts@town.example", "CC-BY-4.0", "A building of students."):
        assert text in page, text
    restricted = release_at(named_town).accuracy_page.read_text()
    assert "<script>alert" not in restricted
    assert "Errors: residents" in restricted


def test_a_name_is_found_and_shown_as_it_is(shown_names: Opened) -> None:
    page = shown_names.page
    for typed, code, name in (
        ("SPRINGFIELD", "A03", "Springfield"),
        ("<script", "A01", SCRIPT),
        (FORMULA, "A02", FORMULA),
        (TURNED.replace("\u200f", ""), "B01", f"\u2068{TURNED}\u2069"),
    ):
        page.fill("#search", typed)
        page.wait_for_selector("#found [role=option]")
        assert page.locator("#found [role=option]").first.text_content() == f"{name} (tract {code})"
        shown_names.wait("press", "#search", "Enter")
        assert page.locator("#area h3").text_content() == f"{name} (tract {code})"
    assert page.locator("#area .path button").first.text_content() == "Birch County"
    page.fill("#search", "Springfield")
    page.wait_for_function("document.querySelectorAll('#found [role=option]').length === 2")
    assert shown_names.complaints == []
    assert shown_names.requests == []


#: A page with room for little, and pieces of a few areas.
SMALL = (
    (pipeline.pages.data, "LARGEST", 700),
    (features.report.moments, "LARGEST", 2000),
    (pipeline.pages.data, "WHOLE", 12),
    (pipeline.pages.data, "_AREAS", 4),
    (pipeline.pages.data, "_NUMBERS", 70),
)


@pytest.fixture
def small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in SMALL:
        monkeypatch.setattr(module, name, value)


@pytest.mark.slow
@pytest.mark.usefixtures("small_page")
def test_files_beside_the_page_are_verified_and_resumed_after(tmp_path: Path) -> None:
    """They are listed with their hashes, computed again byte for byte, and missing ones are written again."""
    spec = write_town(tmp_path / "in", *QUICK)
    directory = RunDirectory(run(spec, tmp_path / "out"))
    files = directory.report_files()
    assert len(files) > 10
    page = directory.report.read_text("utf-8")
    assert sum(map(len, re.findall(r'id="chunk-\d+">([^<]*)<', page))) <= 700 + 2000
    listed = json.loads(directory.manifest.read_text())["files"]
    assert {directory.name_of(path) for path in files} == {name for name in listed if name.startswith("report/")}
    shutil.copytree(directory.public, tmp_path / "copy" / "public")
    copy = RunDirectory(tmp_path / "copy")
    assert verify_release(release_at(copy.root), 1, Silent()) == []
    changed = copy.report_files()[3]
    changed.write_text(changed.read_text().replace("H4s", "H4t"))
    (problem,) = verify_release(release_at(copy.root), 1, Silent())
    assert f"report/{changed.name}" in problem

    # A run that was stopped before its manifest writes what is missing, and nothing else is let in.
    kept = {path: path.read_bytes() for path in files}
    directory.manifest.unlink()
    files[0].unlink()
    performed: list[str] = []

    def perform(step: Step) -> Notes | None:
        performed.append(step.stage)
        return step.perform()

    run_release(request_of(spec, tmp_path / "out"), Silent(), perform)
    assert ("report" in performed, "tables" in performed) == (True, False)
    assert {path: path.read_bytes() for path in directory.report_files()} == kept
    directory.manifest.unlink()
    (directory.public / "report" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"public/report/notes\.txt"):
        run(spec, tmp_path / "out")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Tables of which hardly anything is in the page."""
    with pytest.MonkeyPatch.context() as patched:
        for module, name, value in SMALL:
            patched.setattr(module, name, value)
        return large_report(tmp_path_factory.mktemp("large") / "in", tracts=6, blocks=30, cells=5).run


def test_the_page_shows_what_the_tables_have_from_files(browser: Any, large: RunDirectory) -> None:
    """It opens with what is in it, reads pieces as they are asked for, and finds areas of levels that are in pieces."""
    stored = pd.read_parquet(large.main.table("age", "block"))
    shown = opened(browser, large.report)
    assert shown.requests == []
    shown.wait("select_option", "#table", "1")
    shown.wait("select_option", "#level", "2")
    counts = [name for name in stored.columns if ":" not in name]
    stored_rows = stored[counts].astype(str).to_numpy().tolist()
    totals = stored[counts[1:]].sum(axis=1).astype(str)
    expected = [[code, total, *row] for (code, *row), total in zip(stored_rows, totals, strict=True)]
    assert rows(shown) == expected[:25]
    shown.wait("click", "#next")
    assert rows(shown) == expected[25:50]
    before = len(shown.requests)
    assert {url.rsplit("/", 2)[1] for url in shown.requests} == {"report"}
    shown.page.context.close()

    # Only what is beside the wanted area is read; its numbers and interval are the table's.
    shown = opened(browser, large.report)
    shown.wait("select_option", "#table", "1")
    wanted = stored.iloc[100]
    shown.page.fill("#search", wanted["geocode"])
    shown.page.wait_for_selector("#found li[role=option]")
    shown.wait("press", "#search", "Enter")
    assert len(shown.requests) < before
    cells = shown.page.locator("#area tbody tr").nth(2).locator("td").all_text_contents()
    assert cells[0] == str(wanted["a02"])
    rank = 1 + int((stored["a02"] > wanted["a02"]).sum())
    assert cells[1].startswith(f"({wanted['a02:low90']:.0f}\N{EN DASH}{wanted['a02:high90']:.0f}) rank {rank} (")
    # A sum of areas of which one was not looked at yet, with its interval, from the address.
    other = stored.iloc[7]["geocode"]
    address = shown.page.url.split("#")[0] + f"#table=age&level=block&compare=block:{wanted['geocode']},block:{other}"
    shown.page.goto("about:blank")
    shown.page.goto(address)
    shown.page.wait_for_selector("html[data-ready]")
    total = shown.page.locator("#compare-body .sum-row td").first.text_content()
    assert int(total.split(" ")[0]) == wanted["a00"] + stored.iloc[7]["a00"]
    assert "(" in total
    assert shown.complaints == []


@pytest.mark.slow
def test_rhode_island_with_maps_of_tracts(browser: Any, shared_data: Path, tmp_path: Path) -> None:
    """Under 5 MB with all five levels, blocks too; what is not looked at is not drawn."""
    (tmp_path / "spec.toml").write_text(f"{rhode_island(shared_data)}\n[publish]\nreplicates = 2\n")
    directory = RunDirectory(run(tmp_path / "spec.toml", tmp_path / "out", workers=2))
    assert directory.report.stat().st_size < 5_000_000
    names = json.loads(directory.report.read_text("utf-8").split('id="content">')[1].split("</script>")[0])
    assert {tuple(table["levels"]) for table in names["tables"]} == {
        ("state", "county", "tract", "block_group", "block")
    }
    shown = opened(browser, directory.report)
    assert shown.page.locator("*").count() < 2_500  # there are 25,000 blocks
    assert shown.page.locator("#picture svg path[aria-roledescription]").count() == 0
    assert shown.page.locator("#picture svg .mark-shape path:not([fill^=url])").count() == 243
    shown.wait("select_option", "#table", "1")
    shown.wait("select_option", "#level", "4")
    stored = pd.read_parquet(directory.main.table("race", "block"))
    shown.wait("click", "#next")
    first = shown.page.locator("#counts-body tr").first.locator("th, td").all_text_contents()
    expected = (
        stored[[name for name in stored.columns if not name.endswith((":moe90", ":low90", ":high90"))]]
        .iloc[25]
        .astype(str)
        .tolist()
    )
    expected.insert(1, str(sum(map(int, expected[1:]))))
    assert [cell.split(" ")[0].replace(",", "") for cell in first] == expected
    shown.page.fill("#search", "Newport")
    shown.page.wait_for_selector("#found li[role=option]")
    shown.wait("press", "#search", "Enter")
    assert shown.page.locator("#area h3").text_content() == "Newport (county 44005)"
    assert shown.complaints == []
    assert shown.requests == []
