"""The page of an audit in a real browser: every row is that of audit.json, and nothing in it is NaN, null or None."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import Any

from releases.browser import opened

from features.audit.findings import Audit, Finding
from features.audit.finished import audit_release
from features.audit.report import write_audit
from pipeline.confidential.custody import KeySource
from pipeline.release.layout import RunDirectory

#: What templates and scripts write of a value that is not there.
_MISSING = re.compile(r"\b(?:nan|undefined|null|none|infinity|inf)\b", re.IGNORECASE)
_ROWS = """rows => rows.map(row => [...row.children].map(cell => cell.textContent))"""


def test_every_row_of_the_page_is_in_the_json(browser: Any, town: Path, tmp_path: Path) -> None:
    """Of the town with a report that is another; a value that could not be computed is named, which JSON has not."""
    root = Path(shutil.copytree(town, tmp_path / "town"))
    report = root / "public" / "report.html"
    report.write_text(report.read_text("utf-8").replace("</body>", "<p>one more line</p></body>"), "utf-8")
    audit = audit_release(RunDirectory(root), KeySource(), None, 1, lambda _: None)
    assert not audit.passed
    more = tuple(
        Finding("samplers", "chi-square", "sigma^2 = 1", passed=False, value=value, limit=1e-6, detail="not computable")
        for value in (math.nan, math.inf)
    )
    html, path = write_audit(
        Audit(audit.title, (*audit.findings, *more), audit.about), tmp_path / "audit", private=True
    )
    content = json.loads(path.read_bytes(), parse_constant=lambda word: f"audit.json has {word}")
    shown = opened(browser, html, ready=False)
    text = shown.page.locator("body").inner_text()
    assert not _MISSING.findall(text.replace("none: the spec names no dataset", ""))
    findings = content["findings"]
    failed = sum(not finding["passed"] for finding in findings)
    verdict = shown.page.locator("header .lead").text_content()
    assert re.findall(r"\d+", verdict) == [str(failed), str(len(findings))]
    assert content["passed"] is False
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
        for cell, number in ((value, finding["value"]), (limit, finding["limit"])):
            unknown = number is None and cell in ("", "not known")
            assert unknown or math.isclose(float(cell), number, rel_tol=5e-3), row
    assert [row[3] for row in rows[-2:]] == ["not known", "not known"]
    assert [finding["value"] for finding in findings[-2:]] == [None, None]
    assert shown.page.locator("tr.chosen").count() == failed
    assert shown.complaints == []
    assert shown.requests == []
