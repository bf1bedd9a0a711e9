"""The keys of shares in a spec: what they mean, what is refused, and that they travel to other processes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from releases.command import spinewise
from releases.shared_town import write_shared_town

from features.shares.keys import SharesKeys
from features.shares.public_share import shares_of
from pipeline.errors import SpecError
from pipeline.estimation.constraints import Known, distinguished_by_inputs
from pipeline.publishing.public_inputs import PUBLIC_INPUTS, inputs_of, named_inputs
from pipeline.spec.release_spec import ReleaseSpec, load_spec, parse_spec
from pipeline.spec.slots import Slots

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
            'levels = ["state", "street"]\ncolumn = "homes"\nquery = "sex"\nanswers = ["c"]',
            [
                "homes.levels: found 'state'; the file's numbers, of level 'block', tell the shares of 'block'",
                "homes.levels: 'street' is not a level; the levels are state, block",
                "homes.answers: 'c' is not an answer of 'sex'; allowed are a, b",
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
                "query, column, answers, columns, use"
            ],
        ),
    ],
)
def test_each_mistake_has_its_message(keys: str, lines: list[str]) -> None:
    with pytest.raises(SpecError) as error:
        parse_spec(SPEC + keys)
    assert str(error.value).splitlines() == [f"spec: postprocess.shares.{line}" for line in lines]


def test_a_typing_mistake_names_the_keys_of_all_features() -> None:
    with pytest.raises(SpecError, match=r"share: unknown key; did you mean 'shares'\? allowed .* seed, shares"):
        parse_spec(SPEC.replace("postprocess.shares", "postprocess.share") + 'column = "homes"')


def test_without_the_feature_they_are_refused_in_one_sentence() -> None:
    """Also those of a release that was made with it."""
    without = Slots((), {"postprocess.shares": "shares"})
    sentence = (
        "postprocess.shares: is of shares, which this installation is without; there is no folder features/shares"
    )
    text = SPEC + 'column = "homes"'
    with pytest.raises(SpecError) as error:
        parse_spec(text, slots=without)
    assert str(error.value) == f"spec: {sentence}"
    with pytest.raises(SpecError) as error:
        ReleaseSpec.from_public_dict(parse_spec(text).public_dict(), "manifest", without)
    assert str(error.value) == f"manifest: {sentence}"


def test_those_that_are_turned_off_say_nothing() -> None:
    spec = parse_spec(SPEC + 'column = "homes"\nuse = false')
    assert spec.postprocess.part(SharesKeys) is not None
    (universe,) = spec.universes()
    assert universe.facts == ()
    assert [one.name for one in named_inputs(spec)] == ["geography", "schema"]


def _stated(spec: ReleaseSpec) -> tuple[list[str], list[tuple[str, tuple[str, ...]]], bool]:
    """What another process sees of a spec that it was handed."""
    (universe, *_) = spec.universes()
    keys = spec.postprocess.part(SharesKeys)
    assert keys is not None
    known = [(share.name, share.levels) for share in shares_of(universe)]
    return list(keys.shares or {}), known, multiprocessing.parent_process() is not None


def test_they_travel_to_spawned_processes(tmp_path: Path) -> None:
    spec = load_spec(write_shared_town(tmp_path))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        names, known, elsewhere = pool.submit(_stated, spec).result()
    assert elsewhere
    assert (names, known, False) == _stated(spec)
    assert known == [("beds", ("county", "tract", "block")[-len(known[0][1]) :]), ("quarters", ("block",))]


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


def test_their_public_input_stands_after_the_bounds(tmp_path: Path) -> None:
    keys = [one.key for one in inputs_of(load_spec(write_shared_town(tmp_path)))]
    assert keys[keys.index("bounds") + 1] == "shares"
    assert [key for key in keys if key != "shares"] == [one.key for one in PUBLIC_INPUTS]


@pytest.mark.slow
def test_a_run_with_workers_of_its_own_is_the_same(tmp_path: Path) -> None:
    """The measuring process and the workers are started by a program that reads the spec itself."""
    made = []
    for count in (1, 2):
        folder = tmp_path / str(count)
        folder.mkdir()
        spec = write_shared_town(folder)
        done = spinewise("run", spec, "--out", folder / "out", "--no-prefect", "--quiet", "--workers", count)
        public = Path(done.stdout.strip()) / "public"
        made.append({path.relative_to(public): path.read_bytes() for path in public.rglob("*.parquet")})
    assert made[0] == made[1]
    assert Path("shares/beds.parquet") in made[0]
