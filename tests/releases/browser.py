"""A real browser for pages that are opened from a file, which notes what they complain of and what they ask for.

Playwright waits without end for scripts (`evaluate`), for the mouse, and for a page or browser to open or close. Here
each call has a limit: at its end the browser is killed, and the call fails and says which it was.
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Seconds for anything on a page (Playwright's own limit), and for one call of any kind (ours; also start and end).
PAGE_LIMIT = 60.0
CALL_LIMIT = 180.0


class BrowserHangsError(AssertionError):
    """A call to the browser that had not ended after its limit."""


@contextmanager
def _within(call: str, processes: set[psutil.Process]) -> Iterator[threading.Timer]:
    """At the limit, end the processes of the browser and of Playwright, so that what waits for them fails."""
    over = threading.Event()

    def kill() -> None:
        over.set()
        for process in processes or set(psutil.Process().children()):
            with suppress(psutil.NoSuchProcess):
                for one in (*process.children(recursive=True), process):
                    with suppress(psutil.NoSuchProcess):
                        one.kill()

    limit = threading.Timer(CALL_LIMIT, kill)
    limit.daemon = True
    limit.start()
    failure: Exception | None = None
    try:
        yield limit
    except Exception as error:
        if not over.is_set():
            raise
        failure = error
    finally:
        limit.cancel()
    if over.is_set():  # also where the call takes the end of the browser for its own
        raise BrowserHangsError(
            f"`{call}` had no answer from the browser in {CALL_LIMIT:g} s; it was killed"
        ) from failure


@dataclass
class Opened:
    """A page in the browser.

    Attributes:
        page: Playwright's.
        complaints: on the console, and errors of scripts.
        requests: of anything but the page's own file.
    """

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def wait(self, change: str, *arguments: Any) -> None:
        """Do something to the page (a method of Playwright's page), and wait until it is drawn again."""
        before = self.page.evaluate("document.documentElement.dataset.ready")
        getattr(self.page, change)(*arguments)
        self.page.wait_for_selector(f'html:not([data-ready="{before}"])')


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser, with a limit for each call; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed (Debian and Ubuntu: apt-get install chromium)")
    from playwright._impl._sync_base import SyncBase  # every call of the synchronous interface goes through it

    before = set(psutil.Process().children())
    started: set[psutil.Process] = set()
    unlimited = SyncBase._sync

    def limited(self: SyncBase, awaitable: Any) -> Any:
        call = f"{type(self).__name__}.{sys._getframe(1).f_code.co_name}"
        with _within(call, started):
            return unlimited(self, awaitable)

    with pytest.MonkeyPatch.context() as patched, _within("sync_playwright", started) as start:
        patched.setattr(SyncBase, "_sync", limited)
        manager = sync_api.sync_playwright()
        playwright = manager.__enter__()
        started |= set(psutil.Process().children()) - before
        start.cancel()
        try:
            yield playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        finally:  # ends the browser too
            with _within("playwright.stop", started):
                manager.__exit__(None, None, None)


def opened(browser: Any, file: Path, *, dark: bool = False, width: int = 1280, ready: bool = True) -> Opened:
    """The page of a file, with nothing of other pages about it."""
    context = browser.new_context(
        color_scheme="dark" if dark else "light", viewport={"width": width, "height": 900}, accept_downloads=True
    )
    context.set_default_timeout(PAGE_LIMIT * 1000)
    shown = Opened(context.new_page())
    shown.page.on("console", lambda message: shown.complaints.append(f"{message.type}: {message.text}"))
    shown.page.on("pageerror", lambda error: shown.complaints.append(str(error)))
    own = file.resolve().as_uri()
    shown.page.on("request", lambda request: None if request.url == own else shown.requests.append(request.url))
    shown.page.goto(own)
    if ready:
        shown.page.wait_for_selector("html[data-ready]")
    return shown
