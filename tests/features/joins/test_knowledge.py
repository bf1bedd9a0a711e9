"""Persons and households of one release agree, whatever the noise; intervals; records that break a join."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from releases.command import needs
from releases.homes import SPEC, broken, write_homes
from releases.made_case import made_case
from releases.mutant import resealed
from releases.small import request_of, run

from features.joins.confidential import JoinChecks
from features.joins.link import Households
from flows.checks.validation import validate
from pipeline.confidential import measure
from pipeline.errors import InputError, RefusedError
from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import ReleaseSpec, parse_spec

#: Not even the top is exact.
NOTHING_EXACT = ('[invariants]\ncounty = ["total"]\n\n', "")


def released(spec: Path, out: Path) -> Path:
    return run_release(check_request(Request(spec, out, None, 1, i_know=True)), Silent())


def rho_of_both(rho: str) -> tuple[tuple[str, str], ...]:
    """Persons and households have this budget."""
    return ('rho = "2"\nkey', f'rho = "{rho}"\nkey'), ('privacy = { rho = "2" }', f'privacy = {{ rho = "{rho}" }}')


@pytest.mark.slow
@pytest.mark.parametrize("rho", ["1/20", "1/2"])
def test_whatever_the_noise(tmp_path: Path, rho: str) -> None:
    """And apart from each other the two do not agree."""
    tables_alone = ("replicates = 2", "margins = false\nmicrodata = false")
    spec = write_homes(tmp_path, NOTHING_EXACT, *rho_of_both(rho), tables_alone)
    assert broken(released(spec, tmp_path / "out")) == []
    text = spec.read_text()
    spec.write_text(text[: text.index("[[join]]")].replace('name = "homes"', 'name = "apart"'))
    assert broken(released(spec, tmp_path / "out"))


@needs("report")
def test_the_manifest_states_what_a_household_costs(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    """Eight members, and one of the two records of households that a person alters."""
    root = made_case(tmp_path_factory, "homes") / "out" / "homes"
    (statement,) = read_manifest(root / "public" / "manifest.json").households
    assert (statement.of, statement.records) == ("homes", 8)
    assert Fraction(statement.budget) == 2 * 8**2 + Fraction(2, 2**2)
    page = (root / "public/report.html").read_text()
    assert re.search(
        r"A household: the effect of (changing|adding or removing) one household of at most 8 members", page
    )
    changed = shutil.copytree(root, tmp_path / "homes")
    resealed(changed, lambda manifest: manifest["households"][0].update(epsilon="1.0000"))
    problems = verify_release(RunDirectory(changed), 1, Silent())
    assert "public/manifest.json: households is not what the spec gives" in problems


def test_more_households_than_the_exact_population_is_found_before_anything_is_spent(tmp_path: Path) -> None:
    exact = ("records_per_person = 2", 'records_per_person = 2\ninvariants = { county = ["size"] }')
    spec = write_homes(tmp_path, exact)
    persons, homes = (pd.read_csv(tmp_path / f"{name}.csv", dtype=str) for name in ("persons", "homes"))
    sizes = homes["size"][homes["block"].str.startswith("A")]
    least = int(sizes.str[0].astype(int).sum())
    there = persons["block"].str.startswith("A")
    fewer = persons[there].iloc[: least - 1]  # one person fewer than there must be
    pd.concat([fewer, persons[~there]]).to_csv(tmp_path / "persons.csv", index=False)
    with pytest.raises(RefusedError) as caught:
        released(spec, tmp_path / "out")
    reason = caught.value.reason()
    assert "county A: the joins with 'homes' cannot be kept" in reason
    assert f'of persons, "invariant total" is {least - 1:,}; of homes' in reason
    assert f"{(sizes == '1').sum():,}, {(sizes == '2').sum():,}" in reason
    assert not list((tmp_path / "out").rglob("measurements"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "codes"),
    [
        ((('solver = "batched"', 'solver = "batched"\nestimator = "topdown"'),), ()),
        ((('solver = "batched"', 'solver = "cvxpy"'),), ()),
        ((("[strategy]", '[invariants]\ncounty = ["total", "residence"]\n\n[strategy]'),), ()),
        ((), ("B0", "A1")),
        ((("block = 5 }", "block = 5 }\nbypass = true"),), ("A0304", "A0401")),
    ],
    ids=["topdown", "cvxpy", "exact at the top", "one top", "bypass of a tract of one block"],
)
def test_however_it_is_estimated(tmp_path: Path, changes: tuple[tuple[str, str], ...], codes: tuple[str, ...]) -> None:
    few = ("replicates = 2", "replicates = 1")
    spec = write_homes(tmp_path, NOTHING_EXACT, *rho_of_both("1/3"), few, *changes)
    for path in tmp_path.glob("*.csv") if codes else ():
        path.write_text(path.read_text().replace(codes[0], codes[1]))
    assert broken(released(spec, tmp_path / "out")) == []


OPEN_SIZES = """
name = "town"
[privacy]
rho = "1"
key = "insecure-test:3"
[geography]
file = "blocks.parquet"
levels = ["town", "tract", "block"]
[schema.attributes]
sex = ["female", "male"]
[strategy]
queries = { total = "1" }
levels = { town = "1/4", tract = "1/4", block = "1/2" }
[input]
file = "persons.parquet"
form = "long"
geocode = "block"
[tables]
total = "total"
[publish]
microdata = false
replicates = 8
[companions.homes.privacy]
rho = "1"
[companions.homes.schema.attributes]
size = ["1", "2", "3", "4", "5+"]
[companions.homes.strategy]
queries = { size = "1" }
levels = { town = "1/4", tract = "1/4", block = "1/2" }
[companions.homes.input]
file = "homes.parquet"
form = "long"
geocode = "block"
[companions.homes.tables]
total = "total"
[[join]]
companion = "homes"
size = "size"
most = 40
mean = "7"
"""


def write_town(folder: Path, *, tracts: int, blocks: int) -> np.ndarray:
    """In every second tract two thirds of the households are of "5+", in the others none; blocks are alike in size.

    Returns:
        `(tracts, blocks, 5)` households by size.
    """
    rng = np.random.default_rng(5)
    shares = np.array([[0.25, 0.25, 0.25, 0.25, 0.0], [0.08, 0.09, 0.08, 0.08, 0.67]])
    sizes = rng.integers(30, 150, (tracts, blocks))
    homes = np.stack([rng.multinomial(own, shares[tract % 2]) for tract, own in enumerate(sizes)])
    # Geometric beyond 5, of a mean that differs by a quarter between tracts.
    mean = 2.0 * rng.gamma(16.0, 1 / 16.0, (tracts, 1))
    beyond = np.where(homes[:, :, 4] > 0, rng.negative_binomial(np.maximum(homes[:, :, 4], 1), 1 / (1 + mean)), 0)
    persons = homes @ np.arange(1, 6) + beyond
    names = np.array([[f"t{tract}b{block}" for block in range(blocks)] for tract in range(tracts)])
    of_tract = [f"t{tract}" for tract in range(tracts) for _ in range(blocks)]
    codes = {"town": ["t"] * names.size, "tract": of_tract, "block": names.ravel()}
    pq.write_table(pa.table(codes), folder / "blocks.parquet")
    for name, attribute, values, counts in (
        ("persons", "sex", ["female", "male"], np.stack([persons // 2, persons - persons // 2], axis=2)),
        ("homes", "size", ["1", "2", "3", "4", "5+"], homes),
    ):
        tract, block, cell = np.nonzero(counts)
        columns = {"block": names[tract, block], attribute: np.array(values)[cell], "count": counts[tract, block, cell]}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return homes


def test_totals_have_wider_intervals_where_many_households_are_of_an_open_size(tmp_path: Path) -> None:
    """Persons tell how many households there are where each has a known size, and little where most are of "5+"."""
    homes = write_town(tmp_path, tracts=12, blocks=14)
    (tmp_path / "town.toml").write_text(OPEN_SIZES, encoding="utf-8")
    root = run_release(check_request(Request(tmp_path / "town.toml", tmp_path / "out", None, 1, i_know=True)), Silent())
    table = pq.read_table(root / "public/companions/homes/tables/total/block.parquet").to_pandas()
    place = table["geocode"].str.extract(r"t(\d+)b(\d+)").astype(int).to_numpy()
    true = homes.sum(axis=2)[place[:, 0], place[:, 1]]
    half = (table["total:high90"] - table["total:low90"]).to_numpy() / 2
    error = table["total"].to_numpy() - true
    is_open = place[:, 0] % 2 == 1
    assert half[is_open].mean() > 1.4 * half[~is_open].mean()
    for kind in (is_open, ~is_open):
        # 1.645 standard errors of either kind, and what whole numbers add.
        assert 1.4 < half[kind].mean() / np.sqrt(np.mean(error[kind] ** 2)) < 2.0


def histograms(persons: dict[str, int], homes: dict[str, int], n: int = 3) -> tuple[sp.csr_array, sp.csr_array]:
    """Of either universe counts of cells, by label, in the second of `n` geounits; the others are empty."""
    found = []
    for universe, counts in zip(parse_spec(SPEC).universes(), (persons, homes), strict=True):
        cells = np.zeros((n, universe.schema.n_cells), dtype=np.int64)
        for label, count in counts.items():
            cells[1, universe.schema.cell_labels().index(label)] = count
        found.append(sp.csr_array(cells))
    first, second = found
    return first, second


def said_of(spec: ReleaseSpec, persons: dict[str, int], homes: dict[str, int]) -> list[str]:
    """What a run says of these counts."""
    (link,) = (one for one in spec.links() if isinstance(one, Households))
    pairs = partial(measure._answer_pairs, *histograms(persons, homes))
    return JoinChecks().broken(link, pairs, "block", CODES)


CODES = np.array(["A0101", "A0102", "A0103"])
COUPLE = {"2 * adult * no": 3}


def told(join: str, found: str, implied: str) -> str:
    """What is said of the second geounit."""
    place = "the records break it in 1 geounit of level 'block', first in A0102"
    return f"join 'homes {join}': {place}: {found}, where its households imply {implied}"


@pytest.mark.parametrize("held", [1, 1 << 22])
@pytest.mark.parametrize(
    ("persons", "homes", "others", "says"),
    [
        ({"adult * household": 6}, COUPLE, False, []),
        ({"adult * household": 6, "adult * quarters": 50}, COUPLE, False, []),
        ({"adult * household": 8}, {"4+ * adult * no": 1}, False, []),
        ({"adult * household": 7}, COUPLE, False, [("size", "7 persons in 'household'", "6 to 6")]),
        (
            {"adult * household": 2, "old * household": 4}, COUPLE, False,
            [("householder", "2 persons in 'adult * household'", "3 or more")],
        ),
        (
            {"adult * household": 5, "child * household": 1}, COUPLE, False,
            [("children", "1 person in 'child * household'", "0 to 0")],
        ),
        ({"adult * household": 9}, COUPLE, True, []),
        ({"adult * household": 5}, COUPLE, True, [("size", "5 persons in 'household'", "6 or more")]),
    ],
)  # fmt: skip
def test_what_breaks_a_join_is_told(
    persons: dict[str, int],
    homes: dict[str, int],
    others: bool,
    says: list[tuple[str, str, str]],
    held: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where others count too, only that there are too few."""
    monkeypatch.setattr(measure, "ANSWERS_AT_ONCE", held)
    text = SPEC.replace('companion = "homes"\n', 'companion = "homes"\nothers = true\n') if others else SPEC
    assert said_of(parse_spec(text), persons, homes) == [told(*one) for one in says]


