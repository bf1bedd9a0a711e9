"""Specs of surveys, and a mixed design: a central release above, reports below; both promises, no other counts."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.asked import ledger_of
from releases.command import feature_module
from releases.made_case import made_case
from releases.mixed import MixedSurvey, write_mixed
from releases.small import run
from releases.survey import write_survey, write_words

from features.local.collect.listed import DirectEncoding
from features.local.collected import CollectedAnswers
from features.local.confidential import allowed_difference
from features.local.survey import ErrorsOfReports, Survey, survey_of
from pipeline.errors import InputError, RefusedError, SpecError
from pipeline.execution.steps import Silent
from pipeline.model.strategy import Central
from pipeline.model.universe import Universe
from pipeline.privacy.accounting.statements import privacy_statements
from pipeline.privacy.budget import Framework
from pipeline.privacy.limits import beyond_limits
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, public_files, read_manifest, write_manifest
from pipeline.release.privacy_statement import privacy_statement
from pipeline.release.status import EXAMPLE, FROM_RECORDS, UNCHARGED
from pipeline.runs.verify import verify_release
from pipeline.spec.release_spec import load_spec
from pipeline.storage.files import canonical_json


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A spec of answers, of words, and of a mixed design."""
    folder = tmp_path_factory.mktemp("specs")
    paths = {
        "answers": write_survey(folder / "answers").spec,
        "words": write_words(folder / "words").spec,
        "mixed": write_mixed(folder / "mixed").survey.spec,
    }
    return {name: path.read_text() for name, path in paths.items()}


_STRATEGY = """[strategy]
queries = { answer = "1" }
levels = { county = "0", tract = "1/2", block = "1/2" }

[publish]"""
_CENTRAL = '[collect.central]\nrelease = "register"\nrho = "1"\nlevels = { county = "1" }\n\n[input]'


@pytest.mark.parametrize(
    ("kind", "old", "new", "says"),
    [
        ("answers", 'framework = "local"', 'framework = "pure"\nepsilon = "1"', 'found "pure"; with [collect]'),
        ("answers", '"local"', '"local"\nepsilon = "1"', "each report has spent its own epsilon"),
        ("answers", "direct_encoding", "randomised_response", "for 2 values; the schema has 4 cells"),
        ("answers", 'epsilon = "1"', 'epsilon = "-2"', "collect.parameters.epsilon: found '-2'"),
        ("answers", "direct_encoding", "rappor", "collect.parameters.epsilon: rappor has no such parameter"),
        ("answers", 'respondent = "who"', 'cohort = "c"', "input.columns.cohort: direct_encoding has no cohorts"),
        ("answers", 'respondent = "who"', 'person = "who"', "input.columns: 'person' is not a column of reports"),
        ("answers", '"reports"', '"microdata"\nbad_reports = "count"', "input.bad_reports: only for the form"),
        ("answers", "[publish]", '[invariants]\nblock = ["answer"]\n\n[publish]', "the number of reports of each leaf"),
        ("answers", "[publish]", _STRATEGY, "strategy: not with [collect]"),
        ("words", '"a3", "other"]', '"a3", "other"]\nsex = ["f", "m"]', "collect.mechanism: found rappor, and 2"),
        ("words", '"a0", "a1", "a2", "a3", ', "", "words: found 0; from 1 to 128 can be told apart"),
        ("words", 'q = "3/4"', 'q = "1/4"', "collect.parameters.q: found 1/4; more than p"),
        ("words", "[input]", _CENTRAL, "collect.central: not with rappor"),
        ("mixed", 'tract = "1/4" }', 'block = "1/4" }', "collect.central.levels.block: the leaves have reports"),
        ("mixed", 'tract = "1/4" }', 'tracts = "1/4" }', "collect.central.levels: 'tracts' is not a level above"),
        ("mixed", 'tract = "1/4" }', 'tract = "3/4" }', "collect.central.levels: the shares add up to"),
        ("mixed", 'rho = "1/10"', 'rho = "1/10"\nepsilon = "1"', "found both of rho and epsilon"),
        ("mixed", 'rho = "1/10"\n', "", "collect.central.rho: found neither of rho and epsilon"),
    ],
)
def test_what_does_not_go_with_reports_is_refused(
    texts: dict[str, str], tmp_path: Path, kind: str, old: str, new: str, says: str
) -> None:
    assert texts[kind].count(old) == 1
    changed = tmp_path / "survey.toml"
    changed.write_text(texts[kind].replace(old, new))
    with pytest.raises(SpecError) as refused:
        load_spec(changed)
    assert says in str(refused.value)


