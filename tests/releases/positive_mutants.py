"""Faults planted in what is drawn only where the released parent is positive: true counts decide where that is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pipeline.confidential.measure
from pipeline.estimation.measurement_files import PositiveSource
from pipeline.release.histograms import read_histogram
from pipeline.storage.paths import unchecked
from releases.mutant import Mutant, Patch, mutant, rewritten


def true_counts(patch: Patch) -> None:
    """The answers that are positive in the true counts of the area above are drawn."""

    def true_histogram(path: Any, *at: Any, **form: Any) -> Any:
        return read_histogram(unchecked(Path(str(path).replace("/public/", "/restricted/"))), *at, **form)

    patch.setattr(pipeline.confidential.measure, "read_histogram", true_histogram)


def _unnoticed(patch: Patch) -> None:
    """The same, and the estimation takes whatever was drawn."""
    true_counts(patch)
    patch.setattr(PositiveSource, "check_places", lambda *_: None)


def without_true_zeros(root: Path) -> None:
    """Leave out of a file the answers that are 0 in the true counts of the area above."""
    above = root / "restricted" / "histograms"
    true = pq.read_table(above / "county.parquet").to_pylist()
    spec = json.loads((root / "public" / "manifest.json").read_text("utf-8"))["spec"]
    values = {name: [str(value) for value in stated] for name, stated in spec["schema"]["attributes"]}
    kept: dict[str, set[int]] = {}
    for row in true:
        cell = 0
        for name, stated in values.items():
            cell = cell * len(stated) + stated.index(str(row[name]))
        kept.setdefault(row["geocode"], set()).add(cell)

    def change(table: pa.Table) -> pa.Table:
        rows = []
        for row in table.to_pylist():
            due = kept.get(row["geocode"][:2], ())
            pairs = [pair for pair in zip(row["answer"], row["value"], strict=True) if pair[0] in due]
            rows.append({**row, "answer": [one[0] for one in pairs], "value": [one[1] for one in pairs]})
        changed = pa.Table.from_pylist(rows, schema=table.schema)
        assert sum(map(len, changed.column("answer").to_pylist())) < sum(map(len, table.column("answer").to_pylist()))
        return changed

    rewritten(root, "positive/block/detailed.parquet", change)


POSITIVES: tuple[Mutant, ...] = (
    mutant("answers drawn where the true area above is positive", "sc", on="positive", plant=_unnoticed),
    mutant("answers left out where the true area above is empty", "svc", on="positive", edit=without_true_zeros),
)
