"""Cliques from public data: what is found, what it is expected to gain beside what it gains, and what is refused."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from releases.command import spinewise
from releases.small import run
from releases.wide import ATTRIBUTES, records, write_wide

from features.marginals.cliques import AttributeSizes, filling
from features.marginals.keys import MarginalsKeys
from features.marginals.proposal import PlannedErrors, proposed, read_sample
from features.marginals.tree import stated_cliques
from pipeline.errors import InputError
from pipeline.inputs.geography import read_spine
from pipeline.model.schema import Attribute
from pipeline.privacy.budget import NoiseSpec
from pipeline.spec.release_spec import ReleaseSpec, load_spec

#: Cliques of pairs that do not depend on each other.
WEAK = (
    '[["age", "sex", "school"], ["school", "work"], ["work", "tenure", "car"], ["tenure", "rooms"]]',
    '[["age", "tenure"], ["sex", "work"], ["sex", "rooms"], ["rooms", "school"], ["sex", "car"], ["age", "car"]]',
)
DOMAIN = AttributeSizes(tuple(ATTRIBUTES), tuple(map(len, ATTRIBUTES.values())))


def _sample(folder: Path, seed: int = 11) -> Path:
    path = folder / "sample.csv"
    records(seed).drop(columns="block").to_csv(path, index=False)
    return path


def _values(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    table = records(seed)
    columns = [[ATTRIBUTES[name].index(value) for value in table[name]] for name in ATTRIBUTES]
    return np.stack([np.array(column, dtype=np.int64) for column in columns], axis=1)


def _distance(root: Path) -> float:
    """Mean total variation distance of all pairs, of the nation, of the published records from the true ones."""
    found = pq.read_table(root / "public" / "microdata.parquet").to_pandas().astype(str)
    truth = records()
    away = []
    for pair in combinations(ATTRIBUTES, 2):
        counts = [table.groupby(list(pair)).size() for table in (truth, found)]
        own, theirs = counts[0].align(counts[1], fill_value=0)
        away.append(0.5 * np.abs(own / own.sum() - theirs / theirs.sum()).sum())
    return float(np.mean(away))


def test_what_is_proposed_from_another_sample_is_nearer_to_the_truth_than_pairs_that_do_not_depend(
    tmp_path: Path,
) -> None:
    """As it is expected to be: of the spec's own cliques and of those proposed."""
    weak, like = write_wide(tmp_path / "in", WEAK), _sample(tmp_path)
    better = tmp_path / "in" / "better.toml"
    told = spinewise("plan", weak, "--cliques", "--like", like, "--write", better)
    assert told.returncode == 0, told.stderr
    assert "which must be public" in told.stdout
    planned = json.loads(spinewise("plan", weak, "--cliques", "--like", like, "--json").stdout)
    assert [list(one) for one in planned["cliques"]] == [
        [DOMAIN.names[a] for a in clique] for clique in (stated_cliques_of(load_spec(better)))
    ]
    assert all(planned["expected"][level] < 0.8 * planned["own"][level] for level in planned["own"])
    assert {frozenset(("age", "school")), frozenset(("school", "work"))} <= {
        frozenset(pair) for clique in planned["cliques"] for pair in combinations(clique, 2)
    }
    first, second = _distance(run(weak, tmp_path / "weak")), _distance(run(better, tmp_path / "better"))
    assert second < 0.8 * first


def stated_cliques_of(spec: ReleaseSpec) -> tuple[tuple[int, ...], ...]:
    part = spec.part(MarginalsKeys)
    assert part is not None
    assert part.marginals is not None
    found = stated_cliques(part.marginals, spec.universes())[1]
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(3))
def test_expected_distances_are_those_of_noisy_tables_and_of_what_is_guessed(seed: int) -> None:
    """Beside drawn noise, for a pair within cliques; and the model's error of one across them, by counting."""
    values = _values(seed)
    noise = NoiseSpec("discrete_gaussian", Fraction(9))
    plan = PlannedErrors(DOMAIN, values, len(values), (1, 4), (noise, noise))
    cliques = ((0, 2), (1, 2), (2, 3), (3, 4, 6), (4, 5))
    rng = np.random.default_rng(seed)
    # The pair tenure x car in the clique work x tenure x car: sums of three cells, each with 5 times the variance.
    drawn = rng.normal(0, np.sqrt(9 * 5 * 3), (20_000, 4))
    expected = np.abs(drawn).sum(axis=1).mean() / 2 / len(values)
    off = plan.off_by_noise((4, 6), cliques)
    assert off is not None
    assert off == pytest.approx([expected, 4 * expected], rel=0.02)
    assert plan.off_by_noise((0, 1), cliques) is None
    model = plan.off_by_model(filling(DOMAIN, cliques).bags)
    assert model.keys() == {pair for pair in plan.pairs if plan.off_by_noise(pair, cliques) is None}
    table = pd.DataFrame(values)
    counts = pd.crosstab(table[0], table[2]).to_numpy(), pd.crosstab(table[1], table[2]).to_numpy()
    guessed = np.einsum("ik,jk->ij", counts[0] / counts[0].sum(axis=0), counts[1])
    away = np.abs(guessed - pd.crosstab(table[0], table[1]).to_numpy()).sum() / 2 / len(values)
    by_chance = np.sqrt(2 / np.pi * guessed).sum() / 2 / len(values)
    assert model[0, 1] == pytest.approx(max(0, away - by_chance), abs=1e-12)