def test_debiased_counts_of_a_leaf_add_up_to_its_reports(tmp_path: Path) -> None:
    (universe,) = load_spec(write_survey(tmp_path, "direct_encoding", 4, "1").spec).universes()
    survey = survey_of(universe)
    totals, reports = np.array([[5, 2, 1, 0], [1, 1, 0, 0]], dtype=np.int64), np.array([8, 2])
    to_counts = survey.to_counts("block", reports)
    assert to_counts is not None
    # p - q of direct encoding: a count is (total - n q) / (p - q).
    p, q = np.exp(1) / (np.exp(1) + 3), 1 / (np.exp(1) + 3)
    by_hand = (totals - reports[:, None] * q) / (p - q)
    assert to_counts(totals, 0) == pytest.approx(by_hand, rel=1e-6)
    assert to_counts(totals[1:], 1) == pytest.approx(by_hand[1:], rel=1e-6)
    assert survey.errors().alone(totals, reports).sum(axis=1) == pytest.approx([8, 2])
    assert survey.sizes(lambda: {("block", "total"): reports[:, None]}).tolist() == [8, 2]  # type: ignore[union-attr]
    assert (survey.releases, [draw.level for draw in universe.draws()]) == ((), ["block"])
    assert Fraction(survey.mechanism.epsilon) == universe.budget
    assert isinstance(universe.source, Survey)


def test_errors_of_mixed_estimates_are_weighted() -> None:
    collected = CollectedAnswers(DirectEncoding.for_epsilon(4, Fraction(1)))
    answers, cells = np.arange(4), np.zeros(3, dtype=np.int64)
    counts, reports = np.array([10, 50, 90]), np.full(3, 100)
    alone = np.sqrt(collected.stated_variances(answers, cells, reports))
    own = collected.own_errors(answers, cells, counts, reports)
    errors = ErrorsOfReports(collected, mixed=True)
    assert np.allclose(errors(answers, cells, counts, reports, alone), own)
    assert np.allclose(errors(answers, cells, counts, reports, alone / 100), 1, atol=1e-4)
    # Two independent estimates of equal stated variance, of which one has the factor: (f^2 + 1) / 4 in place of 1 / 2.
    expected = np.sqrt((own**2 + 1) / 4 / 0.5)
    assert np.allclose(errors(answers, cells, counts, reports, alone * np.sqrt(0.5)), expected)


BLOCKS = {"block": 1, "tract": 12, "county": 36}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> MixedSurvey:
    """The files of the case of the matrix; the central release is not made."""
    return write_mixed(tmp_path_factory.mktemp("mixed") / "in", dataset="people")


def surveyed(mixed: MixedSurvey) -> tuple[Universe, Survey, Central]:
    """The universe, where its counts come from, and the part of them that is central."""
    (universe,) = load_spec(mixed.survey.spec).universes()
    survey = survey_of(universe)
    assert survey.central is not None
    return universe, survey, survey.central


@pytest.fixture
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder with the files, and with the finished central release, which a ledger has counted."""
    return made_case(tmp_path_factory, "mixed") / "in"


@pytest.fixture
def central(inputs: Path) -> RunDirectory:
    """The central release."""
    return RunDirectory(inputs / "register" / "out" / "register")


@pytest.fixture
def released(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The release of both."""
    return RunDirectory(made_case(tmp_path_factory, "mixed") / "out" / "survey")


def copied(inputs: Path, folder: Path, *changes: tuple[str, str]) -> Path:
    """A copy of the files with other texts in the survey's spec."""
    shutil.copytree(inputs, folder)
    spec = folder / "survey.toml"
    text = spec.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    spec.write_text(text)
    return spec


def test_upper_levels_have_the_errors_of_both(mixed: MixedSurvey, released: RunDirectory) -> None:
    plan_release = feature_module("features.plan.release_plan").plan_release
    planned = {row.level: row for row in plan_release(mixed.survey.spec, 1).local}
    _, survey, central = surveyed(mixed)
    # By hand, of the county: its own count, those of three tracts, and reports; the total is known.
    variances = [central.noise(level).variance for level in ("county", "tract")]
    reports = float(survey.collected.unit_variance) * 720
    tract = 1 / (1 / variances[1] + 3 / reports)
    by_hand = (3 / 4) / (1 / variances[0] + 1 / (3 * tract))
    assert planned["county"].local == pytest.approx(by_hand**0.5, rel=1e-6)
    assert planned["county"].local < 0.1 * (reports * 3 / 4) ** 0.5
    for level, blocks in BLOCKS.items():
        table = pd.read_parquet(released.main.table("answer", level))
        truth = mixed.survey.truth.reshape(-1, blocks, 4).sum(axis=1)
        names = [f"a{number}" for number in range(4)]
        error = float(((table[names].to_numpy() - truth) ** 2).mean()) ** 0.5
        assert error < 1.6 * planned[level].local, level  # 24 numbers of tracts, 8 of counties
        low, high = (table[[name + end for name in names]].to_numpy() for end in (":low90", ":high90"))
        assert np.mean((low <= truth) & (truth <= high)) > 0.7, level


