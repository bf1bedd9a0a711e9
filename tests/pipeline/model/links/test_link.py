"""The order in which universes are released, by generation; and whose records a universe is of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from pipeline.model.link import Link, counted_by, released_in_order
from pipeline.model.universe import Universe


def link(of: str, by: str, *, same_records: bool = False) -> Link:
    """A link of a kind that no release has."""
    return cast("Any", SimpleNamespace(of=of, by=by, same_records=same_records))


def universes(names: list[str]) -> list[Universe]:
    return cast("Any", [SimpleNamespace(name=name) for name in names])


def order(names: list[str], links: list[Link]) -> list[str]:
    return [universe.name for universe in released_in_order(universes(names), links)]


@st.composite
def releases(draw: st.DrawFn) -> tuple[list[str], list[Link]]:
    """The release's own and companions; links that no universe waits for itself by."""
    names = ["", *draw(st.permutations("abcdef"))]
    rank = draw(st.permutations(names))
    pairs = [(later, earlier) for i, later in enumerate(rank) for earlier in rank[:i]]
    return names, [link(*pair) for pair in draw(st.lists(st.sampled_from(pairs), max_size=8))]


@given(releases())
def test_each_universe_comes_once_and_after_those_by_which_it_is_known(release: tuple[list[str], list[Link]]) -> None:
    names, links = release
    found = order(names, links)
    assert sorted(found) == sorted(names)
    for one in links:
        assert found.index(one.by) < found.index(one.of)


def test_sums_are_of_the_records_that_are_counted_and_households_of_their_own() -> None:
    links = [link("", "homes"), link("wages", "", same_records=True)]
    assert [counted_by(name, links) for name in ("", "homes", "wages", "beds")] == ["", "homes", "", "beds"]
