"""The spec of a survey: what does not go with reports, and the universe that it becomes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from releases.mixed import write_mixed
from releases.survey import write_survey
from releases.survey_of_words import write_words

from features.local.collect.listed import DirectEncoding
from features.local.collected import CollectedAnswers
from features.local.survey import ErrorsOfReports, Survey, survey_of
from pipeline.errors import SpecError
from pipeline.model.universe import Universe
from pipeline.spec.release_spec import load_spec


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
        ("answers", '"local"', '"local"\ndataset = "d"', "privacy.dataset: not with framework"),
        ("answers", "direct_encoding", "rapor", "collect.mechanism: 'rapor' is not a mechanism; did you mean 'rappor'"),
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


# -- a survey as the source of a universe -----------------------------------------------------------------------------


def universe_of(spec: Path) -> Universe:
    (universe,) = load_spec(spec).universes()
    return universe


def test_debiased_counts_of_a_leaf_add_up_to_its_reports(tmp_path: Path) -> None:
    written = write_survey(tmp_path, "direct_encoding", 4, "1")
    universe = universe_of(written.spec)
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
    assert (survey.releases, survey.given(universe.strategy)) == ((), ())
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