@pytest.mark.parametrize(
    ("framework", "budget", "epsilon", "says"),
    [
        ("zcdp", "1/10", "2", ()),
        ("zcdp", "4", "2", ("collect.central.rho: found 6 with one report; at most 5 is usual",)),
        ("pure", "9", "1/2", ()),
        ("pure", "9", "2", ("collect.central.epsilon: found 11 with one report; at most 10 is usual",)),
    ],
)
def test_limits_are_of_both(
    mixed: MixedSurvey, framework: Framework, budget: str, epsilon: str, says: tuple[str, ...]
) -> None:
    universe, survey, central = surveyed(mixed)
    source = replace(survey, central=replace(central, framework=framework, budget=Fraction(budget)))
    assert beyond_limits([replace(universe, source=source, budget=Fraction(epsilon))]) == says


def test_pure_promises_add_up(mixed: MixedSurvey) -> None:
    universe, survey, central = surveyed(mixed)
    source = replace(survey, central=replace(central, framework="pure", budget=Fraction(1, 2)))
    both = replace(universe, source=source, delta=Fraction(0))
    statement, account = privacy_statement(both), privacy_statements(both)
    assert (statement.framework, statement.budget, statement.delta) == ("pure", "3/2", "0")
    lost = [account.record.epsilon, *(one.epsilon for one in account.groups)]
    assert lost == ["1.5", "1", "2.5", "3.5", "4.5", "5.5"]
    assert "that release satisfy pure differential privacy with epsilon = 1.5, with respect to" in statement.words


def test_the_central_release_is_named_by_its_manifest(
    central: RunDirectory, released: RunDirectory, tmp_path: Path
) -> None:
    stated = json.loads(released.central.read_bytes())
    sha256 = hashlib.sha256(central.manifest.read_bytes()).hexdigest()
    assert stated == {"manifest_sha256": sha256, "release": "register", "status": "official"}
    assert "central.json" in read_manifest(released.manifest).files
    copy = RunDirectory(tmp_path / "survey")
    shutil.copytree(released.root, copy.root)
    for key, value in (("release", "another"), ("status", FROM_RECORDS)):
        copy.central.write_bytes(canonical_json(stated | {key: value}))
        files = public_files(copy)
        write_manifest(copy, read_manifest(released.manifest).model_copy(update={"files": files}))
        assert any("public/central.json" in problem for problem in verify_release(copy, 1, Silent())), key


def refusal_of(spec: Path, out: Path) -> str:
    with pytest.raises(InputError, match=r"collect\.central\.release") as refused:
        run(spec, out)
    assert not (out / "survey" / "public").exists()
    return str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('rho = "1/10"', 'rho = "1/5"', "its framework and budget are zcdp, 1/10; the spec says zcdp, 1/5"),
        ('tract = "1/4"', 'tract = "1/8"', "its noise at the level 'tract' is discrete_gaussian of scale 40"),
        ("register/out/register", "register/nowhere", "no such folder"),
        ('"a3"]', '"other"]', "its attributes and values are not those of the reports"),
    ],
)  # fmt: skip
def test_other_releases_are_refused(inputs: Path, tmp_path: Path, old: str, new: str, says: str) -> None:
    assert says in refusal_of(copied(inputs, tmp_path / "other", (old, new)), tmp_path / "out")


def _cheaper(manifest: Manifest) -> dict[str, object]:
    """Receipts of half of the budget."""
    return {"receipts": tuple(one.model_copy(update={"cost": "1/20"}) for one in manifest.receipts)}


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (lambda _: {"receipts": ()}, "its manifest has no receipt of a ledger"),
        (lambda _: {"charging": ""}, "its manifest has no receipt of a ledger"),
        (lambda _: {"release": "another"}, "its manifest calls it 'another'"),
        (lambda _: {"status": FROM_RECORDS}, "its status is 'official, but"),
        (lambda _: {"status": UNCHARGED}, "its status is 'not charged"),
        (_cheaper, "its receipts are not of rho = 1/10"),
    ],
)
def test_a_status_alone_is_not_believed(
    inputs: Path, tmp_path: Path, update: Callable[[Manifest], dict[str, object]], says: str
) -> None:
    spec = copied(inputs, tmp_path / "forged")
    central = RunDirectory(spec.parent / "register" / "out" / "register")
    manifest = read_manifest(central.manifest)
    write_manifest(central, manifest.model_copy(update=update(manifest)))
    assert says in refusal_of(spec, tmp_path / "out")


