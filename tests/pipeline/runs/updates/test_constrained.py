"""A version keeps what is exact: invariants, bounds, impossible cells; its companions; and pure budgets add up."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask
from releases.small import PEOPLE_EXACT, UNITS_EXACT, write_town
from releases.small import run as run_release
from releases.updated import answer_to, charged_release, key_of, update

from auditor.check.release import check_release
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.model.query import Query
from pipeline.model.schema import Attribute, Schema
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.published import open_finished, release_at
from pipeline.runs.verify import verify_release
from pipeline.spec.privacy_section import PrivacySection
from pipeline.spec.problems import Problems
from pipeline.spec.update import UpdateSection, resolve_added


@pytest.mark.slow
def test_a_version_keeps_what_is_exact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_town(
        tmp_path / "in",
        ('key = "insecure-test:1"', 'dataset = "people"'),
        ('privacy = { rho = "1" }', 'privacy = { rho = "1", dataset = "homes" }'),
    )
    place, state = str(tmp_path / "ledger.sqlite"), tmp_path / "state"
    monkeypatch.setenv("SPINEWISE_LEDGER", place)
    monkeypatch.setenv("SPINEWISE_STATE", str(state))
    with Ledger.open(place, create=True, state=state) as ledger:
        for name, subjects in (("people", PEOPLE_EXACT), ("homes", UNITS_EXACT)):
            budget = {"framework": "zcdp", "budget": Fraction(9), "neighbours": "change-one"}
            ledger.open_dataset(name, population="x", exact=subjects, **budget)  # type: ignore[arg-type]
    key = KeySource(key_of(tmp_path, 1))
    release = run_release(spec, tmp_path / "out", key_file=key.file)
    texts = ("count by block, quarters where age in child, adult", "count by tract, grown", "count by county")
    new = update(release, [ask(spec, text, "1/4", key=key) for text in texts], tmp_path / "new").root
    assert verify_release(release_at(new), 1, Silent()) == []
    assert check_release(new) == []
    manifest = open_finished(new, check_hashes=True).manifest
    assert [Fraction(one.budget) for one in manifest.privacy] == [Fraction(11, 4), 1]
    assert manifest.joint is not None
    assert Fraction(manifest.joint.budget) >= Fraction(15, 4)
    exact, before = (pd.read_parquet(root / "public/tables/total/county.parquet") for root in (new, release))
    assert (exact["total"] == before["total"]).all()
    units = Path("public/companions/units/histograms/block.parquet")
    assert (new / units).read_bytes() == (release / units).read_bytes()
    assert (new / "public/histograms/block.parquet").read_bytes() != (
        release / "public/histograms/block.parquet"
    ).read_bytes()
    assert os.environ["SPINEWISE_LEDGER"] == place


def test_pure_budgets_add_up(tmp_path: Path) -> None:
    pure = ('rho = "1"', 'framework = "pure"\nepsilon = "1"')
    quick = ("[input]", "[publish]\nreplicates = 2\n[input]")
    with charged_release(tmp_path, pure, quick, framework="pure") as (spec, release):
        answer = answer_to(spec, "count by tract where sex = f", None, epsilon="1/2")
        new = update(release, [answer], tmp_path / "new").root
    assert verify_release(release_at(new), 1, Silent()) == []
    assert check_release(new) == []
    (statement,) = open_finished(new, check_hashes=True).manifest.privacy
    assert (statement.framework, statement.budget, statement.budget_decimal) == ("pure", "3/2", "1.5")
    (noise,) = [one for one in statement.noise if one.query == answer.name]
    assert (noise.mechanism, noise.scale, noise.share) == ("discrete_laplace", "4", "1/3")


def test_a_query_with_a_condition_counts_each_cell_once_or_never() -> None:
    """By brute force over all cells."""
    schema = Schema((Attribute("age", ("0", "1", "2")), Attribute("sex", ("f", "m"))))
    answer = {
        "name": "x", "sha256": "0" * 64, "question": "count", "level": "tract", "mechanism": "discrete_gaussian",
        "by": {"age": {"attribute": "age", "groups": {"young": ["0"], "old": ["2"]}}}, "where": {"sex": ["m"]},
        "scale": "4",
    }  # fmt: skip
    section = UpdateSection.model_validate({"version": 2, "replaces": "0" * 64, "answers": [answer]})
    problems = Problems("spec")
    (added,) = resolve_added(section, schema, ["tract"], PrivacySection(rho=Fraction(1)), 1, problems)
    query = added.query
    assert problems.lines == []
    expected = [-1 if age == 1 or sex == 0 else (0 if age == 0 else 1) for age in range(3) for sex in range(2)]
    number = np.cumsum(query.asked) - 1
    found = [int(number[place]) if query.asked[place] else -1 for place in query.cell_answer]
    assert found == expected
    assert (query.n_asked, query.size) == (2, 6)
    assert query.answer_labels() == ("young", "old")
    assert np.flatnonzero(query.asked).tolist() == [0, 2]
    every = Query.parse("age * sex", schema)
    assert (every.answered, every.n_asked) == ((), every.size)
