"""Answers combined with a published release: as by dense least squares, verified, drawn again, or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from releases.asked import ask, checked, drawn_again, ledger_of, public_files, spent, write_workers
from releases.command import printed
from releases.small import run as run_release
from releases.small import write_town

from features.questions.explaining import explain_question, why_not
from pipeline.errors import InputError, ReleaseError
from pipeline.published import open_finished
from pipeline.questions.manifest import read_answer
from pipeline.questions.released.cells import NoSumOfCellsError, sums_of_answer
from pipeline.questions.released.combined import read_combination
from pipeline.release.layout import RunDirectory
from pipeline.release.measurements import read_measurement
from pipeline.runs.answers import combine_answer, is_combined, release_of, verify_answer
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import unchecked
from spinewise.answers import Answer

#: What makes of the spec of questions that of a release with a test key, which is quick.
RELEASED = (('dataset = "workers"', 'key = "insecure-test:1"'), ("[input]", "[publish]\nreplicates = 2\n[input]"))
DETAILED = ('total = "1/2"', '"age * sex" = "1/2"')


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the workers, with measurements of age by sex."""
    folder = tmp_path_factory.mktemp("work")
    return run_release(write_workers(folder / "in", *RELEASED, DETAILED), folder / "out")


@pytest.fixture
def spec(tmp_path: Path) -> Iterator[Path]:
    """The same workers, to be asked."""
    spec = write_workers(tmp_path, DETAILED)
    with ledger_of(tmp_path):
        yield spec


def combined(root: Path, release: Path) -> pd.DataFrame:
    combine_answer(RunDirectory(root), release)
    return Answer(root).combined


def dense(release: Path, root: Path, level: str, numbers: dict[tuple[str, ...], np.ndarray]) -> pd.DataFrame:
    """Least squares over all cells of all tracts, from the Parquet files and the answer's CSV alone.

    Args:
        level: of the answer.
        numbers: labels -> which of the six cells of a tract, age by sex, the answer's counts add up, zeros and ones.
    """
    tracts = [f"{county}{tract:02d}" for county in "AB" for tract in range(1, 6)]
    rows, values, weights = [], [], []

    def see(code: str, cells: np.ndarray, value: float, variance: float) -> np.ndarray:
        row = np.concatenate([cells if tract.startswith(code) else 0 * cells for tract in tracts]).astype(float)
        rows.append(row)
        values.append(value)
        weights.append(1 / variance)
        return row

    age_sex, sex = np.eye(6), np.tile(np.eye(2), 3)
    for name in ("county", "tract"):
        for query, matrix in (("age * sex", age_sex), ("sex", sex)):
            files = (release / "public/measurements" / name).iterdir()
            (path,) = [one for one in files if ("age" in one.stem) == ("age" in query)]
            for code, value in zip((one := read_measurement(unchecked(path))).geocodes, one.values, strict=True):
                for cells, number in zip(matrix, value, strict=True):
                    see(str(code), cells, number, one.variance)
    before = len(rows)
    measured = pd.read_csv(root / "public/measurements.csv", dtype={level: str})
    manifest = json.loads((root / "public/answer.json").read_text("utf-8"))
    terms = [name for name in measured.columns if name not in (level, "count")]
    variance = float(Fraction(manifest["parts"][0]["scale"]))  # a discrete Gaussian's, so large as here
    asked = [
        see(row[level], numbers[tuple(row[term] for term in terms)], row["count"], variance)
        for row in measured.to_dict("records")
    ]
    out = measured.copy()
    for name, n in (("release", before), ("count", len(rows))):
        design, weight = np.array(rows[:n]), np.array(weights[:n])
        inverse = np.linalg.inv(design.T @ (weight[:, None] * design))
        best = inverse @ (design.T @ (weight * np.array(values[:n])))
        out[name], out[f"{name}:error"] = (
            np.array(asked) @ best,
            np.sqrt(np.diag(asked @ inverse @ np.transpose(asked))),
        )
    return out


