"""The pages beside the report, and workbooks, in another language: whatever they say is from the catalogue."""

from __future__ import annotations

import re
from pathlib import Path

import openpyxl
import pytest
from releases.command import feature_module
from releases.pages import (
    OPEN,
    data_of,
    english_in,
    english_words,
    everything_marked,
    marked_texts,
    outside_of_signs,
    visible,
)

from features.exports.release import export_release
from pipeline.confidential.accuracy import accuracy_page, errors_of
from pipeline.confidential.custody import KeySource
from pipeline.execution.job import Job
from pipeline.execution.progress import Silent
from pipeline.execution.workers import Workers
from pipeline.published import open_finished
from pipeline.reading.compare import compare, comparison_html
from pipeline.reading.reader import open_reader
from pipeline.release.layout import RunDirectory


def test_the_page_of_errors(spanish_town: Path) -> None:
    release = open_finished(spanish_town, check_hashes=False)
    job = Job(release.run, release.spec, release.universes, release.spine, Workers(1), Silent(), status="official")
    universes = [("habitantes", errors_of(job, universe)) for universe in release.universes]
    text = visible(accuracy_page("town", release.manifest.status, universes, marked_texts()))
    assert text.count(OPEN) > 100
    assert outside_of_signs(text) - data_of(spanish_town) == set()
    spanish = visible(RunDirectory(spanish_town).accuracy_page.read_text("utf-8"))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    assert "Errores: habitantes" in spanish


@pytest.mark.usefixtures("marked")
def test_the_comparison_of_two_releases(spanish_town: Path, named_town: Path) -> None:
    first, second = open_reader(spanish_town), open_reader(named_town)
    text = visible(comparison_html(compare(first, second)))
    assert text.count(OPEN) > 30
    assert '<html lang="en">' in comparison_html(compare(second, first)), "it is in the language of the first"
    assert outside_of_signs(text) - data_of(spanish_town) == set()


@pytest.mark.slow
def test_the_audit_of_a_release(spanish_town: Path, tmp_path: Path) -> None:
    run_directory = RunDirectory(spanish_town)
    finished, audit_html = feature_module("features.audit.finished"), feature_module("features.audit.report").audit_html
    audit = finished.audit_release(run_directory, KeySource(), None, 1, lambda _: None)
    audit = finished.with_attacks(audit, run_directory, tmp_path, lambda _: None)
    spanish = visible(audit_html(audit))
    assert english_in(spanish) == []
    assert english_words(spanish) == set()
    with everything_marked():
        text = visible(audit_html(audit))
    assert text.count(OPEN) > 100
    versions = set(re.findall(r"[^\W\d_]{2,}", " ".join(audit.about.values())))
    assert outside_of_signs(text) - data_of(spanish_town) - versions == set()


def test_workbooks(spanish_town: Path, tmp_path: Path) -> None:
    release = open_finished(spanish_town, check_hashes=False)
    with everything_marked():
        folder = export_release(release, "xlsx", tmp_path / "marked")
    words = []
    for path in sorted(folder.rglob("*.xlsx")):
        book = openpyxl.load_workbook(path)
        words += [book.properties.title, *book.sheetnames]
        for sheet in book:
            words += [str(cell) for row in sheet.iter_rows(values_only=True) for cell in row if isinstance(cell, str)]
    assert outside_of_signs("\n".join(words)) - data_of(spanish_town) == set()
    folder = export_release(release, "xlsx", tmp_path / "spanish")
    book = openpyxl.load_workbook(folder / "sex.xlsx")
    assert book.sheetnames == ["Condado", "tract", "etiquetas", "sobre"]
    assert book.properties.title == "The town's <people>: Sexo y edad de habitantes"
    sheet = book["Condado"]
    assert [cell.value for cell in sheet[1]][:3] == ["geocódigo", "nombre", "young * Mujeres"]
    assert {cell.value for row in sheet.iter_rows() for cell in row} & {"buena", "cautela", "suma"}
