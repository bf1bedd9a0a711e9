"""A feature can be taken away with its folder: nothing imports it, and the rest runs without it. So one is added."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from oracles.how_many import OF_A_VERSION
from project.conftest import PACKAGES
from project.documents import PROJECT
from project.trees import modules
from releases.command import forks
from releases.forked import Forks
from releases.small import QUICK, write_town

from features.registry import FEATURES, Feature, installed_features


def test_every_folder_is_listed_and_has_a_page() -> None:
    folders = {path.parent.name for path in (PROJECT / "features").glob("*/__init__.py")}
    assert {feature.name for feature in FEATURES} == folders
    assert installed_features() == FEATURES
    for name in folders:
        page = (PROJECT / "features" / name / "README.md").read_text("utf-8")
        assert page.startswith(f"# {name}: ")
        assert (PROJECT / "tests" / "features" / name).is_dir()


#: Tests outside of these features still import them.
_USED_BY_TESTS = {"example", "exports", "imports"}
#: Has names of a feature for Python users, which are not there without its folder.
_NAMES = {"local": {"spinewise/collect.py"}, "plan": {"spinewise/plans.py"}, "questions": {"spinewise/questions.py"}}
#: Of these names, those that `spinewise` itself has.
_OF_SPINEWISE = {"plan": {"ReleasePlan", "plan"}, "questions": {"Dataset", "Question", "open_dataset"}}
#: Its benchmarks, beside bench_NAME.
_BENCHMARKS = {"cumulative": ("bench_intervals",), "joins": ("bench_households",), "questions": ("bench_amounts",)}
#: What its tests share that is not in their folder.
_HELPERS = {"joins": ("tests/oracles/joined_homes.py",), "marginals": ("tests/oracles/clique_population.py",)}


@pytest.mark.parametrize("feature", FEATURES, ids=[feature.name for feature in FEATURES])
def test_nothing_outside_of_it_imports_it(feature: Feature) -> None:
    """In any form, also for annotations alone: without the folder types pass, and tests of the core are collected."""
    own = f"features.{feature.name}"
    roots = [*PACKAGES, *([] if feature.name in _USED_BY_TESTS else ["tests", "benchmarks"])]
    places = [path for root in roots for path in sorted((PROJECT / root).rglob("*.py"))]
    inside = [PROJECT / "features" / feature.name, PROJECT / "tests" / "features" / feature.name]
    patterns = [f"benchmarks/{name}.py" for name in (f"bench_{feature.name}", *_BENCHMARKS.get(feature.name, ()))]
    inside += [path for pattern in patterns for path in PROJECT.glob(pattern)]
    inside += [PROJECT / name for name in _HELPERS.get(feature.name, ())]
    outside = [path for path in places if not any(own in (path, *path.parents) for own in inside)]
    assert len(outside) > 500
    found = {str(path.relative_to(PROJECT)) for path in outside if own in _imports(path)}
    assert found == _NAMES.get(feature.name, set())


@cache
def _imports(path: Path) -> frozenset[str]:
    """Modules that a file imports, each with the packages that it is in."""
    names: set[str] = set()
    own = path.relative_to(PROJECT)
    for node in ast.walk(modules(own.parts[0])[own.as_posix()]):
        if isinstance(node, ast.Import):
            names.update(one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.update(f"{node.module}.{one.name}" for one in node.names)
    return frozenset(name.rsplit(".", drop)[0] for name in names for drop in range(name.count(".") + 1))


#: Imported when Python starts: an editable installation would find in the checkout what the copy does not have.
_NOT_EDITABLE = """
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "_EditableFinder"]
"""


def _copy_without(features: Sequence[Feature], target: Path) -> Path:
    """The packages without the folders of features; what Python has compiled of the rest is of use there, too."""
    for package in PACKAGES:
        shutil.copytree(PROJECT / package, target / package)
    for feature in features:
        shutil.rmtree(target / "features" / feature.name)
    (target / "sitecustomize.py").write_text(_NOT_EDITABLE)
    return target


def _command(root: Path, *arguments: object, status: int = 0) -> str:
    """What a command prints that runs with the packages of a folder."""
    done = _forks(root).run(["flows.cli", *map(str, arguments)], _variables(root), root, timeout=300)
    assert done.returncode == status, done.stderr
    return done.stderr + done.stdout if status else done.stdout


def _variables(root: Path) -> dict[str, str]:
    """The environment in which Python finds the packages of a folder, and what the tests share."""
    paths = os.pathsep.join([str(root), str(PROJECT / "tests")])
    return {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100"}


#: What has loaded the packages of copies, until a test ends.
_loaded: dict[Path, Forks] = {}


@pytest.fixture(autouse=True)
def _copies_end_with_the_test() -> Iterator[None]:
    yield
    while _loaded:
        _loaded.popitem()[1].end()


def _forks(root: Path) -> Forks:
    if root == PROJECT:
        return forks()
    if root not in _loaded:
        _loaded[root] = Forks(_variables(root))
    return _loaded[root]


def _commands(root: Path) -> set[str]:
    return set(re.findall(r"^  ([a-z][a-z-]*)(?:  |$)", _command(root, "--help"), re.MULTILINE))


def _python_names(root: Path) -> set[str]:
    """The names that Python users have with the packages of a folder, each of which can be imported."""
    program = "from spinewise import *; print(*(name for name in dir() if name[0] != '_'))"
    variables = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return set(done.stdout.split())


def _made(root: Path, spec: Path, out: Path) -> Path:
    """A release that is made and verified with the packages of a folder."""
    release = Path(_command(root, "--quiet", "run", spec, "--out", out, "--no-prefect").strip())
    _command(root, "verify", release)
    return release


def _files(release: Path) -> dict[Path, bytes]:
    """The public files of a release but those that name the run itself."""
    paths = (path for path in sorted((release / "public").rglob("*")) if path.is_file())
    own = {"manifest.json", "report.html"}
    return {path.relative_to(release / "public"): path.read_bytes() for path in paths if path.name not in own}


@dataclass(frozen=True)
class Whole:
    """The town's spec, and what the whole program has and says: what copies of it are compared with.

    Attributes:
        spec: of the town.
        commands, names, keys: for the shell, for Python users, and of specs.
        release, files: of the town, with its public files.
        numbers: of its counties, as `query` prints them.
    """

    spec: Path
    commands: set[str]
    names: set[str]
    keys: set[tuple[str, str]]
    release: Path
    files: dict[Path, bytes]
    numbers: str


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole")
    spec = write_town(folder / "in", *QUICK)
    release = _made(PROJECT, spec, folder / "out")
    return Whole(
        spec=spec,
        commands=_commands(PROJECT),
        names=_python_names(PROJECT),
        keys=_keys(PROJECT),
        release=release,
        files=_files(release),
        numbers=_numbers(PROJECT, release),
    )


#: Features that are taken away together, as none imports another; of a version each by itself.
GROUPS = [[feature] for feature in FEATURES] if OF_A_VERSION else [FEATURES[number::5] for number in range(5)]


@pytest.mark.slow
@pytest.mark.parametrize("gone", GROUPS, ids=lambda gone: " ".join(feature.name for feature in gone))
def test_the_program_runs_without_them(tmp_path: Path, gone: Sequence[Feature], whole: Whole) -> None:
    """Help lists all commands but those of the features, which are refused; a release has the same bytes."""
    without, names = _copy_without(gone, tmp_path / "copy"), {feature.name for feature in gone}
    commands = [name for feature in gone for name in feature.commands]
    assert whole.commands - _commands(without) == set(commands)
    for name in commands:
        assert f"Error: No such command '{name}'." in _command(without, name, "anything", status=2)
    assert _python_names(without) == whole.names.difference(*(_OF_SPINEWISE.get(name, ()) for name in names))
    if "plan" not in names:
        _command(without, "plan", whole.spec)
    if "audit" in names:
        told = _command(without, "deploy", "--audit", status=2)
        assert told == "Error: audit: this installation is without it; there is no folder features/audit\n"
    for feature, key in ((one, key) for one in gone for key in one.keys):
        _refused_key(without, tmp_path, feature, key, whole)
    release = _made(without, whole.spec, tmp_path / "out")
    files = _files(release)
    assert files.keys() == whole.files.keys()
    assert [str(path) for path, content in whole.files.items() if content != files[path]] == []
    pages = [(feature, file) for feature in gone for file in feature.pages]
    assert (release / "public" / "report.html").exists() is ("report.html" not in {file for _, file in pages})
    for feature, file in pages:
        assert not (release / "public" / file).exists()
        _unwritten_file(without, feature, whole, file)
        assert "verified" in _command(PROJECT, "verify", release)


def _unwritten_file(without: Path, feature: Feature, whole: Whole, file: str) -> None:
    """A release that has it is not made again, and is of use for all else."""
    release = whole.release
    where = f"which this installation is without; there is no folder features/{feature.name}"
    sentence = f"Error: {release / 'public' / file}: is of {feature.name}, {where}"
    for words in ((), ("--records",)):
        assert _command(without, "verify", release, *words, status=2).split() == sentence.split()
    assert _numbers(without, release) == whole.numbers


def _numbers(root: Path, release: Path) -> str:
    """What a query for the counties prints."""
    return _command(root, "query", release, "total", "--at", "county")


def _refused_key(without: Path, folder: Path, feature: Feature, key: str, whole: Whole) -> None:
    """A spec that states it is refused in one sentence, and the schema is without it."""
    spec = write_town(folder / "stated", *QUICK)
    *tables, last = key.split(".")
    tables += {"companions": ["units"], "tables": ["people"]}.get(".".join(tables), [])
    text = spec.read_text("utf-8")
    table = f"[{'.'.join(tables)}]\n" if tables else ""
    stated = f"{table}{last} = 1\n"
    if not table:
        spec.write_text(f"{stated}{text}")
    else:
        query = 'query = "total"\n' if tables[0] == "tables" else ""
        spec.write_text(text.replace(table, stated) if table in text else f"{text}\n{stated}{query}")
    told = _command(without, "run", spec, "--out", folder / "refused", "--no-prefect", status=2)
    where = f"there is no folder features/{feature.name}"
    sentence = (
        f"Error: {spec}: {'.'.join([*tables, last])}: is of {feature.name}, which this installation is without; {where}"
    )
    assert told.split() == sentence.split()
    published_alone = last not in {key for _, key in whole.keys}
    assert published_alone or last in {gone for _, gone in whole.keys - _keys(without)}


def _keys(root: Path) -> set[tuple[str, str]]:
    """All keys of all sections of a spec, each with the name of its section."""
    schema: dict[str, Any] = json.loads(_command(root, "validate", "--schema"))
    tables = {"": schema, **schema["$defs"]}
    return {(name, key) for name, table in tables.items() for key in table.get("properties", {})}


#: Tests of the core that look at whatever a feature adds to a spec.
_OF_SPECS = (
    "tests/pipeline/spec",
    "tests/pipeline/publishing/test_published.py::test_the_page_of_the_directory_lists_the_catalogue",
    "tests/pipeline/runs/test_within.py",
)


@pytest.fixture(scope="module")
def types_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy found in files that copies without one feature or another have in common, or `make types` before."""
    folder = tmp_path_factory.mktemp("types") / "cache"
    if (PROJECT / ".mypy_cache").is_dir():
        shutil.copytree(PROJECT / ".mypy_cache", folder)
    return folder


