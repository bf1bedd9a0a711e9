"""The page of an audit in a real browser: every row is that of audit.json, and nothing in it is NaN, null or None."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from releases.browser import opened

from features.audit.findings import Audit, Finding
from features.audit.finished import audit_release
from features.audit.report import write_audit
from pipeline.confidential.custody import KeySource
from pipeline.release.layout import RunDirectory

#: What templates and scripts write of a value that is not there.
_MISSING = re.compile(r"\b(?:nan|undefined|null|none|infinity|inf)\b", re.IGNORECASE)
_ROWS = """rows => rows.map(row => [...row.children].map(cell => cell.textContent))"""


@pytest.fixture(scope="module", params=["sound", "spoilt"])
def audit(request: pytest.FixtureRequest, town: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Audit]:
    """The page of an audit of the town, also where its measurements are not those of its key; and its findings."""
    folder = tmp_path_factory.mktemp("audited")
    root = folder / "town"
    shutil.copytree(town, root)
    if request.param == "spoilt":
        report = root / "public" / "report.html"
        report.write_text(report.read_text("utf-8").replace("</body>", "<p>one more line</p></body>"), "utf-8")
    audit = audit_release(RunDirectory(root), KeySource(), None, 1, lambda _: None)
    assert audit.passed == (request.param == "sound")
    html, _ = write_audit(audit, folder / "audit", private=True)
    return html, audit


def _same(shown: str, value: float | None) -> bool:
    """Whether a cell shows a value of audit.json, to three digits."""
    return shown == "" if value is None else math.isclose(float(shown), value, rel_tol=5e-3)


def test_every_row_of_the_page_is_in_the_json(browser: Any, audit: tuple[Path, Audit]) -> None:
    html, _ = audit
    content = json.loads(html.with_name("audit.json").read_bytes())
    shown = opened(browser, html, ready=False)
    text = shown.page.locator("body").inner_text()
    assert not _MISSING.findall(text.replace("none: the spec names no dataset", ""))
    findings = content["findings"]
    failed = sum(not finding["passed"] for finding in findings)
    verdict = shown.page.locator("header .lead").text_content()
    assert re.findall(r"\d+", verdict) == [str(number) for number in ([failed] if failed else []) + [len(findings)]]
    assert ("FAILED" in verdict) == bool(failed)
    assert content["passed"] == (failed == 0)
    about = zip(*(shown.page.locator(tag).all_text_contents() for tag in ("dt", "dd")), strict=True)
    assert dict(about) == content["about"]
    groups = list(dict.fromkeys(finding["group"] for finding in findings))
    assert shown.page.locator("h2").all_text_contents() == groups
    rows = shown.page.locator("tbody tr").evaluate_all(_ROWS)
    expected = [finding for group in groups for finding in findings if finding["group"] == group]
    for row, finding in zip(rows, expected, strict=True):
        check, subject, result, value, limit, detail = row
        assert (check, subject, detail) == (finding["check"], finding["subject"], finding["detail"])
        assert result == ("passed" if finding["passed"] else "FAILED")
        assert _same(value, finding["value"]), row
        assert _same(limit, finding["limit"]), row
    assert shown.page.locator("tr.chosen").count() == failed
    assert shown.complaints == []
    assert shown.requests == []


def test_a_value_that_could_not_be_computed_is_named(browser: Any, tmp_path: Path) -> None:
    """A test whose number is NaN or infinite: no such word in the page, nor in the JSON, which would not be valid."""
    findings = tuple(
        Finding("samplers", "chi-square", "sigma^2 = 1", passed=False, value=value, limit=1e-6, detail="not computable")
        for value in (math.nan, math.inf, 0.25)
    )
    html, path = write_audit(Audit("Audit", findings, {}), tmp_path / "audit")
    shown = opened(browser, html, ready=False)
    assert not _MISSING.findall(shown.page.locator("body").inner_text())
    values = [row[3] for row in shown.page.locator("tbody tr").evaluate_all(_ROWS)]
    assert values == ["not known", "not known", "0.25"]
    stored = json.loads(path.read_bytes(), parse_constant=lambda word: pytest.fail(f"audit.json has {word}"))
    assert [finding["value"] for finding in stored["findings"]] == [None, None, 0.25]
