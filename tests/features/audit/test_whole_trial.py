"""Every way to draw is run, verified and judged in the audit of the installation, which names the one with a fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline.privacy.ledger.charge
from features.audit import whole_trial
from features.audit.findings import Finding
from features.audit.finished import independent_findings
from features.audit.whole_trial import KINDS, Kind, kind_findings
from pipeline.privacy.accounting.uses import measurements_of
from pipeline.release.layout import RunDirectory
from pipeline.spec.slots import Slots


def finding_on(kind: Kind) -> Finding:
    (finding,) = kind_findings((kind,))
    assert finding.subject == kind.subject
    return finding


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=[kind.subject for kind in KINDS])
def test_a_wrong_number_or_charge_is_found(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """One measured number of the last release that is one too many; and a ledger that has less than was drawn."""

    def spoilt(root: Path, key: Path | None, ledger: str | None) -> Iterator[Finding]:
        path = max((RunDirectory(root).public / "measurements").rglob("*.parquet"))
        table = pq.read_table(path)
        column = table.schema.get_field_index("value")
        values = table.column(column).to_pylist()
        values[0] = [values[0][0] + 1, *values[0][1:]] if isinstance(values[0], list) else values[0] + 1
        changed = table.set_column(
            column, table.schema.field(column), pa.chunked_array([pa.array(values, table.schema.field(column).type)])
        )
        pq.write_table(changed, path)
        return independent_findings(root, key, ledger)

    def cheaper(universe):  # type: ignore[no-untyped-def]
        first, *rest = measurements_of(universe)
        return (replace(first, use=type(first.use)(first.use.scale * 2)), *rest)

    assert finding_on(kind).passed
    with monkeypatch.context() as fault:
        fault.setattr(whole_trial, "independent_findings", spoilt)
        assert "noise" in finding_on(kind).detail
    monkeypatch.setattr(pipeline.privacy.ledger.charge, "measurements_of", cheaper)
    assert "was not charged" in finding_on(kind).detail


def test_a_kind_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit says what it has not tested."""
    monkeypatch.setattr(whole_trial, "installed_slots", lambda: Slots(missing={"series": "years"}))
    finding = finding_on(KINDS[0])
    assert (finding.passed, finding.detail) == (True, "not tested: years is not installed")
