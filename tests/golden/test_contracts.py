"""Each small release holds what is stored of it, keeps its promise to whoever looks at it, and shows a changed number.

One matrix in place of the same test in many folders: releases by what is done with them; and files of each kind that
the catalogue of products has, by who judges them. Each release is compared with what is stored in every run of the slow
tests; the rest of the matrix takes turns.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from oracles.how_many import turns
from releases.command import PROJECT, forks, spinewise
from releases.mutant import resealed, rewritten

from auditor.check.release import check_release
from golden.content import content_of, differences, is_form
from golden.releases import CUT, RELEASES, SmallRelease
from golden.store import held_by, stored
from pipeline.execution.progress import Silent
from pipeline.metadata.products import Product, ReleaseScope, products_of
from pipeline.published import open_finished
from pipeline.release.layout import RunDirectory
from pipeline.runs.updates import update_release
from pipeline.runs.verify import verify_release

pytestmark = pytest.mark.slow

#: What is done with a release.
CONTRACTS = ("verify", "verify --constraints", "verify --records", "audit", "export --format csv --measurements")
#: Of reports nobody has the true counts; a series is audited by the second program alone; an answer is no table; a
#: version made with answers draws nothing by itself.
REFUSED = {
    *((name, "audit") for name in ("survey", "unary", "words", "mixed", "updated", "series", "independent")),
    *(("answers", contract) for contract in (CONTRACTS[1], CONTRACTS[4])),
    ("updated", "verify --records"),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[SmallRelease], Path]:
    """The folder in which a small release is made, once."""

    @cache
    def folder_of(release: SmallRelease) -> Path:
        folder = tmp_path_factory.mktemp(release.name)
        release.write(folder)
        release.make(folder, PROJECT, forks())
        return folder

    return folder_of


@pytest.fixture
def made(request: pytest.FixtureRequest, folders: Callable[[SmallRelease], Path]) -> tuple[SmallRelease, Path]:
    """A small release and the folder that it is made in."""
    return request.param, folders(request.param)


def of_releases(chosen: Sequence[SmallRelease]) -> pytest.MarkDecorator:
    """A test of these releases."""
    return pytest.mark.parametrize("made", chosen, ids=lambda release: release.id, indirect=True)


@of_releases([*RELEASES, *CUT])
def test_it_holds_what_is_stored(made: tuple[SmallRelease, Path]) -> None:
    """Files, and streams of noise, of which another order or number is none of the release's numbers."""
    release, folder = made
    assert differences(stored(release.name), held_by(release, folder)) == []


@of_releases(RELEASES)
def test_one_changed_number_is_not_what_is_stored(made: tuple[SmallRelease, Path], tmp_path: Path) -> None:
    """Of each kind of file; an answer's are in JSON."""
    release, folder = made
    root = folder / release.published[-1]
    files = [] if release.name == "answers" else files_by_product(root).values()
    for path in files:
        if path.suffix == ".parquet":
            name = path.relative_to(root / "public").as_posix()
            changed = tmp_path / release.name / name
            changed.parent.mkdir(parents=True)
            pq.write_table(_changed(pq.read_table(path)), changed)
            held = {
                f"{release.published[-1]}: {one}": text for one, text in content_of(tmp_path / release.name).items()
            }
            shutil.rmtree(tmp_path / release.name)
            told = [line for line in differences(stored(release.name), held) if not line.endswith(": is gone")]
            assert [is_form(line.partition(": was ")[0]) for line in told] == [False], name


@of_releases(turns(RELEASES, 3))
def test_its_texts_are_corrected(made: tuple[SmallRelease, Path], tmp_path: Path) -> None:
    """In a version that follows from public files; an answer has no version."""
    release, folder = made
    texts = tmp_path / "texts.toml"
    texts.write_text('[report]\ntitle = "Corrected"\n', "utf-8")
    for number, place in enumerate(release.published):
        if (folder / place / "public/manifest.json").is_file():
            new = update_release(folder / place, (), tmp_path / str(number), 1, Silent(), texts=texts).root
            assert verify_release(RunDirectory(new), 1, Silent()) == []
            assert check_release(new) == []


@pytest.mark.parametrize(
    ("made", "contract"),
    turns(((release, contract) for release in RELEASES for contract in CONTRACTS), 3),
    ids=lambda one: one if isinstance(one, str) else one.name,
    indirect=["made"],
)
def test_it_keeps_what_is_promised(contract: str, made: tuple[SmallRelease, Path], tmp_path: Path) -> None:
    release, folder = made
    command, *options = contract.split()
    key = ["--key", f"file:{folder / 'key'}"] if contract in CONTRACTS[2:4] and (folder / "key").exists() else []
    out = ["--out", tmp_path / "out"] if command in ("export", "audit") else []
    words = (command, folder / release.published[-1], *options, *key, *out)
    ledger, state = str(folder / "ledger.sqlite"), str(folder / "state")
    done = spinewise(*words, cwd=folder, timeout=600, SPINEWISE_LEDGER=ledger, SPINEWISE_STATE=state)
    assert done.returncode == (2 if (release.name, contract) in REFUSED else 0), done.stdout + done.stderr


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
    of = ReleaseScope(release.spec, release.universes, release.run)
    products = products_of(release.spec.of_features)
    found = {one: [file.path for file in one.files(of) if file.path.exists()] for one in products}
    return {one: paths[-1] for one, paths in found.items() if paths}


#: First parts of paths below public/ in which the second program finds a wrong number; `verify` does in all.
CHECKED = {"spine", "histograms", "tables", "amounts", "household_sizes", "household_tables"}
#: Inputs and measurements are judged one by one, in the first release that has some of their kind.
_judged_alone: set[str] = set()


@of_releases(turns(RELEASES, 3))
def test_one_changed_number_is_noticed(made: tuple[SmallRelease, Path], tmp_path: Path) -> None:
    """Of each kind of file; of files that are computed, each is named."""
    release, folder = made
    root = folder / release.published[-1]
    if release.name == "answers":
        pytest.skip("tests/features/questions plants its faults in answers")
    files = files_by_product(root)
    assert len(files) >= 7
    every = Path(shutil.copytree(root, tmp_path / "every" / root.name))
    for product, path in files.items():
        name = path.relative_to(root)
        one = Path(shutil.copytree(root, tmp_path / "one" / root.name))
        one_number_changed(one, one / name)
        if product.stage in CHECKED:
            assert check_release(one) != [], name
        if product.role == "computed":
            one_number_changed(every, every / name)
        elif (alone := f"{product.path} {product.role}") not in _judged_alone:
            _judged_alone.add(alone)
            central = folder / release.published[0] if release.name == "mixed" else None
            assert verify_release(RunDirectory(one), 1, Silent(), central) != [], name
        shutil.rmtree(one)
    problems = verify_release(RunDirectory(every), 1, Silent())
    named = {problem.split()[0] for problem in problems}
    assert {path.relative_to(root).as_posix() for one, path in files.items() if one.role == "computed"} <= named