_COMPANION = """
[companions.again]
privacy = { rho = "1" }
strategy = { queries = { answer = "1" }, levels = { county = "1", tract = "0", block = "0" } }
input = { file = "true_answers.csv", form = "long", geocode = "block" }
[companions.again.schema.attributes]
answer = ["a0", "a1", "a2", "a3"]
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[invariants]\ncounty = ["answer"]\n', "it publishes 'answer' of each county exactly, which no budget covers"),
        (_COMPANION, "it has companions (again), which cost more than its budget"),
        ('[invariants]\ncounty = ["total"]\nblock = ["total"]\n', ""),
    ],
    ids=["exact answers", "a companion", "exact totals"],
)
def test_a_release_that_tells_more_than_its_budget_is_refused(tmp_path: Path, more: str, says: str) -> None:
    written = write_mixed(tmp_path / "survey", example=True)
    written.central.write_text(written.central.read_text() + more)
    run(written.central, written.central.parent / "out")
    if says:
        with pytest.raises(InputError) as refused:
            run(written.survey.spec, tmp_path / "out")
        assert says in str(refused.value)
        return
    plain = written.survey.spec.read_text().replace("replicates = 4", "margins = false\nmicrodata = false")
    written.survey.spec.write_text(plain)
    released = RunDirectory(run(written.survey.spec, tmp_path / "out"))
    assert json.loads(released.central.read_bytes())["status"] == EXAMPLE
    (statement,) = read_manifest(released.manifest).privacy
    assert "ledger" not in statement.words


@pytest.mark.parametrize("cells", [2, 4, 12])
@pytest.mark.parametrize("framework", ["zcdp", "pure"])
@pytest.mark.parametrize("budget", ["1/10", "2", "40"])
def test_counts_of_the_same_persons_are_hardly_ever_refused(framework: Framework, budget: str, cells: int) -> None:
    """The exact distribution of the sum of so many noisy counts, for any number of areas; six errors were too few."""
    central = Central(Path("register"), framework, Fraction(budget), {"tract": Fraction(1)})
    scale = float(central.noise("tract").scale)
    far = np.arange(-40 * max(1, int(scale)), 40 * max(1, int(scale)) + 1)
    weights = np.exp(-(far**2) / (2 * scale) if framework == "zcdp" else -np.abs(far) / scale)
    one = weights / weights.sum()
    total = one
    for _ in range(cells - 1):
        total = np.convolve(total, one)
    off = np.abs(np.arange(len(total)) - len(total) // 2)
    for areas in (1, 3_000, 30_000):
        allowed = allowed_difference(central, "tract", cells, areas)
        assert areas * total[off > allowed].sum() <= 1.5e-6, areas
        if budget != "40" and (framework == "zcdp" or cells == 2):  # else noise is hardly ever 1, or its tails lighter
            assert areas * total[off > 0.5 * allowed].sum() > 1e-4, areas
    if framework == "pure" and cells == 2 and budget == "1/10":
        six = 6 * (cells * central.noise("tract").variance) ** 0.5
        assert 1 - (1 - total[off > six].sum()) ** 30_000 > 0.5


def test_counts_of_other_persons_are_refused(inputs: Path, tmp_path: Path) -> None:
    spec = copied(inputs, tmp_path / "fewer")
    reports = pd.read_csv(spec.parent / "reports.csv", dtype=str)
    reports[~reports.block.str.startswith("A01")].to_csv(spec.parent / "reports.csv", index=False)
    with pytest.raises(RefusedError):
        run(spec, tmp_path / "out")
    refusal = (tmp_path / "out" / "survey" / "restricted" / "refused.txt").read_text()
    assert "collect.central: in 1 areas of the level 'county' central counts are not of those who sent" in refusal
    assert not (tmp_path / "out" / "survey" / "public" / "measurements").exists()


def test_verify_compares_it_with_the_central_release(
    inputs: Path, central: RunDirectory, released: RunDirectory, tmp_path: Path
) -> None:
    assert verify_release(released, 1, Silent(), central.root) == []
    register = copied(inputs, tmp_path / "in").parent / "register" / "register.toml"
    register.write_text(register.read_text().replace('dataset = "people"', 'dataset = "workers"'))
    with ledger_of(tmp_path):
        run(register, tmp_path / "again")
    problems = verify_release(released, 1, Silent(), tmp_path / "again" / "register")
    assert len(problems) == 3
    assert "its manifest is not the one that was used" in problems[0]
    assert "measurements/county/answer.parquet: 2 areas of 2 have other counts than" in problems[1]
    (problem,) = verify_release(released, 1, Silent(), tmp_path)
    assert "collect.central.release" in problem
    with pytest.raises(InputError, match="uses no central release"):
        verify_release(central, 1, Silent(), central.root)
