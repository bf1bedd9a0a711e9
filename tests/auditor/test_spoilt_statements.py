"""A figure of a statement that is none ends the second program in a sentence, whichever figure it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from auditor.program import main


@pytest.mark.parametrize(("figure", "spoilt"), [("epsilon", "x"), ("zcdp", ""), ("losses", "NaN"), ("epsilon", "1,5")])
def test_a_figure_that_is_none(
    town: Path, tmp_path: Path, figure: str, spoilt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(town, tmp_path / "town"))
    manifest = root / "public" / "manifest.json"
    content = json.loads(manifest.read_text("utf-8"))
    assert content["accounts"][0]["record"][figure] is not None
    content["accounts"][0]["record"][figure] = spoilt
    manifest.write_text(json.dumps(content), encoding="utf-8")
    assert main([str(root)]) in (1, 2)
    said = capsys.readouterr()
    assert f"found {spoilt!r} among the figures" in said.out + said.err
