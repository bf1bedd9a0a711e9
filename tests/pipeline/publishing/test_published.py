"""What is published: steps that tell public things only, the catalogue of files, one epsilon, numbers and texts."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from babel.messages.pofile import read_po
from hypothesis import given
from hypothesis import strategies as st
from project.report_texts import LANGUAGES, placeholders, update, wanted
from releases.small import PEOPLE_EXACT, SPEC, run, write_town
from typer.testing import CliRunner

from features.registry import is_installed
from flows.cli import app
from pipeline.execution.steps import Step
from pipeline.metadata.products import products_of
from pipeline.model.texts.available import languages
from pipeline.model.texts.catalogue import Numerals, texts_in
from pipeline.pages.data import LARGEST_NUMBER, packed_lines, packed_numbers
from pipeline.pages.templates import script_json
from pipeline.release.manifest import Manifest, read_manifest
from pipeline.spec.slots import installed_slots


def test_steps_are_tens_and_tell_public_things_only(town_spec: Path, tmp_path: Path) -> None:
    performed: list[Step] = []

    def perform(step: Step) -> dict[str, object] | None:
        performed.append(step)
        told = step.perform()
        json.dumps(told)
        assert told is None or step.stage == "estimate"
        return told

    run(town_spec, tmp_path, perform=perform)
    names = [step.name for step in performed]
    assert len(set(names)) == len(names) < 100
    assert [name for name in names if name.startswith("measure")] == [
        *("measure county", "measure tract", "measure block"),
        *("measure units county", "measure units tract", "measure units block"),
    ]
    assert names.index("charge") < names.index("measure county")
    assert names.index("check units") < names.index("charge")


PAGE = Path(__file__).parents[3] / "docs" / "release_directory.md"


def test_the_page_of_the_directory_lists_the_catalogue() -> None:
    """Word for word, each kind of file once; companions have some of them in a folder of their own."""
    folder = "histograms, tables, measurements ... of a companion, laid out as above"
    products = products_of(installed_slots().features)
    wanted = {f"    public/{product.path:36} {product.about}" for product in products if product.about}
    wanted.add(f"    public/{'companions/NAME/...':36} {folder}")
    found = {line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("    public/")}
    assert found >= wanted
    slots = installed_slots()
    assert found == wanted or slots.missing or slots.unwritten  # files of a feature that is taken away
    assert {product.path for product in products} == {product.path for product in products if product.about}


CHANGES = (
    ('key = "insecure-test:1"', 'dataset = "town"'),
    ("replicates = 3", "replicates = 1"),
    ("[tables]", '[postprocess]\nsolver = "batched"\n\n[tables]'),
)
LAYOUTS = ("csv", "parquet", "xlsx", "sdmx", "dp-registry")
#: A number that follows the word, whatever marks, tags and quotes are between; and any decimal number.
_AFTER = re.compile(r"(?:epsilon|ε)(?:<[^>]*>|[^0-9<>]){0,40}?([0-9]+(?:\.[0-9]+)?)")
_DECIMAL = re.compile(r"(?<![\w.,])[0-9]+\.[0-9]+(?![\w.]*[0-9])")


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def texts_of(folder: Path) -> Iterator[tuple[str, str]]:
    """Every text in the files of a folder: of Parquet its metadata, of workbooks their parts, all decompressed."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder.parent).as_posix()
        if path.suffix == ".parquet":
            yield name, "\n".join(text.decode() for text in (pq.read_schema(path).metadata or {}).values())
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as parts:
                yield from (
                    (f"{name}/{part}", parts.read(part).decode("utf-8", "replace")) for part in parts.namelist()
                )
        elif path.suffix == ".gz":
            yield name, gzip.decompress(path.read_bytes()).decode()
        elif path.is_file():
            yield name, path.read_bytes().decode("utf-8", "replace")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, dict[str, str]]:
    """What each place says of one release; a universe without companions, so that the ledger counts the same."""
    folder = tmp_path_factory.mktemp("told")
    spec = write_town(folder, *CHANGES, spec=SPEC.split("[companions.units]", maxsplit=1)[0])
    ledger = str(folder / "ledger.db")
    exact = [word for subject in PEOPLE_EXACT for word in ("--exact", subject)]
    told("ledger", "--ledger", ledger, "open", "town", "--population", "people", "--rho", "2", *exact)
    ran = told("run", str(spec), "--out", str(folder / "out"), "--ledger", ledger, "--no-prefect")
    root = folder / "out" / "town"
    outputs = {
        "run": ran,
        "plan": told("plan", str(spec)) if is_installed("plan") else "",
        "ledger": told("ledger", "--ledger", ledger, "show"),
        "compare": told("compare", str(root), str(root)),
        "report": (root / "public" / "report.html").read_text() if is_installed("report") else "",
    }
    for layout in LAYOUTS if is_installed("exports") else ():
        export = folder / "exports" / layout
        outputs[layout] = told("export", str(root), "--format", layout, "--out", str(export))
        outputs |= dict(texts_of(export))
    return read_manifest(root / "public" / "manifest.json"), outputs | dict(texts_of(root / "public"))


