"""One folder for Prefect, so that its database is set up once, and one undisturbed run of the town."""

from __future__ import annotations

from pathlib import Path

import pytest
from releases.small import QUICK, public_bytes, run, write_town


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PREFECT_HOME of the runs by the command line."""
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town without cvxpy's second opinion, which takes most of the time of a run."""
    return write_town(tmp_path_factory.mktemp("town"), *QUICK[1:])


@pytest.fixture(scope="session")
def undisturbed(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The public files of a run of the town that nothing interrupted."""
    return public_bytes(run(town_spec, tmp_path_factory.mktemp("undisturbed")))
