"""The reports hold every finding, are valid, and escape what they are told."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from features.audit.findings import ALPHA, Audit, Finding, certain, statistical
from features.audit.report import write_audit
from pipeline.errors import InputError

AUDIT = Audit(
    "Audit of <something>",
    (
        statistical("samplers", "chi-square", "sigma^2 = 1", 0.3, {"0.95 times": 1e-30}),
        certain("release", "files", "public/", ["a & b", *"cdefgh"]),
    ),
    {"seed": "1"},
)


def test_a_test_passes_only_if_it_accepts_and_its_arms_are_rejected() -> None:
    assert statistical("g", "c", "s", 0.5, {"arm": ALPHA / 2}).passed
    assert not statistical("g", "c", "s", ALPHA / 2, {"arm": ALPHA / 2}).passed
    blind = statistical("g", "c", "s", 0.5, {"arm": 0.2})
    assert not blind.passed
    assert "arm is not noticed" in blind.detail
    unknown = float("nan")  # neither accepts what is tested, nor shows that a fault is noticed
    assert not statistical("g", "c", "s", unknown, {"arm": ALPHA / 2}).passed
    assert not statistical("g", "c", "s", 0.5, {"arm": unknown}).passed


def test_both_reports_hold_every_finding(tmp_path: Path) -> None:
    html, json_path = write_audit(AUDIT, tmp_path / "new" / "folder")
    content = json.loads(json_path.read_bytes())
    assert content["passed"] is False
    assert [f["check"] for f in content["findings"]] == ["chi-square", "files"]
    text = html.read_text()
    assert "1 of 2 checks FAILED" in text
    assert "Audit of &lt;something&gt;" in text
    assert "a &amp; b" in text
    assert "and 2 more" in text
    unknown = Finding("samplers", "tails", "x", passed=False, value=math.nan, limit=ALPHA, detail="not computable")
    html, json_path = write_audit(Audit("Audit", (unknown,), {}), tmp_path / "unknown")
    assert json.loads(json_path.read_bytes())["findings"][0]["value"] is None
    assert ("not known" in html.read_text(), "nan" in html.read_text()) == (True, False)
    assert "http" not in text.replace("http-equiv", ""), "the page needs nothing else"


def test_a_report_on_true_counts_is_for_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "audit.json").write_text("an older one, open to all")
    for folder in (tmp_path / "new", tmp_path / "there"):
        for path in write_audit(AUDIT, folder, private=True):
            assert path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o044 for path in write_audit(AUDIT, tmp_path / "open"))
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"--out .*file.* cannot be written"):
        write_audit(AUDIT, tmp_path / "file")