@pytest.mark.slow
def test_types_and_tests_of_the_core_pass_without_any_of_them(tmp_path: Path, types_cache: Path) -> None:
    """But for those that tests of the core use. As no feature imports another, this holds without each of them."""
    pytest.importorskip("mypy")
    gone = [feature for feature in FEATURES if feature.name not in _USED_BY_TESTS]
    without = _copy_without(gone, tmp_path / "copy")
    for name in ("tests", "docs", "examples", "benchmarks", "pyproject.toml"):
        copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
        copy(PROJECT / name, without / name)
    for feature in gone:
        shutil.rmtree(without / "tests" / "features" / feature.name)
        for name in _HELPERS.get(feature.name, ()):
            (without / name).unlink()
    commands = [
        [sys.executable, "-m", "mypy", "--cache-dir", str(types_cache), *PACKAGES, "tests"],
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-m", "not slow", *_OF_SPECS],
    ]
    variables = {**os.environ, "PYTHONPATH": str(without)}
    for command in commands:
        done = subprocess.run(
            command, cwd=without, env=variables, capture_output=True, text=True, timeout=1200, check=False
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_new_kind_is_a_folder_and_a_line(tmp_path: Path) -> None:
    """Typed from docs/howto/new_kind.md: run, verified, audited, exported; and refused without its folder."""
    page = (PROJECT / "docs" / "howto" / "new_kind.md").read_text("utf-8")
    (kind,), (line,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL), re.findall(r"`(Feature\(.*\),)`", page)
    root = _copy_without((), tmp_path / "copy")
    registry = root / "features" / "registry.py"
    listed = registry.read_text("utf-8")
    assert listed.count("FEATURES: Final = (\n") == 1
    registry.write_text(listed.replace("FEATURES: Final = (\n", f"FEATURES: Final = (\n    {line}"), "utf-8")
    (root / "features" / "hands").mkdir()
    (root / "features" / "hands" / "__init__.py").write_text(kind, "utf-8")
    spec = write_town(tmp_path / "in", *QUICK)
    text = spec.read_text("utf-8")
    spec.write_text(f'hands = "county"\n{text}', "utf-8")
    _command(root, "--quiet", "run", spec, "--out", tmp_path / "out", "--workers", 1, "--no-prefect")
    release = tmp_path / "out" / "town"
    hands = pd.read_parquet(release / "public" / "hands" / "county.parquet").set_index("geocode")["hands"]
    people = pd.read_parquet(release / "public" / "histograms" / "county.parquet").groupby("geocode")["count"].sum()
    assert hands.to_dict() == (2 * people).to_dict()
    assert hands.sum() > 0
    path = release / "public" / "hands" / "county.parquet"
    manifest = json.loads((release / "public" / "manifest.json").read_text("utf-8"))
    assert "hands/county.parquet" in manifest["files"]
    assert manifest["spec"]["hands"] == "county"
    _command(root, "--quiet", "verify", release)
    _command(root, "--quiet", "verify", release, "--records")
    audited = _command(root, "audit", release, status=1)
    failed = [each for each in audited.splitlines() if each.startswith("FAILED ")]
    assert len(failed) == 2, failed  # and no other: what is judged of a kind that nobody knows
    assert "'hands', which is not known here: it is not judged" in failed[0]
    assert "hands/county.parquet is not of the spec" in failed[1]
    _command(root, "--quiet", "export", release, "--format", "csv", "--out", tmp_path / "csv")
    exported = next(
        path for path in (tmp_path / "csv").rglob("*.csv") if "hands" in path.as_posix().removeprefix(str(tmp_path))
    )
    assert pd.read_csv(exported)["hands"].sum() == hands.sum()
    kept = path.read_bytes()
    path.write_bytes(kept[:-1])
    assert "hands/county.parquet" in _command(root, "--quiet", "verify", release, status=1)
    path.write_bytes(kept)
    shutil.rmtree(root / "features" / "hands")
    _loaded.pop(root).end()  # which has loaded it
    assert "features/hands" in _command(root, "--quiet", "run", spec, "--out", tmp_path / "other", status=2)