def test_a_size_limit_holds_and_an_earlier_release_will_do(tmp_path: Path) -> None:
    spec = load_spec(write_wide(tmp_path / "in"))
    root = run(Path(spec.source), tmp_path / "out")
    attributes = tuple(Attribute(name, values) for name, values in ATTRIBUTES.items())
    for most, like in ((8, _sample(tmp_path)), (1000, root), (1000, root / "public")):
        found = proposed(spec.universes(), attributes, None, read_spine(spec.geography), like, most)
        assert max(found.cells) <= max(most, max(DOMAIN.sizes))
        assert {name for names in found.names for name in names} == set(ATTRIBUTES)
        assert found.own is None
    published = pq.read_table(root / "public" / "microdata.parquet").to_pandas()
    assert len(read_sample(root, attributes, spec.universes())) == len(published)


@pytest.mark.parametrize(
    "likes", ["persons", "second name", "link in a release", "restricted", "link to restricted", "nothing", "value"]
)
def test_confidential_data_and_others_are_refused_in_one_sentence(likes: str, tmp_path: Path) -> None:
    spec, sample = write_wide(tmp_path / "in"), _sample(tmp_path)
    (tmp_path / "restricted").mkdir()
    shutil.copy(sample, tmp_path / "restricted" / "sample.csv")
    for number, file in enumerate((tmp_path / "in" / "persons.csv", tmp_path / "restricted" / "sample.csv")):
        public = tmp_path / f"release{number}" / "public"
        public.mkdir(parents=True)
        (public / "microdata.parquet").symlink_to(file)
    (tmp_path / "second.csv").hardlink_to(tmp_path / "in" / "persons.csv")
    (tmp_path / "value.csv").write_text(sample.read_text().replace("renter", "lodger"))
    like, said = {
        "persons": (tmp_path / "in" / "persons.csv", "these are the records of the release"),
        "second name": (tmp_path / "second.csv", "these are the records of the release"),
        "link in a release": (tmp_path / "release0", "these are the records of the release"),
        "link to restricted": (tmp_path / "release1" / "public", "lies in a restricted folder"),
        "restricted": (tmp_path / "restricted" / "sample.csv", "lies in a restricted folder"),
        "nothing": (tmp_path / "none.csv", "none.csv"),
        "value": (tmp_path / "value.csv", "found 'lodger'; allowed are the values of tenure: owner, renter"),
    }[likes]
    told = spinewise("plan", spec, "--cliques", "--like", like)
    assert (told.returncode, len(told.stderr.strip().splitlines())) == (2, 1)
    assert said in told.stderr


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    spec = write_wide(tmp_path / "in")
    for options, said in (
        (["--cliques"], "--cliques needs --like"),
        (["--most-cells", "9"], "--most-cells is for --cliques"),
        (["--cliques", "--like", "x", "--chart", "plan.html"], "found --cliques and --chart"),
    ):
        told = spinewise("plan", spec, *options)
        assert (told.returncode, said in told.stderr) == (2, True)


def test_parts_of_the_budget_are_not_for_cliques_that_are_proposed(tmp_path: Path) -> None:
    spec = write_wide(tmp_path / "in", ("[marginals]", '[marginals]\nparts = { "tenure * rooms" = 5 }'))
    told = spinewise("plan", spec, "--cliques", "--like", _sample(tmp_path))
    assert (told.returncode, len(told.stderr.strip().splitlines())) == (2, 1)
    assert "marginals.parts: found parts of the budget" in told.stderr


def test_a_universe_without_such_tables_is_told_so(tmp_path: Path) -> None:
    text = write_wide(tmp_path / "in").read_text()
    cut = (
        text[: text.index("[marginals]")]
        + "[strategy]\nqueries = { total = '1' }\n"
        + text[text.index("[strategy.levels]") :]
    )
    (tmp_path / "in" / "plain.toml").write_text(cut)
    told = spinewise("plan", tmp_path / "in" / "plain.toml", "--cliques", "--like", _sample(tmp_path))
    assert (told.returncode, "--cliques is for specs whose tables are cliques" in told.stderr) == (2, True)


def test_what_a_sample_must_have_is_asked_of_every_column(tmp_path: Path) -> None:
    spec = load_spec(write_wide(tmp_path / "in"))
    attributes = tuple(Attribute(name, values) for name, values in ATTRIBUTES.items())
    sample = _sample(tmp_path)
    np.testing.assert_array_equal(read_sample(sample, attributes, spec.universes()), _values(11))
    pd.read_csv(sample).drop(columns="car").to_csv(sample, index=False)
    with pytest.raises(InputError, match="car"):
        read_sample(sample, attributes, spec.universes())
