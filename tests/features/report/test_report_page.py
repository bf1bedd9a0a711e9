"""The report in a real browser: mouse, keyboard, addresses, paper; for everybody, and with its own scripts alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from releases.browser import Opened, opened
from releases.command import PROJECT, feature_module, needs, printed
from releases.policy import runs_its_own_scripts_alone
from typer.testing import CliRunner

from flows.cli import app
from pipeline.reading.compare import compare, comparison_html
from pipeline.reading.reader import open_reader
from pipeline.reading.release import open_release
from pipeline.release.layout import RunDirectory


@pytest.fixture
def shown(browser: Any, town: Path) -> Iterator[Opened]:
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


def test_search_finds_an_area_by_keyboard(shown: Opened, town: Path) -> None:
    shown.page.focus("#search")
    shown.page.keyboard.type("b02")
    shown.page.wait_for_selector("#found li[role=option]")
    found = shown.page.locator("#found li").all_text_contents()
    assert found[0] == "tract B02"
    assert all(text.startswith("block B02") for text in found[1:])
    shown.page.keyboard.press("ArrowDown")
    assert shown.page.get_attribute("#search", "aria-activedescendant") == "found-0"
    shown.wait("press", "#search", "Enter")
    assert shown.page.locator("#area h3").text_content() == "tract B02"
    stored = pd.read_parquet(RunDirectory(town).main.table("total", "tract")).set_index("geocode").loc["B02"]
    cells = shown.page.locator("#area tbody td").all_text_contents()
    assert cells[0] == f"{int(stored['total'].item()):,}"
    interval = f"({stored['total:low90']:,.0f}\N{EN DASH}{stored['total:high90']:,.0f})"
    assert open_release(town).query("total").ranks_at("tract").loc[["B02"]].to_numpy().tolist() == [[5, 5, 5]]
    assert cells[1] == f"{interval} rank 5"
    shown.wait("click", "text=Show each block in it")
    assert "in tract B02" in shown.page.locator("#counts-caption").text_content()
    blocks = pd.read_parquet(RunDirectory(town).main.table("total", "block"))["geocode"]
    assert [row[0] for row in rows(shown)] == [code for code in blocks if code.startswith("B02")]
    shown.wait("click", "#everywhere")
    assert len(rows(shown)) == len(blocks)
    shown.page.fill("#search", "nowhere")
    shown.page.wait_for_selector("text=No such area in this page.")


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
    """Comparison, audit, fitness, and the restricted pages: on a telephone in light, on a desk in dark."""
    release = open_reader(town)
    (tmp_path / "compare.html").write_text(comparison_html(compare(release, release)), encoding="utf-8")
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
    pages = (
        tmp_path / "compare.html",
        audit,
        tmp_path / "fitness.html",
        RunDirectory(tmp_path / "town").fitness_page,
        RunDirectory(town).accuracy_page,
    )
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
def pages(town: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each template, by the template's name."""
    folder = tmp_path_factory.mktemp("pages")
    printed("compare", town, town, "--html", folder / "compare.html")
    run = RunDirectory(town)
    return {"report": run.report, "accuracy": run.accuracy_page, "compare": folder / "compare.html"}


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


@pytest.mark.parametrize("name", ["report", "accuracy", "compare"])
def test_a_page_works_and_what_is_put_into_it_does_not_run(
    name: str, browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    runs_its_own_scripts_alone(browser, pages[name], tmp_path, ready=name == "report")
