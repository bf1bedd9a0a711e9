"""Runs of the small town, and one with names, for tests that only look at them; keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oracles.postgresql import NoServerError, server

from pipeline.signatures.signing_keys import SigningKey
from releases.browser import chromium
from releases.named import write_named_town
from releases.once import release_once, spec_once
from releases.pages import everything_marked
from releases.signed import made_keys, signed_copy
from releases.small import run, write_town


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
def key() -> SigningKey:
    """A key to sign with."""
    return SigningKey.generate("statistics.example/releases")


@pytest.fixture(scope="module")
def signing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an agency's keys."""
    return made_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def signed_town(town: Path, signing: Path, tmp_path: Path) -> Path:
    """A copy of the town's release that the agency has signed."""
    return signed_copy(town, signing, tmp_path / "town")


@pytest.fixture
def marked() -> Iterator[None]:
    """Whatever the catalogue says has signs around it."""
    with everything_marked():
        yield


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The address of a server of databases, where PostgreSQL is installed."""
    try:
        with server() as url:
            yield url
    except NoServerError as error:
        pytest.skip(f"no PostgreSQL server: {error}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The browser; not of the session, as whatever runs beside it could start no event loop of its own."""
    with chromium() as found:
        yield found
