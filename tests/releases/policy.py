"""Whether a page runs its own scripts and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from releases.browser import opened

#: What a stranger would put into a page: scripts, and what fetches, frames, sends or moves it.
INJECTED = """<script>document.title = "ran"</script><img src="x" onerror="document.title = 'ran'">
<svg onload="document.title = 'ran'"></svg><a id="lure" href="javascript:document.title = 'ran'">here</a>
<iframe srcdoc="<script>parent.document.title = 'ran'</script>"></iframe><img src="http://127.0.0.1:9/seen">
<script src="http://127.0.0.1:9/script.js"></script><link rel="stylesheet" href="http://127.0.0.1:9/style.css">"""


def runs_its_own_scripts_alone(browser: Any, page: Path, folder: Path, *, ready: bool = False) -> None:
    """What is put into the page by a stranger does not run, but for its policy."""
    shown = opened(browser, page, ready=ready)
    assert shown.complaints == []
    assert shown.requests == []
    assert shown.page.evaluate("getComputedStyle(document.querySelector('main')).maxWidth") not in ("", "none")

    text = page.read_text("utf-8")
    spoilt = folder / "spoilt.html"
    spoilt.write_text(text.replace("<main", f"{INJECTED}<main", 1), "utf-8")
    shown = opened(browser, spoilt, ready=False)
    shown.page.evaluate("document.getElementById('lure').click()")
    shown.page.wait_for_timeout(300)
    assert shown.page.title() not in ("ran", "")
    assert any("Content Security Policy" in line for line in shown.complaints)

    open_to_all = folder / "open.html"
    without = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", spoilt.read_text("utf-8"))
    open_to_all.write_text(without, "utf-8")
    assert opened(browser, open_to_all, ready=False).page.title() == "ran"  # it would have run
