"""The second program is named so that no folder of the current directory is run in its place."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
UNSAFE = re.compile(r"(?<!-P )-m[\s\",']+auditor\b")


def test_docs_and_messages_name_it_with_p() -> None:
    pages = [*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")]
    for folder in ("auditor", "features", "flows", "geography", "pipeline", "postprocess", "spinewise"):
        pages += [path for path in (PROJECT / folder).rglob("*") if path.suffix in {".py", ".md", ".js", ".html"}]
    assert any("python -P -m auditor" in page.read_text("utf-8") for page in pages)
    unsafe = [str(page.relative_to(PROJECT)) for page in pages if UNSAFE.search(page.read_text("utf-8"))]
    assert unsafe == []
    assert UNSAFE.search("`python -m auditor DIR`")


def test_a_folder_of_its_name_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "auditor").mkdir()
    (tmp_path / "auditor" / "__init__.py").touch()
    (tmp_path / "auditor" / "__main__.py").write_text("print('harm')\n", encoding="utf-8")
    run = [sys.executable, "-P", "-m", "auditor", "--help"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: python -P -m auditor")
