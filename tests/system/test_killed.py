"""A run that is killed leaves only whole files and no manifest; run again, it ends as if nothing had happened."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from oracles.how_many import OF_A_VERSION
from releases.command import environment, spinewise
from releases.killed import kill_at
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, public_bytes, run, write_town

from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files


def assert_nothing_half_written(root: Path, *, finished: bool = False) -> None:
    directory = RunDirectory(root)
    if directory.manifest.exists():
        # It is written last: whoever finds it finds all that it lists.
        assert check_public_files(directory) == []
    assert directory.manifest.exists() >= finished
    for path in directory.public.rglob("*"):
        if path.suffix == ".parquet":
            pq.read_table(path)
        elif path.suffix == ".json":
            json.loads(path.read_text("utf-8"))
        elif path.suffix == ".html":
            assert path.read_text("utf-8").rstrip().endswith("</html>")
        else:
            assert path.is_dir()


@pytest.mark.slow
def test_it_does_not_matter_at_which_write(town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    """A process is killed at an early write to the disk, another at a later one, and so on until one gets through."""
    number = 1
    while kill_at(town_spec, tmp_path / str(number), "sync", number):
        assert_nothing_half_written(tmp_path / str(number) / "town")
        assert public_bytes(run(town_spec, tmp_path / str(number))) == undisturbed
        number += 37
    assert number > 100


#: Kills: of a version, so many that most steps have one.
KILLS = 40 if OF_A_VERSION else 12
#: The least part of the steps aimed at that are met, also those before the first step and after the last.
COVERED = 0.8
OF_A_DATASET = (
    ('rho = "2"', 'rho = "2"\ndataset = "persons"'),
    ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "units" }'),
)


@pytest.mark.slow
def test_killed_at_random_moments_over_all_steps(tmp_path: Path) -> None:
    """Every run goes on to the bytes of an undisturbed one, and its budget is charged once."""
    spec = write_town(tmp_path / "in", ('key = "insecure-test:1"', ""), *OF_A_DATASET, *QUICK)
    key, ledger = tmp_path / "key", tmp_path / "ledger.sqlite"
    MasterKey.generate().write(key)
    with Ledger.open(str(ledger), create=True) as opened:
        for dataset, exact in (("persons", PEOPLE_EXACT), ("units", UNITS_EXACT)):
            budget = Fraction(10)
            opened.open_dataset(
                dataset, population="a town", framework="zcdp", budget=budget, neighbours="change-one", exact=exact
            )
    command = [sys.executable, "-m", "releases.killed_often", spec, key, ledger, tmp_path, KILLS, 7]
    done = subprocess.run(
        [str(word) for word in command], env=environment(), capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["problems"] == []
    assert len(told["killed"]) == KILLS
    assert told["status"] == "official"
    reached = set(told["killed"]) & set(told["steps"])
    assert len(reached) >= COVERED * min(KILLS, len(told["steps"])), f"not reached: {set(told['steps']) - reached}"


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_command_can_be_ended_at_any_time(
    town_spec: Path, undisturbed: dict[str, bytes], prefect_home: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    command = [sys.executable, "-m", "flows.cli", "run", str(town_spec), "--out", str(tmp_path)]
    variables = environment(PREFECT_HOME=str(prefect_home))
    with subprocess.Popen(command, env=variables, start_new_session=True, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("measure units tract"):
                break
        process.send_signal(ending)
        assert process.wait(60) != 0
        rest = process.stderr.read()  # ends when Prefect's temporary server has ended too
    assert "Traceback" not in rest
    assert_nothing_half_written(tmp_path / "town", finished=False)
    time.sleep(1)
    shown = spinewise("run", town_spec, "--out", tmp_path, PREFECT_HOME=str(prefect_home))
    assert shown.returncode == 0, shown.stderr
    assert public_bytes(tmp_path / "town") == undisturbed
