"""The second program is named so that no folder of the current directory is run in its place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_folder_of_its_name_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / "__init__.py").touch()
    (tmp_path / "auditor" / "__main__.py").write_text("print('harm')\n", encoding="utf-8")
    run = [sys.executable, "-P", "-m", "auditor", "--help"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: python -P -m auditor")
