"""What importing the package brings, that it is the right one, and its bar in a notebook."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from project.documents import PROJECT

#: Modules that take long to import, and that a session may never need.
HEAVY = ("prefect", "cvxpy", "scipy", "ortools", "matplotlib", "pandas", "numpy", "pyarrow", "rich", "sqlalchemy")


def python(code: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), **more}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_importing_brings_nothing_heavy(tmp_path: Path) -> None:
    done = python(f"import sys, spinewise; print([m for m in {HEAVY} if m in sys.modules])", tmp_path)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_device_needs_numpy_only(tmp_path: Path) -> None:
    """What is imported for collection: numpy, and of the project the randomisers and the errors."""
    code = (
        "import sys, spinewise.collect\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
        "own = ('pipeline', 'features', 'flows', 'postprocess', 'geography', 'auditor')\n"
        "print(sorted({'.'.join(m.split('.')[:2]) for m in sys.modules if m.split('.')[0] in own}))"
    )
    done = python(code, tmp_path)
    assert done.stdout.splitlines() == [
        "['numpy']",
        "['features', 'features.local', 'features.registry', 'geography', 'geography.errors', 'pipeline', "
        "'pipeline.errors']",
    ], done.stderr


def test_a_file_or_script_that_hides_a_package_is_named_and_a_folder_of_data_hides_none(tmp_path: Path) -> None:
    """A folder without __init__.py gives way to the installed package."""
    (tmp_path / "features").mkdir()
    assert python("import spinewise; print(spinewise.Release.__name__)", tmp_path).stdout == "Release\n"
    (tmp_path / "script").mkdir()
    script = tmp_path / "script" / "pipeline.py"
    script.write_text("import spinewise")
    (tmp_path / "features" / "__init__.py").write_text("")
    done = python("import spinewise", tmp_path)
    found = (tmp_path / "features" / "__init__.py").resolve()
    told = f"spinewise needs its own package 'features', and Python finds {found} in its place"
    assert (done.returncode, told in done.stderr) == (1, True)
    done = python(f"import runpy, sys; sys.path[0] = {str(script.parent)!r}; runpy.run_path({str(script)!r})", tmp_path)
    assert f"Python finds {script.resolve()} in its place; rename that file" in done.stderr
