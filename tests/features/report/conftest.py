"""The page of the town with maps in it; what is open in it has nothing to complain of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from releases.browser import Opened, opened
from releases.mapped import write_mapped_town
from releases.once import release_once, spec_once

from pipeline.reading.release import Release, open_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of the town with outlines of its areas."""
    spec = spec_once(tmp_path_factory, "mapped", write_mapped_town)
    return open_release(release_once(tmp_path_factory, "mapped", spec))


@pytest.fixture
def shown(browser: Any, release: Release) -> Iterator[Opened]:
    """Its report, opened."""
    found = opened(browser, release.report)
    yield found
    assert found.complaints == []
