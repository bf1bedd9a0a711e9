"""What a run refuses unless it is told that it is meant: large budgets, large deltas, promises that say nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from releases.small import request_of, write_town

from pipeline.errors import SpecError
from pipeline.privacy.limits import beyond_limits
from pipeline.runs.request import check_request
from pipeline.spec.release_spec import load_spec, parse_spec

SECRET = ('key = "insecure-test:1"', "")
UNITS_RHO = 'privacy = { rho = "1" }'

BEYOND = [
    ([('rho = "2"', 'rho = "4.1"')], "privacy.rho: found 5.1 over all universes; at most 5 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-4"')], "privacy.delta: found 0.0001; at most 1e-05 is usual"),
    ([('rho = "2"', 'rho = "2"\ndelta = "1e-6"\npopulation = 1000000')], r"privacy.delta: .* less than 1 / 1,000,000"),
    (
        [('rho = "2"', 'framework = "pure"\nepsilon = "10"'), (UNITS_RHO, 'privacy = { epsilon = "1" }')],
        "privacy.epsilon: found 11 over all universes; at most 10 is usual",
    ),
    ([('block = ["total"]', 'block = ["status"]')], "companions.units.invariants: no record can change"),
]


@pytest.mark.parametrize(("changes", "says"), BEYOND)
def test_it_is_refused_before_anything_is_read_unless_it_is_meant(
    tmp_path: Path, changes: list[tuple[str, str]], says: str
) -> None:
    spec = write_town(tmp_path, SECRET, *changes)
    with pytest.raises(SpecError, match=rf"release\.toml: {says}.*--i-know"):
        request_of(spec, tmp_path)
    request = request_of(write_town(tmp_path / "usual", SECRET), tmp_path).request
    assert check_request(replace(request, spec=spec, i_know=True)).spec.name == "town"
    assert beyond_limits(load_spec(spec).universes())
    assert request_of(write_town(tmp_path / "test", *changes), tmp_path).universes, "a test key protects nobody"


@pytest.mark.parametrize("companion", [False, True])
def test_adding_and_removing_with_invariants_is_no_spec(tmp_path: Path, companion: bool) -> None:
    """No two neighbours agree on an invariant: whatever the noise, the guarantee compares nothing."""
    text = write_town(tmp_path, ('rho = "2"', 'rho = "2"\nneighbours = "add-remove"')).read_text()
    gone = '[invariants]\ncounty = ["total"]\n' if companion else 'invariants = { block = ["total"] }'
    key = "companions.units.invariants" if companion else "invariants"
    with pytest.raises(SpecError, match=rf"^town\.toml: {key}: with neighbours = \"add-remove\".*compare nothing"):
        parse_spec(text.replace(gone, ""), "town.toml")
