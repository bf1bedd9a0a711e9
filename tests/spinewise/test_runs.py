"""Releases, versions and verifications from Python: the bytes of the command, and every refusal clear."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pandas as pd
import pytest
from releases.command import environment
from releases.frames import SECTIONS
from releases.small import QUICK, public_bytes, run, write_town
from releases.updated import answer_to, charged_release
from releases.updated import update as made_by_command

import spinewise as sw
from spinewise.runs import named_ledger

Changed = Callable[..., sw.Spec]


@pytest.mark.slow
def test_frames_give_the_bytes_of_files(tmp_path: Path) -> None:
    """A town with bounds, invariants and a companion: from its files by the flow's function, from frames by the API."""
    path = write_town(tmp_path / "town", *QUICK)
    expected = public_bytes(run(path, tmp_path / "files"))
    persons, units, blocks = (
        pd.read_csv(path.with_name(f"{name}.csv"), dtype={"block": str}) for name in ("persons", "units", "blocks")
    )
    records = {"": persons, "units": units}
    release = sw.run(path, records, blocks, out=tmp_path / "frames", workers=1, progress=False)
    assert public_bytes(release.directory) == expected
    assert len(expected) > 20


@pytest.mark.slow
def test_no_record_is_written(
    tmp_path: Path, changed: Changed, persons: pd.DataFrame, blocks: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that stands in the records alone is in no file: the frame is counted, and counts have cells."""
    planted = "planted-8d2f61"
    spec = changed(input={"form": "microdata", "geocode": "block", "values": {"sex": {planted: "male"}}})
    frame = persons.assign(sex=persons["sex"].replace("male", planted), name="planted-8d2f61-name")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    release = sw.run(spec, frame, blocks, out=tmp_path / "out", workers=1)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    with_it = [path.relative_to(release.directory) for path in files if planted.encode() in path.read_bytes()]
    assert with_it == [Path("restricted/input.json")]  # which says how the records are read, as the spec does
    assert (planted + "-name").encode() not in (release.directory / "restricted/input.json").read_bytes()


@pytest.mark.slow
def test_the_same_call_again_and_a_rerun_need_the_same_records(
    tmp_path: Path, spec: sw.Spec, persons: pd.DataFrame, blocks: pd.DataFrame
) -> None:
    release = sw.run(spec, persons, blocks, out=tmp_path, workers=1)
    first = public_bytes(release.directory)
    again = sw.run(spec, persons.sample(frac=1, random_state=1), blocks, out=tmp_path, workers=1)
    assert public_bytes(again.directory) == first
    with pytest.raises(sw.InputError, match="begun on other records"):
        sw.run(spec, persons[1:], blocks, out=tmp_path, workers=1)
    result = sw.rerun(release, persons, workers=1)
    assert result
    assert result.files == len(first)
    persons.to_csv(tmp_path / "persons.csv", index=False)
    assert sw.rerun(release.directory, tmp_path / "persons.csv", workers=1)
    with pytest.raises(sw.InputError, match=r"records: were a table in memory when .* give them again"):
        sw.rerun(release, workers=1)
    with pytest.raises(sw.InputError, match="the records are not those that"):
        sw.rerun(release, persons[1:], workers=1)
    with pytest.raises(sw.InputError, match="records: 'units' is no companion"):
        sw.rerun(release, {"": persons, "units": persons}, workers=1)


def test_wrong_records_are_told_to_who_gave_them(
    tmp_path: Path, spec: sw.Spec, persons: pd.DataFrame, blocks: pd.DataFrame
) -> None:
    persons.loc[3, "sex"] = "other"
    persons.loc[7, "block"] = "C01"
    with pytest.raises(sw.RefusedError, match=r"^tabulate: stopped; the reason .* is in .*restricted") as caught:
        sw.run(spec, persons, blocks, out=tmp_path, workers=1)
    reason = caught.value.reason()
    assert "rows counted from 1): 2 problems" in reason
    assert "column 'block': a geocode that is not a leaf of the spine in 1 row (row 8): found 'C01'" in reason
    assert "column 'sex': a value outside the schema in 1 row (row 4): found 'other'" in reason
    assert not {"C01", "other", "8"} & set(str(caught.value).split())
    assert not (tmp_path / "village" / "public" / "manifest.json").exists()


def test_other_reasons_stay_in_restricted(
    tmp_path: Path, changed: Changed, persons: pd.DataFrame, blocks: pd.DataFrame
) -> None:
    """Records that cannot be show their counts in the reason: it is not in the error."""
    spec = changed(structural_zeros=[{"sex": "male", "age": "old"}])
    with pytest.raises(sw.SpinewiseError, match=r"^check: stopped; the reason .* is in .*restricted") as caught:
        sw.run(spec, persons, blocks, out=tmp_path, workers=1)
    assert "male" not in str(caught.value)
    assert caught.value.__context__ is None


def test_what_is_missing_is_told(
    tmp_path: Path, spec: sw.Spec, changed: Changed, persons: pd.DataFrame, blocks: pd.DataFrame
) -> None:
    unstated = changed(input=None)
    refusals: list[tuple[Callable[[], object], str]] = [
        (lambda: sw.run(spec, None, blocks, out=tmp_path), r"records: missing; give records=\.\.\., or name the file"),
        (lambda: sw.run(spec, persons, out=tmp_path), r"geography.file: missing; give areas=\.\.\."),
        (lambda: sw.run(unstated, persons, blocks, out=tmp_path), "input: missing; a run needs the records"),
        (lambda: sw.run(spec, persons, blocks[["block"]].rename(columns=str.upper)), "areas .*: no column 'block'"),
        (lambda: sw.run(spec, persons, "no.csv", out=tmp_path), "areas: no.csv: no such file"),
        (lambda: sw.run("no.toml", persons, blocks), "no.toml: no such file; a spec in TOML is needed"),
        (lambda: sw.run(spec, persons, blocks, ledger="x.db", out=tmp_path), "the spec names no dataset"),
    ]
    for call, message in refusals:
        with pytest.raises(sw.InputError, match=message):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_dataset_is_charged_once(
    tmp_path: Path, changed: Changed, persons: pd.DataFrame, blocks: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPINEWISE_LEDGER", raising=False)
    place = tmp_path / "ledger.db"
    with sw.open_ledger(place, create=True) as ledger:
        ledger.open_dataset(
            "people", population="of the village", framework="zcdp", budget=Fraction(10), neighbours="change-one"
        )
        assert "people: rho = 10 left of 10, 0 runs" in repr(ledger)
    spec = changed(privacy={"rho": "8", "dataset": "people"})
    for _ in range(2):
        sw.run(spec, persons, blocks, out=tmp_path / "out", workers=1, ledger=str(place), i_know=True)
    with sw.open_ledger(place) as ledger:
        assert ledger.dataset("people").spent == 8
        assert "people: rho = 2 left of 10, 1 run" in repr(ledger)
    other = changed(name="other", privacy={"rho": "3", "dataset": "people"})
    with pytest.raises(sw.BudgetRefusedError, match="asked for rho = 3, left is 2"):
        sw.run(other, persons, blocks, out=tmp_path / "out", workers=1, ledger=str(place))


@pytest.mark.slow
def test_a_script_without_a_guard(tmp_path: Path, persons: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """Worker processes do not run the script again, so that it needs no `if __name__ == "__main__"`."""
    persons.to_csv(tmp_path / "persons.csv", index=False)
    blocks.to_csv(tmp_path / "blocks.csv", index=False)
    sections = {**SECTIONS, "publish": {"replicates": 2}}
    (tmp_path / "script.py").write_text(
        f"import spinewise as sw\nprint('begins')\n"
        f"release = sw.run(sw.Spec(**{sections!r}), 'persons.csv', 'blocks.csv', workers=2)\nprint(release.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.split() == ["begins", "village"], done.stderr


NO_RUNS = ("[input]", "[publish]\nreplicates = 0\nmargins = false\nmicrodata = false\n[input]")


def test_a_version_is_that_of_the_command_and_opened(tmp_path: Path) -> None:
    with charged_release(tmp_path, NO_RUNS) as (spec, release):
        answer = answer_to(spec, "count by tract, sex", "1/10")
        expected = made_by_command(release, [answer], tmp_path / "command").root
        opened = sw.update(sw.open_release(release), [sw.Answer(answer)], out=tmp_path / "python", workers=1)
        assert public_bytes(opened.directory) == public_bytes(expected)
        assert opened.table("sex", level="tract").shape[0] == 10
        with pytest.raises(sw.InputError, match="is used already"):
            sw.update(opened.directory, [str(answer)], out=tmp_path / "again", workers=1, progress=False)
        large = answer_to(spec, "count by tract, age", "9/2", out=tmp_path / "answers")
        with pytest.warns(UserWarning, match="beyond the usual limits: privacy.rho: found 5"):
            sw.update(release, [large], out=tmp_path / "large", workers=1, progress=False)


def test_a_notebook_shows_the_outcome_and_each_problem_as_text() -> None:
    """Names of files are of whoever made the release, and must not become markup."""
    problems = tuple(f"public/<img src=x onerror=alert({number})>: changed" for number in range(22))
    whole, broken = sw.Verification(Path("a<b"), 3, ()), sw.Verification(Path("a<b"), 3, problems)
    assert "a&lt;b is whole" in whole._repr_html_()
    page = broken._repr_html_()
    assert "<li>public/&lt;img src=x onerror=alert(0)&gt;" in page
    assert (page.count("<li>"), "<li>and 2 more</li></ul>" in page, "<img" in page) == (21, True, False)
    assert "<li>a &amp; b</li>" in sw.RerunResult(Path("r"), 5, ("a & b",), ("other versions",))._repr_html_()


@pytest.mark.parametrize("before", [None, "sqlite:///before"])
@pytest.mark.parametrize("named", [None, "sqlite:///named"])
def test_the_ledger_of_a_call_is_that_of_the_call_alone(
    before: str | None, named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPINEWISE_LEDGER", raising=False)
    if before is not None:
        monkeypatch.setenv("SPINEWISE_LEDGER", before)
    with named_ledger(named):
        assert os.environ.get("SPINEWISE_LEDGER") == (named or before)
    assert os.environ.get("SPINEWISE_LEDGER") == before
