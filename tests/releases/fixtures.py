"""Runs of the small town, one with names, and of towns with wages and jobs, for tests that only look at them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from releases.browser import chromium
from releases.jobs import write_jobs
from releases.named import write_named_town
from releases.once import release_once, spec_once
from releases.small import run, write_town
from releases.wages import BALANCES, write_wages


@pytest.fixture(scope="session")
def town_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the town."""
    return spec_once(tmp_path_factory, "town", write_town)


@pytest.fixture(scope="session")
def town(town_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release; copy it before changing anything."""
    return release_once(tmp_path_factory, "town", town_spec)


@pytest.fixture(scope="session")
def named_town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the town with names and labels, for reading only; tests that change files take a copy."""
    folder = tmp_path_factory.mktemp("named")
    language = ('title = "The', 'language = "en"\ntitle = "The')
    return run(write_named_town(folder / "town", language), folder / "out")


@pytest.fixture(scope="session")
def amounts_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of a town with the wages of its persons, with a public test key."""
    return spec_once(tmp_path_factory, "wages", write_wages)


@pytest.fixture(scope="session")
def amounts(amounts_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release."""
    return release_once(tmp_path_factory, "wages", amounts_spec)


@pytest.fixture(scope="session")
def balances_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of the same town with amounts of either sign."""
    return spec_once(tmp_path_factory, "balances", lambda folder: write_wages(folder, *BALANCES))


@pytest.fixture(scope="session")
def balances(balances_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release."""
    return release_once(tmp_path_factory, "balances", balances_spec)


@pytest.fixture(scope="session")
def jobs_spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The spec of a town of jobs, of which a person has several."""
    return spec_once(tmp_path_factory, "jobs", write_jobs)


@pytest.fixture(scope="session")
def jobs(jobs_spec: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of its release."""
    return release_once(tmp_path_factory, "jobs", jobs_spec)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser; not of the session, as whatever runs beside it could start no event loop of its own."""
    with chromium() as found:
        yield found
