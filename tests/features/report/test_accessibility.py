"""The report for everybody: no rule of axe-core is broken, and the keyboard never loses its place."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from releases.browser import Opened, opened
from releases.command import feature_module, needs
from typer.testing import CliRunner

from flows.cli import app
from pipeline.reading.compare import compare, comparison_html
from pipeline.reading.reader import open_reader
from pipeline.release.layout import RunDirectory

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


def focused(shown: Opened) -> str:
    return str(
        shown.page.evaluate(
            "document.activeElement.dataset.key || document.activeElement.id || document.activeElement.tagName"
        )
    )


@pytest.mark.slow
def test_the_keyboard_keeps_its_place(browser: Any, town: Path) -> None:
    """What is pressed keeps the focus though it is drawn again; where it is gone, what stands for it has it."""
    shown = opened(browser, RunDirectory(town).report)
    shown.wait("select_option", "#level", "2")  # block
    for pressed, holds in (
        ("[data-key=row-3]", "row-3"),
        ("[data-key=compare]", "compare"),
        ("[data-key=path-1]", "area-title"),
        ("[data-key=below-2]", "below-2"),
        ("[data-key=head-0]", "head-0"),
        ("#everywhere", "counts-region"),
        ("[data-key=out-2-3]", "counts-region"),
    ):
        shown.page.focus(pressed)
        shown.wait("press", pressed, "Enter")
        assert focused(shown) == holds, pressed
    assert shown.page.locator("th[aria-sort=descending]").count() == 1
    assert not shown.page.locator("#compare").is_visible()


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
