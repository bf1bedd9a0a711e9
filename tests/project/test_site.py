"""The pages make a site without a warning that loads nothing from elsewhere, and whose search works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.documents import PROJECT
from releases.browser import chromium, opened

_LOADS = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["'](https?:)?//|<link[^>]*rel=["'](?:stylesheet|preconnect)["'][^>]*//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a warning is an error."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    expected = {"index.html", "readme.html", "tutorial.html", "howto/audit.html", "reference/spinewise.html"}
    assert expected <= pages.keys()
    assert [name for name, page in pages.items() if _LOADS.search(page)] == []
    assert 'id="spinewise.runs.run"' in pages["reference/spinewise.html"]
    assert (site / "images" / "report.png").is_file()
    assert not (site / "site").exists()


@pytest.mark.slow
def test_the_search_works_in_a_page_from_a_file(site: Path) -> None:
    with chromium() as browser:
        page = opened(browser, site / "tutorial.html", ready=False).page
        page.fill(".md-search__input", "margin of error")
        page.wait_for_selector(".md-search-result__link[href*='using_a_release.html']", state="attached")
