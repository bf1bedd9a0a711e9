"""Releases that lie and agree with themselves: the second program finds them, by public files alone or with records."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.mutant import Edit, resealed

from auditor.check.release import check_release
from auditor.ledger import read_ledger
from auditor.program import audit_with, secret_of
from auditor.reading.findings import FormError
from matrix.case import KEY, Case
from matrix.cases import CASES
from pipeline.storage.files import ParquetSink

pytestmark = pytest.mark.slow


def _stated(change: Callable[[dict[str, Any]], object]) -> Edit:
    return lambda root: resealed(root, change)


def _further(name: str) -> Edit:
    """A file with the true counts, of which the manifest knows."""

    def edit(root: Path) -> None:
        (root / "public" / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / "restricted" / "histograms" / "block.parquet", root / "public" / name)
        resealed(root, lambda content: content["files"].update({name: {}}))

    return edit


def _less_noise(name: str) -> Edit:
    """Header and rows of a file state a quarter of its variance."""

    def edit(root: Path) -> None:
        path = root / "public" / name
        table = pq.read_table(path)
        header = json.loads(table.schema.metadata[b"spinewise"])
        header |= {"scale": str(Fraction(header["scale"]) / 4), "variance": header["variance"] / 4}
        place = table.column_names.index("variance")
        quarter = pa.array([header["variance"]] * table.num_rows)
        table = table.set_column(place, table.schema.field(place), quarter)
        sink = ParquetSink(path, table.schema, header)
        sink.write(*(column.combine_chunks() for column in table.columns))
        sink.close()
        resealed(root)

    return edit


def _without_choice(root: Path) -> None:
    """Cliques that records chose are said to be declared."""
    (root / "restricted" / "choice.npz").unlink()
    resealed(root, lambda m: [m["spec"]["marginals"].pop(key, None) for key in ("choose", "chosen", "budget")])


def _fewer_reports(root: Path) -> None:
    path = root / "public" / "reports.json"
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, "used": content["used"] - 100}), "utf-8")
    resealed(root)


PUBLIC, RECORDS = "public files", "records"
#: The case that tells it, the lie, who finds it, and words of what is found.
LIES: Final[tuple[tuple[str, Edit, str, str], ...]] = (
    ("town", _further("notes.csv"), PUBLIC, "notes.csv does not follow from the spec"),
    ("town", _further("estimates/exact/block.parquet"), PUBLIC, "exact/block.parquet does not follow from the spec"),
    ("town", _further("notes.csv"), RECORDS, "notes.csv is not of the spec"),
    ("town", _stated(lambda m: m["spec"]["bounds"][0].update(lower=50)), RECORDS, "the bound 'group quarters'"),
    ("town", _stated(lambda m: m["privacy"][0].update(delta="1e-12")), RECORDS, "is for delta = 1e-12"),
    ("town", _stated(lambda m: m["privacy"][0].update(conversion="by heart")), RECORDS, "states zcdp, 'by heart'"),
    ("town", _stated(lambda m: m["privacy"][0].update(framework="pure")), RECORDS, "states pure, "),
    ("town", lambda root: (root / "restricted" / "choice.npz").touch(), RECORDS, "choice.npz is of one"),
    ("bypass", _stated(lambda m: m["accounts"][0]["attributes"][0].update(budget="7/4")), RECORDS, "the budget 7/4"),
    ("chosen", _less_noise("selected/detail/block.parquet"), RECORDS, "selected detail: its header"),
    ("cliques", _without_choice, RECORDS, "one was charged for this release, and the spec has none"),
    ("homes", _stated(lambda m: m["spec"]["join"][0].update(most=4)), RECORDS, "break the join 'homes size'"),
    ("independent", _stated(lambda m: m["spec"]["series"].update(predecessor="0" * 64)), RECORDS, "one after it in"),
    ("survey", _fewer_reports, PUBLIC, "reports were used"),
    ("survey", _stated(lambda m: m["joint"].update(budget="1/2")), PUBLIC, "states the budget 1/2 of reports"),
    ("updated", _less_noise("measurements/tract/q0.parquet"), PUBLIC, "tract/q0.parquet: its header"),
    ("updated", _stated(lambda m: m["spec"]["update"]["answers"][0].update(by=[], where=[])), PUBLIC, "others than"),
)


def _judged(root: Path, judge: str, key: Path) -> Iterator[str]:
    if judge == PUBLIC:
        yield from check_release(root)
        return
    try:
        ledger = key.with_name("ledger.sqlite")
        read = read_ledger(str(ledger)) if ledger.is_file() else None
        yield from (one.detail for one in audit_with(root, *secret_of(root, key if key.is_file() else None), read))
    except FormError as error:
        yield str(error)


@pytest.mark.parametrize(
    ("made", "edit", "judge", "words"),
    [(case, *lie) for name, *lie in LIES for case in CASES if case.name == name],
    ids=[f"{name}: {words}" for name, _, _, words in LIES if name in {case.name for case in CASES}],
    indirect=["made"],
)
def test_it_is_found(made: tuple[Case, Path], edit: Edit, judge: str, words: str, tmp_path: Path) -> None:
    case, folder = made
    whole = Path(shutil.copytree(folder, tmp_path / case.name, symlinks=True))
    root = whole / case.published[-1]
    assert not any(words in sentence for sentence in _judged(root, judge, whole / KEY))
    edit(root)
    assert any(words in sentence for sentence in _judged(root, judge, whole / KEY))
