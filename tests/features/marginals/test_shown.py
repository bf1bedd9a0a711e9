"""Which attributes were measured together, on the page: against the declared cliques, and as people read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from releases.browser import chromium, opened
from releases.made_case import made_case
from releases.policy import runs_its_own_scripts_alone
from releases.wide import ATTRIBUTES, DECLARED, write_wide

from features.marginals.shown import MarginalsView, marginals_view
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import load_spec

#: A ring, which is filled in.
RING = 'cliques = [["age", "sex"], ["sex", "work"], ["work", "car"], ["car", "age"], ["school"], ["tenure", "rooms"]]'


@pytest.fixture
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a release with two attributes that have labels."""
    return RunDirectory(made_case(tmp_path_factory, "marginals") / "out" / "wide").report


@pytest.fixture
def view(tmp_path: Path) -> Callable[..., MarginalsView]:
    """The section of a spec with other cliques."""

    def of(cliques: str) -> MarginalsView:
        spec = load_spec(write_wide(tmp_path / "in", (DECLARED, cliques)))
        facts: Any = SimpleNamespace(spec=spec, universes=spec.universes())
        stated = next(part.marginals for part in spec.of_features if hasattr(part, "marginals"))
        found = marginals_view(stated, facts)
        assert found is not None
        return found

    return of


def test_what_is_filled_in_is_no_measurement(view: Callable[..., MarginalsView]) -> None:
    """Pairs within a table that is only estimated are told apart from measured ones and from guesses."""
    found = view(f"{RING}\nfill = true")
    assert [table.measured for table in found.tables] == [True] * 6 + [False] * 2
    alone = [table.number for table in found.tables if not table.measured]
    age, sex, work, car = (list(ATTRIBUTES).index(name) for name in ("age", "sex", "work", "car"))
    sides = [(age, sex), (sex, work), (work, car), (car, age)]
    assert [found.pairs[a][b].measured for a, b in sides] == [True] * 4  # type: ignore[union-attr]
    across = [found.pairs[a][b] for a, b in ((age, work), (sex, car))]
    assert sorted((pair.measured, pair.tables) for pair in across if pair) == [(False, ()), (False, tuple(alone))]
    assert (found.n_pairs, found.n_measured, found.n_guessed) == (21, 5, 15)
    assert len(found.needed) == 15


@pytest.mark.slow
def test_the_page_in_a_browser(page: Path, tmp_path: Path) -> None:
    """At the width of a telephone the matrix scrolls in its frame, and its row heads stay; no other script runs."""
    with chromium() as browser:
        runs_its_own_scripts_alone(browser, page, tmp_path, ready=True)
        narrow = opened(browser, page, width=360).page
        assert narrow.evaluate("document.documentElement.scrollWidth") <= 360
        left = "document.querySelector('.matrix tbody th').getBoundingClientRect().left"
        before = narrow.evaluate(left)
        moved = narrow.evaluate(
            "(() => { const one = document.querySelector('.matrix').parentElement; one.scrollLeft = 60; "
            "return one.scrollLeft; })()"
        )
        assert moved > 0
        assert narrow.evaluate(left) == before