def test_a_run_tells_the_agency_alone(tmp_path: Path) -> None:
    spec = write_homes(tmp_path)
    records = pd.read_csv(tmp_path / "persons.csv", dtype=str)
    home = records[(records["residence"] == "household")].sort_values("block").iloc[0]
    gone = (records["block"] == home["block"]) & (records["residence"] == "household")
    records[~gone].to_csv(tmp_path / "persons.csv", index=False)
    directory = RunDirectory(run(spec, tmp_path / "out"))
    told = directory.warnings.read_text()
    assert told.count("\n") == 3
    assert f"join 'homes size': the records break it in 1 geounit of level 'block', first in {home['block']}: 0" in told
    assert directory.warnings.is_relative_to(directory.root / "restricted")
    assert not any("break it" in path.read_text(errors="ignore") for path in directory.public.rglob("*.json"))


#: A householder told apart by two attributes, beside sizes and children, limits sets of groups that are no product.
CHANGES = (
    ('residence = ["household", "quarters"]', 'residence = ["household", "quarters"]\nsex = ["f", "m"]'),
    ('head = ["adult", "old"], children', 'head = ["adult", "old"], head_sex = ["f", "m"], children'),
    ('householder = { age = "head" }', 'householder = { age = "head", sex = "head_sex" }'),
)


def test_limits_that_no_query_can_state_are_refused(tmp_path: Path) -> None:
    spec = write_homes(tmp_path / "spec", *CHANGES)
    with pytest.raises(InputError, match=r"joins: the households limit a set of groups .* that no query can state"):
        request_of(spec, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert any("that no query can state" in finding.text for finding in validate(None, spec).findings)
