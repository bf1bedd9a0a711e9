"""The keys of shares in a spec: what they mean, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from releases.shared_town import write_shared_town

from features.shares.public_share import shares_of
from pipeline.errors import SpecError
from pipeline.estimation.constraints import Known, distinguished_by_inputs
from pipeline.spec.release_spec import load_spec, parse_spec

SPEC = """name = "x"
[privacy]
rho = "1"
[geography]
file = "areas.csv"
levels = ["state", "block"]
[schema.attributes]
sex = ["a", "b"]
[strategy]
queries = { total = "1" }
levels = { state = "1/2", block = "1/2" }
[postprocess.shares.homes]
file = "homes.csv"
level = "block"
"""


@pytest.mark.parametrize(
    ("keys", "lines"),
    [
        (
            'levels = ["state", "street"]\nquery = "sex"\ncolumns = { c = "homes" }',
            [
                "homes.levels: found 'state'; the file's numbers, of level 'block', tell the shares of 'block'",
                "homes.levels: 'street' is not a level; the levels are state, block",
                "homes.columns: 'c' is not an answer of 'sex'; allowed are a, b",
            ],
        ),
        ("", ["homes.column: found neither of column and columns; one of the two is needed"]),
        (
            'column = "homes"\n[postprocess.shares.HOMES]\nfile = "homes.csv"\nlevel = "state"\n'
            'columns = { total = "homes" }',
            [
                "HOMES: differs from 'homes' in capital letters only; names must differ by more",
                "HOMES.level: found 'state', the top level, which has no siblings; name one below it",
            ],
        ),
        (
            'colum = "homes"',
            [
                "homes.colum: unknown key; did you mean 'column'? allowed here are file, level, levels, geocode, "
                "query, column, columns"
            ],
        ),
    ],
)
def test_each_mistake_has_its_message(keys: str, lines: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC + keys)
    assert str(error.value).splitlines() == [f"spec: postprocess.shares.{line}" for line in lines]


def test_the_own_universe_alone_knows_them(tmp_path: Path) -> None:
    spec = load_spec(write_shared_town(tmp_path))
    job = cast("Any", SimpleNamespace(links=spec.links()))
    found = {}
    for universe in spec.universes():
        knowledge = Known.of(job, universe, cast("Any", None), cast("Any", None)).knowledge
        found[universe.name] = [type(one).__name__ for one in knowledge]
    assert found == {"": ["BoundedByFacilities", "PublicShares"], "units": ["BoundedByFacilities"]}
    (main, units) = spec.universes()
    apart = distinguished_by_inputs(main)
    assert [query.size for query in apart][-2:] == [share.query.size for share in shares_of(main)]
    assert len(apart) == len(distinguished_by_inputs(replace(main, facts=()))) + 2
    assert distinguished_by_inputs(units) == distinguished_by_inputs(replace(units, facts=()))
