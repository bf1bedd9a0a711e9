"""A real browser for pages that are opened from a file, which notes what they complain of and what they ask for."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Opened:
    """A page in the browser.

    Attributes:
        page: Playwright's.
        complaints: on the console, and errors of scripts.
        requests: of anything but the page's own file.
        seconds: until the page was ready.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def wait(self, change: str, *arguments: Any) -> None:
        """Do something to the page (a method of Playwright's page), and wait until it is drawn again."""
        before = self.page.evaluate("document.documentElement.dataset.ready")
        getattr(self.page, change)(*arguments)
        self.page.wait_for_selector(f'html:not([data-ready="{before}"])')


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian and Ubuntu: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


#: Where a page is that is not opened from a disk: nothing of it leaves this machine.
WEBSITE = "http://release.example/"


def opened(
    browser: Any, file: Path, *, dark: bool = False, width: int = 1280, ready: bool = True, online: bool = False
) -> Opened:
    """The page of a file, with nothing of other pages about it; `online`: as if it were read from a website."""
    context = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}, accept_downloads=True
    )
    shown = Opened(context.new_page())
    shown.page.on("console", lambda message: shown.complaints.append(f"{message.type}: {message.text}"))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    own = file.resolve().as_uri()
    if online:
        own = WEBSITE + file.name
        context.route(WEBSITE + "*", lambda route: route.fulfill(path=file.parent / route.request.url.split("/")[-1]))
    shown.page.on("request", lambda request: None if request.url == own else shown.requests.append(request.url))
    began = time.perf_counter()
    shown.page.goto(own)
    if ready:
        shown.page.wait_for_selector("html[data-ready]", timeout=20_000)
    shown.seconds = time.perf_counter() - began
    return shown
