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
from oracles.how_many import OF_A_VERSION, seed_of_commit
from releases.command import environment, spinewise
from releases.killed import kill_at
from releases.small import PEOPLE_EXACT, QUICK, UNITS_EXACT, public_bytes, run, write_town

from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import check_public_files


@pytest.fixture(scope="module")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The town without cvxpy's second opinion, which takes most of the time of a run: this is made over forty times."""
    return write_town(tmp_path_factory.mktemp("town"), *QUICK[1:])


@pytest.fixture(scope="module")
def undisturbed(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The public files of a run of it that nothing interrupted."""
    return public_bytes(run(town_spec, tmp_path_factory.mktemp("undisturbed")))


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
@pytest.mark.parametrize(("event", "number"), [("start", 1), ("sync", 70), ("finish", 15), ("advance", 24)])
def test_a_killed_run_is_gone_on_with(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, event: str, number: int
) -> None:
    assert kill_at(town_spec, tmp_path, event, number)
    assert_nothing_half_written(tmp_path / "town")
    assert public_bytes(run(town_spec, tmp_path)) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_killed_before_its_report_makes_the_same_one(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, workers: int
) -> None:
    """The step before it, which is not done again, begins what the report is made of."""
    assert kill_at(town_spec, tmp_path, "finish package", 1)
    left = RunDirectory(tmp_path / "town")
    assert left.package.exists()
    assert not left.report.exists()
    assert_nothing_half_written(left.root)
    assert public_bytes(run(town_spec, tmp_path, workers=workers)) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize(("event", "step"), [("start", 5), ("sync", 37), ("advance", 11)])
def test_it_does_not_matter_where(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path, event: str, step: int
) -> None:
    """A process is killed at its first event, another at a later one, and so on until one gets through."""
    number = 1
    while kill_at(town_spec, tmp_path / str(number), event, number):
        assert_nothing_half_written(tmp_path / str(number) / "town")
        assert public_bytes(run(town_spec, tmp_path / str(number))) == undisturbed
        number += step
    assert number > 20


@pytest.mark.slow
def test_a_run_that_is_killed_many_times_ends_all_the_same(
    town_spec: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    kills = 0
    while kill_at(town_spec, tmp_path, "sync", 40):
        assert_nothing_half_written(tmp_path / "town")
        kills += 1
        assert kills < 40, "the run does not get further"
    assert kills >= 3
    assert public_bytes(tmp_path / "town") == undisturbed


#: Kills: of a version, so many that most steps have one; else in some of the steps, which are others with each commit.
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
            opened.open_dataset(
                dataset,
                population="a town",
                framework="zcdp",
                budget=Fraction(10),
                neighbours="change-one",
                exact=exact,
            )
    seed = 7 if OF_A_VERSION else seed_of_commit()
    command = [sys.executable, "-m", "releases.killed_often", spec, key, ledger, tmp_path, KILLS, seed]
    done = subprocess.run(
        [str(word) for word in command], env=environment(), capture_output=True, text=True, timeout=1800, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["problems"] == [], f"seed {seed}"
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