def test_no_file_and_no_output_has_another_text_of_it(said: tuple[Manifest, dict[str, str]]) -> None:
    """Neither a number that is called epsilon and is about as large, nor its own with other digits, by any name.

    The bound from rho alone is another number, of which accounts say what it is.
    """
    manifest, texts = said
    assert manifest.joint is not None
    epsilon = manifest.joint.epsilon
    found: dict[str, set[str]] = {}
    for place, text in texts.items():
        named = {one for one in _AFTER.findall(text) if 0.95 <= float(one) / float(epsilon) <= 1.05}
        digits = {one for one in _DECIMAL.findall(text) if 0.999 <= float(one) / float(epsilon) <= 1.001}
        found[place] = named | digits
    assert {place: one for place, one in found.items() if one - {epsilon}} == {}
    stating = {place.split("/")[-1] for place, one in found.items() if one}
    assert stating >= {"manifest.json", "run", "ledger", "compare"}
    if is_installed("plan"):
        assert "plan" in stating
    if is_installed("report"):  # the factor exp(epsilon), never less than that
        assert "report" in stating
        told = re.search(r"at most a factor of <b>([0-9,.]+)</b>", texts["report"])
        assert told is not None
        most = math.exp(float(epsilon))
        assert most <= float(told[1].replace(",", "")) <= 1.11 * most
    if is_installed("exports"):
        assert stating >= {"about.csv", "csv-metadata.json", "structure.xml", "town.yaml"}


def unpacked(text: str) -> list[int]:
    width, *planes = gzip.decompress(base64.b64decode(text))
    n = len(planes) // width
    return [sum(planes[plane * n + i] << 8 * plane for plane in range(width)) for i in range(n)]


@given(st.lists(st.integers(0, LARGEST_NUMBER), max_size=40), st.text())
def test_numbers_and_text_come_back(numbers: list[int], text: str) -> None:
    """A matrix row by row."""
    assert unpacked(packed_numbers(np.array(numbers, dtype=np.int64))) == numbers
    assert gzip.decompress(base64.b64decode(packed_lines([text]))).decode() == text
    assert gzip.decompress(base64.b64decode(packed_lines(["a", "b"]))) == b"a\nb"
    matrix = np.arange(60).reshape(20, 3)
    assert unpacked(packed_numbers(matrix.T)) == matrix.T.ravel().tolist()


def test_json_cannot_end_its_script() -> None:
    assert "<" not in script_json({"a": "</script><!--"})


@pytest.mark.parametrize("numbers", [[-1], [LARGEST_NUMBER + 1]])
def test_what_a_browser_cannot_hold_is_refused(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="from 0 to 2"):
        packed_numbers(np.array(numbers))


def test_compressed_bytes_hold_no_time() -> None:
    """A gzip header may hold a time and an operating system; these would make every page another one."""
    header = base64.b64decode(packed_lines(["x"]))[:10]
    assert header[4:8] == b"\0\0\0\0"


@pytest.fixture(scope="module")
def texts() -> Mapping[str, list[str]]:
    return wanted()


@pytest.mark.parametrize("language", [tag for tag in languages() if tag != "en"])
def test_each_text_is_translated_with_its_placeholders_and_tags(language: str, texts: Mapping[str, list[str]]) -> None:
    messages = texts_in(language).messages
    assert len(texts) > 600
    assert [text for text in texts if not messages.get(text, "").strip()] == [], "run `make texts`, and translate these"
    assert [text for text in messages if text not in texts] == [], "run `make texts`"
    assert {text: messages[text] for text in texts if placeholders(text) != placeholders(messages[text])} == {}


@pytest.mark.parametrize("path", sorted(LANGUAGES.glob("*.po")), ids=lambda path: path.stem)
def test_a_catalogue_is_as_make_texts_writes_it(path: Path) -> None:
    """What it says, in its order: how its lines are broken is the library's."""
    assert entries(path.read_bytes()) == entries(update(path.stem))


def entries(catalogue: bytes) -> list[tuple[object, ...]]:
    """But for the head, in which Babel puts the minute in which it is read where there is none."""
    return [(one.id, one.string, one.locations) for one in read_po(BytesIO(catalogue)) if one.id]


#: Language -> 1234, 12345, 1234.5, 9999999.75 as CLDR 45 writes them.
WRITTEN = {
    "en": ("1,234", "12,345", "1,234.5", "9,999,999.75"),
    "es": ("1234", "12.345", "1234,5", "9.999.999,75"),
    "es-MX": ("1,234", "12,345", "1,234.5", "9,999,999.75"),
    "es-AR": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "pl": ("1234", "12\u00a0345", "1234,5", "9\u00a0999\u00a0999,75"),
    "de": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "pt-PT": ("1234", "12\u00a0345", "1234,5", "9\u00a0999\u00a0999,75"),
    "pt-BR": ("1.234", "12.345", "1.234,5", "9.999.999,75"),
    "hi": ("1,234", "12,345", "1,234.5", "99,99,999.75"),
}


@pytest.mark.parametrize("language", WRITTEN)
def test_numbers_are_as_the_language_writes_them(language: str) -> None:
    numerals = Numerals(language)
    numbers = (Decimal(1234), Decimal(12345), Decimal("1234.5"), Decimal("9999999.75"))
    assert tuple(map(numerals.decimal, numbers)) == WRITTEN[language]
