"""How quickly the page for readers opens: core seconds of a browser, beside a page with all numbers in HTML tables.

    python benchmarks/bench_page.py RELEASE [RELEASE ...] [--times 5]

RELEASE is the directory of a finished release. Its `report.html` is opened until it is drawn and ready; the other page
has the released tables as pandas writes them (`DataFrame.to_html`), without maps, words or covariances. Figures are
medians of all processes of a Chromium that is started once; Playwright and Chromium are those of the tests.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd
import psutil
from playwright.sync_api import sync_playwright

#: Milliseconds that a page may take.
LIMIT = 600_000


def core_seconds() -> float:
    """What the browser's processes have used of processors."""
    found = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if "chrom" in process.name():
                found += sum(process.cpu_times()[:2])
    return found


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, page: Path, ready: str, times: int) -> tuple[float, int]:
    """Median core seconds until the page has an element, and its number of elements then."""
    seconds, elements = [], 0
    for _ in range(times):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(LIMIT)
        shown, began = context.new_page(), core_seconds()
        shown.goto(page.resolve().as_uri())
        shown.wait_for_selector(ready, state="attached")
        seconds.append(core_seconds() - began)
        elements = shown.evaluate("document.getElementsByTagName('*').length")
        context.close()
    return median(seconds), elements


def write_plain(release: Path, page: Path) -> None:
    """All released tables of a release, one HTML table each."""
    with page.open("w", encoding="utf-8") as file:
        file.write("<!doctype html><meta charset=utf-8><title>tables</title>\n")
        for table in sorted((release / "public" / "tables").rglob("*.parquet")):
            file.write(f"<h2>{table.parent.name}, {table.stem}</h2>\n")
            pd.read_parquet(table).to_html(file, index=False)
        file.write("<p id=end>\n")


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=Path, nargs="+")
    parser.add_argument("--times", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for release in arguments.release:
            plain, report = Path(folder) / "plain.html", release / "public" / "report.html"
            write_plain(release, plain)
            own, own_elements = opened(browser, report, "html[data-ready]", arguments.times)
            other, other_elements = opened(browser, plain, "#end", max(1, arguments.times // 3))
            print(f"{release.name}")
            for name, page, seconds, elements in (
                ("report.html", report, own, own_elements),
                ("HTML tables", plain, other, other_elements),
            ):
                megabytes = page.stat().st_size / 1e6
                print(f"  {name}: {seconds:6.2f} core seconds, {megabytes:7.1f} MB, {elements:,} elements")
            print(f"  ratio: {own / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
