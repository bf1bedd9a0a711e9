"""The main job by the command line, with the engine and its database, to which nothing confidential is told."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import pytest
from releases.command import environment, spinewise
from releases.prefect_server import prefect_server
from releases.small import public_bytes, write_town

from pipeline.release.layout import RunDirectory

PLANTED = "7654321"
_RERUN = """
import sys
from pathlib import Path
from flows.orchestration.audit_flows import rerun
found = rerun(release=Path(sys.argv[1]), workers=1)
print(len(found.differences), found.files)
"""


@pytest.mark.slow
def test_nothing_confidential_reaches_the_engine(tmp_path: Path) -> None:
    """Counts, values and row numbers of the records, and the key, are in no file of Prefect, run, refused or rerun.

    The server is the user's own, which keeps all that it is told, and is told more than a temporary one.
    """
    spec = write_town(tmp_path / "in", ('key = "insecure-test:1"', ""), ("replicates = 3", "replicates = 1"))
    persons, units = tmp_path / "in" / "persons.csv", tmp_path / "in" / "units.csv"
    good = persons.read_text()
    lines = units.read_text().splitlines()
    lines[1] = ",".join([*lines[1].split(",")[:2], PLANTED])
    units.write_text("\n".join(lines) + "\n")
    persons.write_text(good + f"A0101,value{PLANTED},f,house\n")
    home = tmp_path / "prefect"
    with prefect_server(home) as address:
        server: dict[str, Any] = {"PREFECT_HOME": str(tmp_path / "client"), "PREFECT_API_URL": address}
        refused = spinewise("run", spec, "--out", tmp_path / "out", "--workers", 1, fresh=True, **server)
        persons.write_text(good)
        shown = spinewise("run", spec, "--out", tmp_path / "out", "--workers", 1, fresh=True, **server)
        command = [sys.executable, "-c", _RERUN, str(tmp_path / "out" / "town")]
        again = subprocess.run(command, env=environment(**server), capture_output=True, text=True, check=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    # The person at the keyboard is told all of it, once.
    assert refused.stderr.count(f"value{PLANTED}") == 1
    assert "Traceback" not in refused.stderr
    assert shown.returncode == 0, shown.stderr
    assert PLANTED not in shown.stderr
    directory = RunDirectory(tmp_path / "out" / "town")
    differing, compared = map(int, again.stdout.split())
    assert (differing, compared) == (0, len(public_bytes(directory.root)))
    truth = pd.read_parquet(directory.universe("units").true_histogram("block"))
    assert int(PLANTED) in truth["count"].tolist()
    key = directory.key.read_text().split()[-1]
    assert len(key) == 64
    files = [*home.rglob("*"), *(tmp_path / "client").rglob("*")]
    texts = [path.read_bytes() for path in files if path.is_file()]
    assert any(b"measure units block" in text for text in texts)  # the search finds what is there
    for secret in (PLANTED, f"{int(PLANTED):,}", key, "ancient"):
        assert not any(secret.encode() in text for text in texts), secret
    assert not any(bytes.fromhex(key) in text for text in texts)
    with sqlite3.connect(f"file:{home / 'prefect.db'}?mode=ro", uri=True) as database:
        parameters = [row[0] for row in database.execute("select parameters from flow_run")]
        tasks = [row[0] for row in database.execute("select task_inputs from task_run")]
        names = {row[0] for row in database.execute("select name from flow_run")}
        assert {"rerun of town"} < names
        assert database.execute("select count(*) from log").fetchone() == (0,)
    assert all(str(tmp_path) in text or "example" in text for text in parameters)
    assert len(tasks) > 20
    # No inputs, but for the tasks that each waits for or belongs to.
    named = [item for text in tasks for items in json.loads(text).values() for item in items]
    assert {item["input_type"] for item in named} == {"task_run"}
    assert all(set(item) == {"input_type", "id"} and UUID(item["id"]) for item in named)
    log = directory.log.read_text()
    assert PLANTED not in log
    assert public_bytes(directory.root)
