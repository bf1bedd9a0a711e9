"""Every benchmark starts as it is called: what it imports is there, also helpers of tests, and it takes its options."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from project.documents import PROJECT

#: Each in a fork, so that none finds what another one has imported or where it has looked for it.
_HELP_OF_EACH = """
import io, json, os, runpy, sys
from contextlib import redirect_stdout
import numpy, pandas, pyarrow.parquet, pipeline.runs.run
for path in sys.argv[1:]:
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        sys.argv, sys.path[0], shown = [path, "--help"], "benchmarks", io.StringIO()
        try:
            with redirect_stdout(shown):
                runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            os.write(writer, (shown.getvalue() if not end.code else f"exit {end.code}").encode())
        except BaseException as error:
            os.write(writer, repr(error).encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as told:
        print(json.dumps([path, told.read()]))
    os.waitpid(process, 0)
"""


def test_each_starts_and_takes_its_options() -> None:
    """Those that `make bench` calls take --json; each is called without any path to the tests."""
    paths = sorted(path.relative_to(PROJECT) for path in (PROJECT / "benchmarks").glob("*.py"))
    with_options = [str(path) for path in paths if "ArgumentParser(" in (PROJECT / path).read_text("utf-8")]
    assert len(paths) <= 15
    assert len(with_options) == len(paths) - 1, "the others are helpers"
    command = [sys.executable, "-c", _HELP_OF_EACH, *with_options]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    shown = dict(json.loads(line) for line in done.stdout.splitlines())
    assert {path: text for path, text in shown.items() if not text.startswith("usage: ")} == {}
    dry = ["make", "--dry-run", "bench"]
    lines = subprocess.run(dry, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    called = set(re.findall(r"benchmarks/\w+\.py", lines))
    assert len(called) > 8
    assert [path for path in sorted(called) if "--json" not in shown[path]] == []
