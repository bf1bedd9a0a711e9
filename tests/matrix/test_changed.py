"""What is wrong in a release is found: one changed number in each kind of file, and lies that agree with themselves."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from releases.mutant import Edit, resealed, rewritten

from auditor.answers.audit import is_answer
from auditor.check.release import check_release
from auditor.ledger import read_ledger
from auditor.program import audit_with, secret_of
from auditor.reading.findings import FormError
from matrix.case import KEY, Case
from matrix.cases import CASES
from matrix.content import content_of, differences, is_form
from matrix.store import stored
from matrix.table import of_cases
from pipeline.execution.steps import Silent
from pipeline.metadata.products import Product, products_of
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.runs.verify import verify_release
from pipeline.storage.files import ParquetSink

pytestmark = pytest.mark.slow


@of_cases()
def test_one_changed_number_is_not_what_is_stored(made: tuple[Case, Path], tmp_path: Path) -> None:
    """Of each kind of file; an answer's are in JSON."""
    case, folder = made
    root = folder / case.published[-1]
    files = [] if is_answer(root) else files_by_product(root).values()
    for path in files:
        if path.suffix == ".parquet":
            name = path.relative_to(root / "public").as_posix()
            changed = tmp_path / case.name / name
            changed.parent.mkdir(parents=True)
            pq.write_table(_changed(pq.read_table(path)), changed)
            held = {f"{case.published[-1]}: {one}": text for one, text in content_of(tmp_path / case.name).items()}
            shutil.rmtree(tmp_path / case.name)
            told = [line for line in differences(stored(case.name), held) if not line.endswith(": is gone")]
            assert [is_form(line.partition(": was ")[0]) for line in told] == [False], name


def one_number_changed(root: Path, path: Path) -> None:
    """The smallest change of one number of a file, written and sealed as the program would have done it."""
    name = path.relative_to(root / "public").as_posix()
    if path.suffix == ".parquet":
        rewritten(root, name, _changed)
    else:
        text = path.read_text("utf-8")
        last = [*re.finditer("[1-8]", text), *re.finditer(r"(?<![\w.#])[1-8](?=[,\]}\s.])", text)][-1]
        path.write_text(f"{text[: last.start()]}{int(last[0]) + 1}{text[last.end() :]}", "utf-8")
        resealed(root)


def _changed(table: pa.Table) -> pa.Table:
    """A number of the last column that has some, and one more, of an interval only where there is nothing else.

    Without any number, the first and the last value of a column change places.
    """
    for place in sorted(range(table.num_columns), key=lambda column: (":" in table.column_names[column], -column)):
        field, values = table.schema.field(place), table.column(place).combine_chunks().to_pylist()
        at = next((row for row, one in enumerate(values) if one is not None and one != []), 0)
        first = values[at][0] if isinstance(values[at], list) else values[at]
        if isinstance(first, int | float):
            values[at] = [first + 1, *values[at][1:]] if isinstance(values[at], list) else first + 1
            return table.set_column(place, field, pa.array(values, field.type))
    values = table.column(1).to_pylist()
    other = next(row for row in reversed(range(len(values))) if values[row] != values[0])
    values[0], values[other] = values[other], values[0]
    return table.set_column(1, table.schema.field(1), pa.array(values, table.schema.field(1).type))


def files_by_product(root: Path) -> dict[Product, Path]:
    """Of each kind of file that a release has, the last."""
    release = open_finished(root, check_hashes=False)
    products = products_of(release.spec.of_features)
    found = {one: [file.path for file in one.files(release) if file.path.exists()] for one in products}
    return {one: paths[-1] for one, paths in found.items() if paths}


#: First parts of paths below public/ in which the second program finds a wrong number; `verify` does in all.
CHECKED = {"spine", "histograms", "tables", "amounts", "household_sizes", "household_tables"}
#: Inputs and measurements are judged one by one, in the first release that has some of their kind.
_judged_alone: set[str] = set()


@of_cases(full=True)
def test_one_changed_number_is_noticed(made: tuple[Case, Path], tmp_path: Path) -> None:
    """Of each kind of file; of files that are computed, each is named."""
    case, folder = made
    root = folder / case.published[-1]
    if is_answer(root):
        pytest.skip("tests/features/questions plants its faults in answers")
    files = files_by_product(root)
    assert len(files) >= 7
    every = Path(shutil.copytree(root, tmp_path / "every" / root.name))
    for product, path in files.items():
        name = path.relative_to(root)
        one = Path(shutil.copytree(root, tmp_path / "one" / root.name))
        one_number_changed(one, one / name)
        if product.path.split("/")[0].split(".")[0] in CHECKED:
            assert check_release(one) != [], name
        if product.role == "computed":
            one_number_changed(every, every / name)
        elif (alone := f"{product.path} {product.role}") not in _judged_alone:
            _judged_alone.add(alone)
            central = folder / case.published[0] if case.name == "mixed" else None
            assert verify_release(RunDirectory(one), 1, Silent(), central) != [], name
        shutil.rmtree(one)
    problems = verify_release(RunDirectory(every), 1, Silent())
    named = {problem.split()[0] for problem in problems}
    assert {path.relative_to(root).as_posix() for one, path in files.items() if one.role == "computed"} <= named


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
