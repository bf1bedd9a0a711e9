"""A figure of a statement that is none ends the second program in a sentence, whichever figure it is."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from releases.command import PROJECT, environment


@pytest.mark.parametrize("figure", ["epsilon", "zcdp", "losses"])
@pytest.mark.parametrize("spoilt", ["", "x", "1,5", "NaN"])
def test_a_figure_that_is_none(town: Path, tmp_path: Path, figure: str, spoilt: str) -> None:
    root = tmp_path / "town"
    shutil.copytree(town, root)
    manifest = root / "public" / "manifest.json"
    content = json.loads(manifest.read_text("utf-8"))
    assert content["accounts"][0]["record"][figure] is not None
    content["accounts"][0]["record"][figure] = spoilt
    manifest.write_text(json.dumps(content), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "auditor", str(root)],
        cwd=PROJECT, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert f"found {spoilt!r} among the figures" in done.stdout + done.stderr
