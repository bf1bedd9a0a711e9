"""Every page runs its own scripts and no other, and what it shows of a source is a template of the source's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from releases.command import PROJECT, feature_module, printed
from releases.policy import runs_its_own_scripts_alone

from pipeline.release.layout import RunDirectory

PACKAGES = ("geography", "postprocess", "pipeline", "flows", "features", "spinewise", "auditor")
META = '<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{{ policy }}">'


@pytest.fixture(scope="module")
def pages(town: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each template, by the template's name."""
    folder = tmp_path_factory.mktemp("pages")
    printed("compare", town, town, "--html", folder / "compare.html")
    run = RunDirectory(town)
    return {"report": run.report, "accuracy": run.accuracy_page, "compare": folder / "compare.html"}


def templates() -> dict[str, Path]:
    """The whole pages among the templates, by name; parts of pages are not."""
    found = [path for package in PACKAGES for path in (PROJECT / package).rglob("*.html*")]
    return {
        path.name.partition(".")[0]: path for path in found if path.read_text("utf-8").lower().startswith("<!doctype")
    }


def test_every_template_of_a_page_begins_with_the_policy(pages: dict[str, Path]) -> None:
    found = templates()
    assert len(found) >= len(pages)
    for name, path in found.items():
        text = path.read_text("utf-8")
        assert META in text, path
        assert text.count("Content-Security-Policy") == 1
        assert re.search(r"<(script|style|link|title|body)\b", text.partition(META)[0]) is None, path
        assert name in (*pages, "audit", "fitness", "history"), f"{name}: a page of it is to be opened here"


@pytest.mark.parametrize("name", ["report", "accuracy", "compare"])
def test_a_page_works_and_what_is_put_into_it_does_not_run(
    name: str, browser: Any, pages: dict[str, Path], tmp_path: Path
) -> None:
    runs_its_own_scripts_alone(browser, pages[name], tmp_path, ready=name == "report")


def test_the_page_of_an_audit_too(browser: Any, tmp_path: Path) -> None:
    findings = feature_module("features.audit.findings")
    well = findings.certain("files", "hashes", "all", [], well="as stated")
    audit = findings.Audit("audit", (well,), {"release": "town"})
    page, _ = feature_module("features.audit.report").write_audit(audit, tmp_path / "audit", private=True)
    runs_its_own_scripts_alone(browser, page, tmp_path)
