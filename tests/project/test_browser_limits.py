"""A script or a browser that hangs fails its test, and says which call hung, instead of holding up all tests."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from releases.browser import BrowserHangsError, chromium, opened


def _processes() -> list[psutil.Process]:
    return [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]


def _left(seconds: float = 60) -> list[psutil.Process]:
    """Those that are there still after a while: what is killed takes its time to go."""
    ends = time.monotonic() + seconds
    while _processes() and time.monotonic() < ends:
        time.sleep(0.05)
    return _processes()


@pytest.mark.parametrize("script", ["new Promise(() => {})", "(() => { for (;;); })()"])
def test_a_script_that_never_ends(script: str, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<!doctype html><title>page</title>")
    began = time.monotonic()
    with (
        pytest.raises(BrowserHangsError, match=r"`Page.evaluate` had no answer from the browser in 5 s"),
        chromium({"Page.evaluate": 5}) as one,
    ):
        opened(one, tmp_path / "page.html", ready=False).page.evaluate(script)
    assert time.monotonic() - began < 120
    assert _left() == []


@pytest.mark.parametrize("call", ["close", "new_context", "new_page"])
def test_a_browser_that_stands_still(call: str) -> None:
    with chromium({f"Browser.{call}": 5}) as one:
        for process in _processes():
            os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(BrowserHangsError, match=f"`Browser.{call}` had no answer"):
            getattr(one, call)()
    assert _left() == []
