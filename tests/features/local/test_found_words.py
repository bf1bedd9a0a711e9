"""Words of an open list, found in the reports of a survey before its spec has them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from releases.survey import Survey, write_survey
from releases.survey_of_words import rappor, write_words
from typer.testing import CliRunner

from features.local.collected_words import CollectedWords
from features.local.confidential import count_reports
from features.local.survey import survey_of
from features.local.unlisted import CohortBits
from features.local.words import words_of_reports
from flows.cli import app
from geography.build import spine_from_prefixes
from pipeline.errors import InputError, RecordsError
from pipeline.model.record_source import RecordSource
from pipeline.spec.release_spec import load_spec

CANDIDATES = ["a0", "a1", "a2", "a3", *(f"nobody says {number}" for number in range(100))]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Survey:
    """Some 14,000 answers, whose spec has one word that nobody says."""
    written = write_words(tmp_path_factory.mktemp("words"), most=400)
    written.spec.write_text(written.spec.read_text().replace('"a0", "a1", "a2", "a3"', '"unheard of"'))
    (written.spec.parent / "dictionary.txt").write_text("\n".join([*CANDIDATES, "", " rare1 "]))
    return written


def test_words_that_are_said_are_found_and_no_other(survey: Survey) -> None:
    found = words_of_reports(survey.spec, survey.spec.parent / "dictionary.txt")
    data = found.data()
    assert found.reports == survey.truth.sum()
    assert set(CANDIDATES[:4]) <= set(found.values) <= {*CANDIDATES[:4], "rare1", "other"}
    assert found.values[-1] == "other"
    assert data["candidates"] == 105
    truth = dict(zip(CANDIDATES, survey.truth.sum(axis=0).tolist(), strict=False))
    for row in data["words"][:4]:
        assert row["low90"] < row["count"] < row["high90"]
        assert abs(row["count"] - truth[row["word"]]) < 1.3 * (row["high90"] - row["low90"])
        assert not row["listed"]
    assert data["remarks"] == []


def test_it_tells_which_words_the_spec_lacks_and_that_more_are_said_than_are_found(
    survey: Survey, tmp_path: Path
) -> None:
    """A dictionary without the most frequent word, which the spec has."""
    shutil.copytree(survey.spec.parent, tmp_path / "some")
    spec, dictionary = tmp_path / "some" / survey.spec.name, tmp_path / "some" / "dictionary.txt"
    first, *others = np.argsort(-survey.truth[:, :4].sum(axis=0)).tolist()
    spec.write_text(spec.read_text().replace('"unheard of"', f'"a{first}", "a{others[0]}"'))
    dictionary.write_text("\n".join(f"a{number}" for number in others))
    data = words_of_reports(spec, dictionary).data()
    assert {row["word"]: row["listed"] for row in data["words"]} == {
        f"a{number}": number == others[0] for number in others
    }
    (sign,) = data["remarks"]
    assert "signs of frequent words that were not found" in sign
    shown = CliRunner().invoke(app, ["words", str(spec), "--candidates", str(dictionary)])
    assert f"Warning: {sign}" in shown.output
    assert shown.output.count(", not in the spec") == 2
    validated = CliRunner().invoke(app, ["validate", str(spec.parent / "reports.csv"), str(spec)])
    assert validated.exit_code == 0, validated.output
    assert "signs of frequent words that are not listed" in validated.output


def test_the_command_prints_the_line_for_the_spec(survey: Survey, tmp_path: Path) -> None:
    dictionary = str(survey.spec.parent / "dictionary.txt")
    shown = CliRunner().invoke(app, ["words", str(survey.spec), "--candidates", dictionary])
    assert shown.exit_code == 0, shown.output
    line = shown.output.strip().splitlines()[-1]
    text = survey.spec.read_text()
    spec = tmp_path / "survey.toml"
    spec.write_text(text.replace('answer = ["unheard of", "other"]', line))
    assert spec.read_text() != text
    (universe,) = load_spec(spec).universes()
    collected = survey_of(universe).collected
    assert isinstance(collected, CollectedWords)
    asked = CliRunner().invoke(app, ["words", str(survey.spec), "--candidates", dictionary, "--json"])
    assert json.loads(asked.output)["values"][:-1] == list(collected.words)


def test_the_same_reports_give_the_same_words_where_respondents_repeat(tmp_path: Path) -> None:
    survey = write_words(tmp_path, most=100)
    text = survey.spec.read_text().replace('report = "report"', 'report = "report"\nrespondent = "who"')
    assert "respondent" in text
    survey.spec.write_text(text.replace('respondent = "who"', 'respondent = "who"\nbad_reports = "count"', 1))
    lines = survey.reports.read_text().splitlines()
    survey.reports.write_text(
        "\n".join([lines[0], *(f"{one.rpartition(',')[0]},{n % 900}" for n, one in enumerate(lines[1:]))])
    )
    (tmp_path / "dictionary.txt").write_text("\n".join(CANDIDATES))
    first, again = (words_of_reports(survey.spec, tmp_path / "dictionary.txt").data() for _ in range(2))
    assert first == again
    assert first["reports"] == 900


def test_what_does_not_fit_is_refused(survey: Survey, tmp_path: Path) -> None:
    (tmp_path / "twice.txt").write_text("one\ntwo\none\n")
    with pytest.raises(InputError, match="'one' is the word number 1 and 3"):
        words_of_reports(survey.spec, tmp_path / "twice.txt")
    with pytest.raises(InputError, match="cannot be read as a text file"):
        words_of_reports(survey.spec, tmp_path / "none.txt")
    listed = write_survey(tmp_path / "listed")
    with pytest.raises(InputError, match='"rappor" is needed'):
        words_of_reports(listed.spec, tmp_path / "twice.txt")
    bad = write_words(tmp_path / "bad")
    with bad.reports.open("a") as file:
        file.write("A0102,01234567,16,somebody\n")
    (tmp_path / "words.txt").write_text("a0\n")
    with pytest.raises(RecordsError, match="a cohort that the mechanism does not have in 1 row"):
        words_of_reports(bad.spec, tmp_path / "words.txt")


def test_of_several_reports_of_a_respondent_one_is_used_whatever_the_order(tmp_path: Path) -> None:
    """With cohorts, which are part of what was sent; leaves counted together give the sum of them."""
    collected = CollectedWords(rappor(), ("a0", "a1"))
    rng = np.random.default_rng(2)
    rows = [
        f"A{rng.integers(1, 4)},{rng.integers(1 << 32):08x},{rng.integers(16)},id-{rng.integers(100)}"
        for _ in range(300)
    ]
    spine = spine_from_prefixes(np.array(["A1", "A2", "A3"]), {"county": 1, "block": 2})
    source = RecordSource(tmp_path / "r.csv", "reports", "block", report="report", respondent="who")
    found = []
    for ordered in (rows, sorted(rows)):
        source.file.write_text("\n".join(["block,report,cohort,who", *ordered]))  # type: ignore[union-attr]
        found.append(count_reports(source, collected, spine, bytes(range(32)), whole=CohortBits(collected.rappor)))
    assert np.array_equal(found[0].totals, found[1].totals)
    assert found[0].reports.sum() == len({row.split(",")[-1] for row in rows})
    assert np.array_equal(found[0].whole, found[1].whole)
    bits, cohorts = CohortBits(collected.rappor).apart(found[0].whole)
    assert cohorts.sum() == found[0].reports.sum()
    assert bits.max() <= cohorts.max()
    whole = count_reports(source, collected, spine, bytes(range(32)), together=True)
    assert np.array_equal(whole.totals[0], found[0].totals.sum(axis=0))
    assert whole.reports.tolist() == [found[0].reports.sum()]
    other = count_reports(replace(source, respondent=None), collected, spine, bytes(range(32)))
    assert other.reports.sum() == 300
