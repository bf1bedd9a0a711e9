"""Each case holds what is stored of it, its numbers are what they must be, and who judges it finds nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from project.same_bytes import other
from releases.command import spinewise

from auditor.answers.audit import is_answer
from auditor.check.release import check_release
from auditor.draws import listed
from auditor.program import audit
from auditor.reading.findings import FormError
from auditor.reading.spec import public_spec
from auditor.reading.spine import read_spine
from matrix.case import KEY, Case
from matrix.cases import CASES
from matrix.content import differences, streams_of
from matrix.shown import page_shows_the_tables
from matrix.store import STORED, held_by, stored
from matrix.table import JUDGES, cells, of_cases


@of_cases()
def test_it_holds_what_is_stored(made: tuple[Case, Path]) -> None:
    """Files, and streams of noise, of which another order or number is none of the release's numbers."""
    case, folder = made
    assert differences(stored(case.name), held_by(case, folder)) == []


@of_cases()
def test_both_programs_derive_the_list_of_draws_that_is_stated(made: tuple[Case, Path]) -> None:
    """The same text, draw by draw; the first one's is in the manifest."""
    case, folder = made
    for root in (folder / place for place in case.published):
        if not is_answer(root):
            manifest = json.loads((root / "public" / "manifest.json").read_bytes())
            spine = read_spine(root / "public" / "spine.parquet", public_spec(manifest["spec"]).levels)
            derived = listed(manifest["spec"], spine)
            assert json.dumps(derived, sort_keys=True) == json.dumps(manifest["draws"], sort_keys=True)


@of_cases()
def test_its_numbers_are_what_they_must_be(made: tuple[Case, Path]) -> None:
    case, folder = made
    if case.expect is not None:
        case.expect(folder)


@of_cases()
def test_its_page_shows_the_numbers_of_its_tables(made: tuple[Case, Path]) -> None:
    """Areas, counts and intervals; an answer has no page, and sums of either sign are not in its tables."""
    case, folder = made
    root = folder / case.published[-1]
    if (root / "public" / "report.html").exists():
        assert page_shows_the_tables(root) >= 2


@pytest.mark.parametrize(("case", "column"), cells(JUDGES, all_cases=True))
def test_who_judges_it_finds_nothing(case: Case, column: str, folder_of: Callable[[Case], Path]) -> None:
    folder = folder_of(case)
    root = folder / case.published[-1]
    if column == "verify":
        done = spinewise("verify", root, cwd=folder, timeout=600)
        assert (done.returncode, case.without.get(column, "")) == (0, ""), done.stdout + done.stderr
        return
    assert (root / "public" / "answer.json").exists() or check_release(root) == []
    key, ledger = folder / KEY, folder / "ledger.sqlite"
    arguments = (root, key if key.exists() else None, str(ledger) if case.charged else None)
    if column in case.without:
        with pytest.raises(FormError, match=case.without[column]):
            list(audit(*arguments))
        return
    found = list(audit(*arguments))
    assert len(found) > 5
    assert [one for one in found if not one.passed] == []


def test_each_is_stored_and_nothing_else() -> None:
    assert {path.stem for path in STORED.glob("*")} == {release.name for release in CASES}


def test_another_stream_of_noise_is_told() -> None:
    """Another key of it, and another fingerprint that it is bound to."""
    line = '["block", "total", ["0a", "1b", "2c"], "3d"]'
    before = streams_of([line])
    assert differences(before, streams_of([line.replace("3d", "4d")])) == [
        "stream block, total, 0a 1b 2c: was 3d, is 4d"
    ]
    assert len(differences(before, streams_of([line.replace("1b", "1c")]))) == 2
    for release in CASES:
        drawn = [name for name in stored(release.name) if name.startswith("stream ")]
        assert drawn or release.name in ("survey", "unary", "words", "mended", "suppressed"), release.name


def test_the_comparison_of_two_versions_names_what_is_other(tmp_path: Path) -> None:
    """`make same` compares bytes; of a release that is charged, content without receipts. One number is enough."""
    base, head = tmp_path / "base", tmp_path / "head"
    files = {}
    for side in (base, head):
        for release in CASES:
            receipts = side.name if release.charged else ""
            for place in release.published:
                file = side / release.name / place / "public" / "table.json"
                file.parent.mkdir(parents=True)
                file.write_text(json.dumps({"count": 7, "receipts": receipts}))
                files[f"{release.name}/{place}"] = file  # in the end, those of the second side
        (side / "help.txt").write_text("help")
    assert other(base, head) == []
    for name, file in files.items():
        kept = file.read_text()
        file.write_text(kept.replace("7", "8"))
        (told,) = other(base, head)
        assert told.startswith(name)
        file.write_text(kept)
    (head / "help.txt").write_text("other help")
    assert len(other(base, head)) == 1
