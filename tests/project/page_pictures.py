"""Pictures of the report's page in docs/images: the example's release, as `make release` makes it.

    python tests/project/page_pictures.py releases/example

Writes report.png (1280 pixels wide), report-dark.png, report-narrow.png (a telephone's 390) and report-map.png.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(PROJECT), str(PROJECT / "tests")]

from releases.browser import chromium, opened  # noqa: E402

IMAGES = PROJECT / "docs" / "images"
#: An area that is looked for by its name, misspelt as readers do.
AREA = "ashbridg"
TABLE = "race"


def numbers_of(browser: Any, page: Path, start: str = "#numbers", **view: Any) -> Any:
    """The page with an area looked up in a table with groups, scrolled so that an element is at its top."""
    shown = opened(browser, page, **view)
    shown.page.fill("#search", AREA)
    shown.page.wait_for_selector("#found-0")
    shown.wait("press", "#search", "Enter")
    shown.wait("select_option", "#table", TABLE)
    shown.page.evaluate("document.activeElement.blur()")
    shown.page.locator(start).evaluate("one => window.scrollTo(0, one.getBoundingClientRect().top + scrollY)")
    return shown.page


def main(page: Path) -> None:
    """Take the pictures."""
    with chromium() as browser:
        for name, dark in (("report.png", False), ("report-dark.png", True)):
            shown = numbers_of(browser, page, dark=dark)
            shown.set_viewport_size({"width": 1280, "height": 600})  # less than 200 kB
            shown.screenshot(path=IMAGES / name)
        numbers_of(browser, page, start="#area", width=390).screenshot(path=IMAGES / "report-narrow.png")
        figure = numbers_of(browser, page).locator("figure[data-part=chart]")
        figure.evaluate("one => { one.style.alignSelf = 'start'; }")  # not as long as the table beside it
        figure.screenshot(path=IMAGES / "report-map.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "public" / "report.html")
