"""The pages beside the report, and workbooks, in another language: whatever they say is from the catalogue."""

from __future__ import annotations

import json
import re
from pathlib import Path

import openpyxl
import pytest
from releases.command import feature_module, needs, printed
from releases.pages import (
    FIELD,
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
    assert outside_of_signs(text) - data_of(spanish_town) == set()


def test_the_comparison_is_in_the_language_of_the_first(spanish_town: Path, named_town: Path) -> None:
    spanish, english = open_reader(spanish_town), open_reader(named_town)
    page = comparison_html(compare(spanish, english))
    assert '<html lang="es">' in page
    assert english_in(visible(page)) == []
    assert "Comparación de dos publicaciones" in page
    assert "Two releases compared" in comparison_html(compare(english, spanish))


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
    flags = {cell.value for row in sheet.iter_rows() for cell in row} & {"buena", "cautela", "suma"}
    assert flags
    about = dict(book["sobre"].iter_rows(values_only=True))
    assert about["columnas :moe90"] == "margen de error (90 %)"
    assert about["quien publica"] == "Office of Towns"
    assert about["fecha de referencia"] == "2030-04-01"


@pytest.mark.slow
@needs("plan")
def test_the_picture_of_a_plan(spanish_spec: Path, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    printed("plan", spanish_spec, "--chart", page)
    spanish = drawn(page)
    assert '<html lang="es">' in page.read_text("utf-8")
    assert {"Plan de town", "Condado", "total", "medido aquí", "error de un número (personas)"} <= spanish
    assert any("Sexo" in one for one in spanish)
    assert english_in("\n".join(spanish)) == []
    assert english_words("\n".join(spanish)) == set()
    with everything_marked():
        printed("plan", spanish_spec, "--chart", page)
    words = outside_of_signs("\n".join(drawn(page)))
    assert words - set(re.findall(r"[^\W\d_]{2,}", spanish_spec.read_text("utf-8"))) - FIELD == set()


def drawn(page: Path) -> set[str]:
    """What a picture shows: titles, and the values that are told apart."""
    text = page.read_text("utf-8")
    start = re.search(r'\{"config"', text)
    assert start is not None
    found: set[str] = set()

    def collect(one: object, key: str) -> None:
        if isinstance(one, dict):
            for name, value in one.items():
                collect(value, name)
        elif isinstance(one, list):
            for value in one:
                collect(value, key)
        elif isinstance(one, str) and key in ("title", "text", "level", "query", "measured", "division"):
            found.add(one)

    collect(json.JSONDecoder().raw_decode(text[start.start() :])[0], "")
    assert len(found) > 15
    return found
