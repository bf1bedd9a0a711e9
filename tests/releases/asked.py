"""A made-up workforce with wages, whose records can be asked questions, and a ledger for them."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.registry import is_installed
from pipeline.confidential.custody import KeySource
from pipeline.confidential.process import RecordHolder
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.questions.manifest import ANSWER, MANIFEST, MEASUREMENTS, manifest_bytes, read_answer
from pipeline.questions.tables import answer_bytes, read_measurements
from pipeline.release.layout import RunDirectory
from pipeline.runs.answers import verify_answer
from pipeline.spec.release_spec import ReleaseSpec
from pipeline.storage.files import sha256_file
from pipeline.storage.paths import unchecked
from releases.small import write_spec

SPEC = """
name = "work"
[privacy]
rho = "1"
dataset = "workers"
[geography]
file = "areas.csv"
column = "area"
levels = { county = 1, tract = 3 }
[schema.attributes]
age = ["0-17", "18-64", "65+"]
sex = ["f", "m"]
[strategy.queries]
total = "1/2"
sex = "1/2"
[strategy.levels]
county = "1/2"
tract = "1/2"
[input]
file = "workers.csv"
form = "microdata"
geocode = "area"
[questions.wages]
column = "pay"
between = ["0", "60000"]
unit = "100"
missing = "0"
[questions.shift]
values = ["day", "night"]
"""
#: What makes it a spec of people with several records; of wages whose ends are those of a person's total; of epsilon.
UNITS = ('dataset = "workers"', 'dataset = "workers"\nunit = "worker"\nat_most = 2')
TOTAL = ('missing = "0"', 'missing = "0"\nends = "total"')
PURE = ('rho = "1"', 'framework = "pure"\nepsilon = "1"')


def write_workers(folder: Path, *changes: tuple[str, str], n: int = 400, seed: int = 1) -> Path:
    """Write spec, areas and records; `changes` are texts of the spec and what stands in their place."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    areas = [f"{county}{tract:02d}" for county in "AB" for tract in range(1, 6)]
    pd.DataFrame({"area": areas}).to_csv(folder / "areas.csv", index=False)
    pay = np.round(rng.lognormal(10, 0.8, n), 2)
    records = pd.DataFrame(
        {
            "area": rng.choice(areas, n),
            "age": rng.choice(["0-17", "18-64", "65+"], n, p=[0.1, 0.7, 0.2]),
            "sex": rng.choice(["f", "m"], n),
            "pay": pd.Series(pay).where(rng.random(n) < 0.9),
            "shift": rng.choice(["day", "night"], n),
            "worker": [f"w{number}" for number in rng.integers(0, n // 2, n)],
        }
    )
    records.to_csv(folder / "workers.csv", index=False)
    path = write_spec(folder, SPEC, changes)
    if not is_installed("questions"):
        spec = path.read_text("utf-8")
        path.write_text(spec[: spec.index("[questions.")], "utf-8")
    return path


@contextmanager
def ledger_of(
    folder: Path,
    *,
    dataset: str = "workers",
    budget: str = "1",
    framework: str = "zcdp",
    neighbours: str = "change-one",
    **more: Any,
) -> Iterator[Path]:
    """A ledger beside the spec with the dataset, named by the settings; its file. New keys are `keys_in_turn`.

    `more` is what else `open_dataset` takes: purposes, units, numbers that may be exact.
    """
    place, state = folder / "ledger.sqlite", folder / "state"
    with Ledger.open(str(place), create=True, state=state) as ledger:
        ledger.open_dataset(
            dataset, population="made up", framework=framework, budget=Fraction(budget), neighbours=neighbours, **more
        )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPINEWISE_LEDGER", str(place))
        patch.setenv("SPINEWISE_STATE", str(state))
        keys_in_turn(patch)
        yield place


def keys_in_turn(patch: pytest.MonkeyPatch) -> None:
    """New keys of this process are the first, the second, ... of a fixed row.

    Each is as good as another, and an answer is the same in every run of the tests: what is within bounds is so again.
    """
    number = itertools.count()
    patch.setattr(MasterKey, "generate", lambda: MasterKey(hashlib.sha256(b"key %d" % next(number)).digest()))


def spent(place: Path, dataset: str = "workers") -> Fraction:
    """What the ledger has of the dataset."""
    with Ledger.open(str(place), state=place.parent / "state") as ledger:
        assert ledger.verify() == ()
        return ledger.dataset(dataset).spent


def asking(module: str) -> Any:
    """A module of the feature `questions`; the test is skipped where its folder is not there."""
    return pytest.importorskip(f"features.questions.{module}")


def checked(spec: Path | ReleaseSpec, text: str, rho: str | None = "1/20", **rest: object) -> Any:
    """A question, checked; `rest` as `QuestionRequest`."""
    asked = asking("request")
    out = Path(spec if isinstance(spec, Path) else ".").parent / "answers"
    return asked.check_question(replace(asked.QuestionRequest(spec, text, rho, out=out), **rest))


def ask(spec: Path | ReleaseSpec, text: str, rho: str | None = "1/20", **rest: object) -> Path:
    """Its answer, made in this process."""
    one = checked(spec, text, rho, **rest)
    return Path(asking("answering").answered(one, measured_here(one)))


def drawn_again(root: RunDirectory | Path, spec: Path | None = None, key: KeySource | None = None, **rest: Any) -> Any:
    """Files of an answer that are other ones when it is drawn again from the records; its run knows spec and key."""
    run = root if isinstance(root, RunDirectory) else RunDirectory(root)
    one = asking("answering").again_of(run, spec, None, key or KeySource())
    return asking("answering").compared(run, one, measured_here(one), **rest)


def measured_here(one: Any) -> RecordHolder:
    """Records, key and ledger of a question, in this process."""
    return RecordHolder(one.request.key, one.spec.privacy.key)


def key_at(path: Path) -> KeySource:
    """A key in a file."""
    MasterKey.generate().write(path)
    return KeySource(path)


def public_files(root: Path) -> dict[str, bytes]:
    """Name -> content."""
    return {path.name: path.read_bytes() for path in sorted((root / "public").iterdir())}


def forge(root: Path, change: Callable[[dict[str, Any]], None]) -> list[str]:
    """Change the manifest of an answer, make table and hashes again as they follow from it; what verify then says."""
    run = RunDirectory(root)
    path = run.public / MANIFEST
    stated = json.loads(path.read_bytes())
    change(stated)
    path.write_text(json.dumps(stated), "utf-8")
    forged = read_answer(run)
    plan = forged.plan()
    (run.public / ANSWER).write_bytes(answer_bytes(plan, read_measurements(unchecked(run.public / MEASUREMENTS), plan)))
    files = {name: sha256_file(run.public / name) for name in (ANSWER, MEASUREMENTS)}
    path.write_bytes(manifest_bytes(forged.model_copy(update={"files": files})))
    return verify_answer(run)


def truth(spec: Path) -> pd.DataFrame:
    """The records, with `units`: what each wage counts as, computed apart from the program."""
    frame = pd.read_csv(spec.parent / "workers.csv", dtype={"area": str})
    clipped = frame["pay"].fillna(0).clip(0, 60_000)
    return frame.assign(
        units=np.floor(clipped / 100 + 0.5).astype(int), county=frame["area"].str[:1], tract=frame["area"]
    )
