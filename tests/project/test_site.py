"""The pages make a site without a warning, and a page of it loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from project.documents import PROJECT

_LOADS = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["'](https?:)?//|<link[^>]*rel=["'](?:stylesheet|preconnect)["'][^>]*//"""
)


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("mkdocstrings", reason="the extra docs is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=PROJECT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    pages = {path.relative_to(tmp_path).as_posix(): path.read_text("utf-8") for path in tmp_path.rglob("*.html")}
    assert {"index.html", "readme.html", "tutorial.html", "howto/audit.html", "reference/pipeline.html"} <= pages.keys()
    assert [name for name, page in pages.items() if _LOADS.search(page)] == []
    assert 'id="pipeline.spec.release_spec.load_spec"' in pages["reference/pipeline.html"]
    assert (tmp_path / "images" / "report.png").is_file()
    assert not (tmp_path / "site").exists()