@pytest.mark.parametrize("level", ["county", "tract"])
def test_combined_counts_are_those_of_dense_least_squares(spec: Path, released: Path, level: str) -> None:
    """Counts with a condition, whose terms stand in another order than in the schema; as explaining foretells."""
    text = f"count by {level}, sex, age where age in 18-64, 65+"
    explained = explain_question(checked(spec, text), released)
    assert explained.published is not None
    assert spent(spec.parent / "ledger.sqlite") == 0
    root = ask(spec, text)
    found = combined(root, released)
    stated = read_combination(RunDirectory(root))
    assert explained.published.combined == pytest.approx(stated.half_widths["combined"], rel=1e-3)
    assert stated.agreement.agree
    assert stated.agreement.numbers == stated.numbers == len(found)
    assert stated.half_widths["combined"] < min(stated.half_widths["answer"], stated.half_widths["release"])
    ages = ["0-17", "18-64", "65+"]
    cells: dict[tuple[str, ...], np.ndarray] = {
        (sex, age): np.outer([age == one for one in ages], [sex == one for one in "fm"]).ravel()
        for sex in "fm"
        for age in ages[1:]
    }
    expected = dense(released, root, level, cells)
    for name in ("count", "count:error", "release", "release:error"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-3)
    assert (found["count:error"] <= found[["answer:error", "release:error"]].min(axis=1) + 1e-9).all()
    assert (found["count:error"] < 0.95 * found["release:error"]).all()
    for one, other in (("answer", "release"), ("count", "release"), ("count", "answer"), ("count", "published")):
        assert np.abs(found[f"{one}:less_{other}"] - (found[one] - found[other])).max() < 2e-3
    error = np.hypot(found["answer:error"], found["release:error"])
    assert np.abs(found["apart"] - (found["answer"] - found["release"]) / error).max() < 0.01
    half = (found["count:high90"] - found["count:low90"]) / 2
    assert np.abs(half - 1.644854 * found["count:error"]).max() < 2e-3
    assert spent(spec.parent / "ledger.sqlite") == Fraction(1, 20)


def test_other_records_are_not_consistent(tmp_path: Path, released: Path) -> None:
    """The power of the statement: the same areas with half as many workers again."""
    spec = write_workers(tmp_path, DETAILED, n=900, seed=3)
    with ledger_of(tmp_path):
        stated = combine_answer(RunDirectory(ask(spec, "count by tract", "1/2")), released)
    assert not stated.agreement.agree
    assert stated.agreement.within < 0.5
    assert "NOT CONSISTENT" in stated.note


def test_a_combined_answer_is_verified_and_drawn_again(
    spec: Path, released: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ask(spec, "count by tract, sex where age >= 65")
    run = RunDirectory(root)
    with pytest.raises(InputError, match="is not combined with a release"):
        printed("verify", "--records", root, "--release", released)
    combine_answer(run, released)
    before = public_files(root)
    assert sorted(before) == ["answer.csv", "answer.json", "combined.csv", "combined.json", "measurements.csv"]
    assert ask(spec, "count by tract, sex where age >= 65") == root
    combine_answer(run, released)
    assert public_files(root) == before
    assert verify_answer(run, released) == verify_answer(run) == []
    assert release_of(run, None) is None
    assert "combined with" not in printed("verify", root)  # the release is not where run puts it
    assert "combined with" in printed("verify", root, "--release", released)
    with pytest.raises(InputError, match="is no answer that could be combined"):
        printed("verify", released, "--release", released)
    monkeypatch.setenv("SPINEWISE_OUT", str(released.parent))
    assert release_of(run, None) == released
    assert drawn_again(run, release=released) == []
    path = root / "public/combined.csv"
    path.write_bytes(before["combined.csv"].replace(b"A01,f,", b"A01,f,1", 1))
    assert verify_answer(run) == ["combined.csv: is not the file that combined.json states"]
    assert drawn_again(run, release=released) == ["combined.csv"]
    stated = json.loads(before["combined.json"])
    stated["files"]["combined.csv"] = sha256_file(path)
    (root / "public/combined.json").write_text(json.dumps(stated), "utf-8")
    assert verify_answer(run) == []  # not without the release
    assert verify_answer(run, released) == [
        "combined.csv: does not follow from measurements.csv and the release",
        "combined.json: does not follow from measurements.csv and the release",
    ]
    (root / "public/combined.json").unlink()
    assert verify_answer(run) == ["combined.csv: is not listed"]


def test_a_release_or_an_answer_that_was_changed_is_refused(spec: Path, released: Path, tmp_path: Path) -> None:
    root = ask(spec, "count by county, sex")
    changed = tmp_path / "changed"
    shutil.copytree(released, changed)
    path = min((changed / "public/measurements/county").iterdir())
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ReleaseError, match="was changed"):
        combine_answer(RunDirectory(root), changed)
    combine_answer(RunDirectory(root), released)
    (problem,) = verify_answer(RunDirectory(root), changed)
    assert "combined.csv: cannot be computed again" in problem
    numbers = root / "public/measurements.csv"
    numbers.write_bytes(numbers.read_bytes().replace(b"A,f,", b"A,f,1"))
    with pytest.raises(ReleaseError, match=r"it has not the hash that answer\.json states"):
        combine_answer(RunDirectory(root), released)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count by tract, shift", "the release tells no records apart by 'shift', as the question does"),
        ("count where wages >= 20000", "the release tells no records apart by 'wages', as the question does"),
        ("mean wages by county", "a mean of 'wages' is no count"),
        ("median wages", "a median of 'wages' is no count"),
        ("count by sex", "the question is of everywhere together, and the release has 2 areas at its uppermost level"),
    ],
)
def test_what_is_no_sum_of_cells_is_told_in_a_sentence(spec: Path, released: Path, text: str, message: str) -> None:
    sentence = why_not(checked(spec, text, "1/4"), released)
    assert sentence is not None
    assert sentence.startswith(message)
    if text == "count by sex":
        run = RunDirectory(ask(spec, text, "1/4"))
        with pytest.raises(NoSumOfCellsError, match="everywhere together"):
            combine_answer(run, released)
        assert not is_combined(run)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ((('sex = ["f", "m"]', 'sex = ["m", "f"]'),), "its attributes or their values are not those"),
        (
            (
                ("levels = { county = 1, tract = 3 }", "levels = { county = 1, half = 2, tract = 3 }"),
                ('tract = "1/2"', 'half = "1/4"\ntract = "1/4"'),
            ),
            "its areas are not",
        ),
    ],
)
def test_another_schema_or_spine_is_refused_before_anything_is_spent(
    tmp_path: Path, released: Path, changes: tuple[tuple[str, str], ...], message: str
) -> None:
    spec = write_workers(tmp_path, DETAILED, *changes)
    with ledger_of(tmp_path):
        with pytest.raises(InputError, match=message):
            why_not(checked(spec, "count by tract, sex"), released)
        root = ask(spec, "count by tract, sex")
        with pytest.raises(InputError, match=message):
            combine_answer(RunDirectory(root), released)


