"""The page of the town with maps in it; what is open in it has nothing to complain of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from releases.browser import Opened, opened
from releases.mapped import write_mapped_town
from releases.small import run

from pipeline.reading.release import Release, open_release


@pytest.fixture(scope="module")
def mapped_town(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of the town with outlines of its areas."""
    spec = write_mapped_town(tmp_path_factory.mktemp("mapped"))
    return open_release(run(spec, tmp_path_factory.mktemp("released")))


@pytest.fixture
def shown(browser: Any, mapped_town: Release) -> Iterator[Opened]:
    """Its report, opened."""
    found = opened(browser, mapped_town.report)
    yield found
    assert found.complaints == []
