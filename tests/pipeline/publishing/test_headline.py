"""One epsilon stands for a release wherever it is named; another number is never shown beside it as if it were it."""

from __future__ import annotations

import gzip
import math
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from releases.small import PEOPLE_EXACT, SPEC, write_town
from typer.testing import CliRunner

from features.registry import is_installed
from flows.cli import app
from pipeline.release.manifest import Manifest, read_manifest

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