def test_a_release_of_another_dataset_is_refused(spec: Path, released: Path) -> None:
    manifest = read_answer(RunDirectory(ask(spec, "count by tract")))
    opened = open_finished(released, check_hashes=False)
    for dataset in ("", "workers"):
        of_dataset = replace(opened, universes=(replace(opened.universes[0], dataset=dataset),))
        assert sums_of_answer(manifest, of_dataset).level == "tract"
    other = replace(opened, universes=(replace(opened.universes[0], dataset="patients"),))
    with pytest.raises(InputError, match="it is of the dataset 'patients', and the answer of 'workers'"):
        sums_of_answer(manifest, other)


@pytest.fixture
def asked_town(tmp_path: Path) -> Iterator[Path]:
    """The town, to be asked."""
    with ledger_of(tmp_path, dataset="people", budget="9"):
        yield write_town(tmp_path / "in", ('key = "insecure-test:1"', 'dataset = "people"'))


def test_what_a_release_knows_exactly_stays_so(town: Path, asked_town: Path) -> None:
    """Invariants, impossible cells and areas without a facility: numbers keep them, and add up to them."""
    totals = combined(ask(asked_town, "count by county"), town)
    assert (totals["count"] == totals["published"]).all()
    assert (totals["count:error"] == 0).all()
    parts = combined(root := ask(asked_town, "count by county, quarters", "1/2"), town)
    sums = parts.groupby("county")["count"].sum()
    assert np.abs(sums - totals.set_index("county")["published"]).max() < 2e-3
    assert (parts["count:error"] > 0).any()
    stated = read_combination(RunDirectory(root))
    assert stated.agreement.agree
    blocks = combined(ask(asked_town, "count by block, quarters", "1/2"), town)
    prison = blocks[blocks["quarters"] == "prison"]
    absent = prison[prison["release:error"] == 0]
    assert len(absent)
    assert (absent["count"] == 0).all()
    assert (absent["answer"] != 0).any()
    (folder,) = (asked_town.parent / "answers").glob("count-block-*")
    note = read_combination(RunDirectory(folder)).note
    assert "that the release knows exactly are as there" in note
