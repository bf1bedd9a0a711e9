"""The pages make a site without a warning that loads nothing from elsewhere, and whose search finds guides first."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

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


def test_the_navigation_has_every_page_and_what_is_read_first_stands_first() -> None:
    yaml = pytest.importorskip("yaml")
    nav = list(_pages_of(yaml.safe_load((PROJECT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    docs = PROJECT / "docs"
    written = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    decisions = {name for name in written if name.startswith("decisions/")}  # the hooks put all of them in one place
    outside = {"readme.md", "examples.md", "contributing.md", "changelog.md", "security.md", "license.md", "decisions/"}
    assert set(nav) == (written - decisions) | outside
    assert len(nav) == len(set(nav))
    assert {"operations.md", "stopping.md", "imports.md", "formats.md", "scaling.md"} <= set(nav)
    assert nav.index("tutorial.md") < nav.index("architecture.md")


def _pages_of(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    else:
        for entry in nav.values() if isinstance(nav, dict) else nav:
            yield from _pages_of(entry)


#: What people search for, and the page that says it.
FIRST = {
    "margin of error": "using_a_release.html",
    "postgresql": "stopping.html",
    "stop a worker": "stopping.html",
    "budget": "ledger.html",
    "households": "howto/households.html",
    "import": "imports.html",
}


@pytest.mark.slow
def test_the_search_finds_guides_before_the_reference(site: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed, which the theme's search runs in")
    script = Path(__file__).with_name("search.js")
    done = subprocess.run([node, script, site, *FIRST], capture_output=True, text=True, check=True, timeout=300)
    found = json.loads(done.stdout)
    last = tuple(name.removesuffix(".md") for name in run_path(str(PROJECT / "docs" / "site" / "hooks.py"))["_LAST"])
    for query, page in FIRST.items():
        pages = found[query]
        assert page in pages[: 1 if query == "margin of error" else 2], (query, pages)
        reference = next((place for place, name in enumerate(pages) if name.startswith("reference/")), len(pages))
        assert [name for name in pages[reference:] if not name.startswith(last)] == [], query


@pytest.mark.slow
def test_the_search_works_in_a_page_from_a_file(site: Path) -> None:
    with chromium() as browser:
        page = opened(browser, site / "tutorial.html", ready=False).page
        page.fill(".md-search__input", "margin of error")
        page.wait_for_selector(".md-search-result__link[href*='using_a_release.html']", state="attached")
