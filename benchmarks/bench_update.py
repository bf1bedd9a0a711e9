"""Versions made with an answer: how often their 90 % intervals hold the truth, before and after.

    python benchmarks/bench_update.py [--keys 40] [--counties 18] [--tracts 5] [--runs 20]
        [--question "count by county"] [--rho 1/2]

20,000 made-up people by age and sex, of whom a release of rho 1/4 is made with each key, a question is asked, and
`update` adds its answer. By table and level: numbers, the share that is held with its standard error over keys, mean
width, and root mean square error. The noise of simulated runs is the same for every key (it follows from the public
seed): a table of few numbers and runs is off by more than the standard error over keys says.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.questions.answering import answered
from features.questions.confidential import AnsweringHere
from features.questions.request import QuestionRequest, check_question
from pipeline.confidential.custody import KeySource
from pipeline.execution.progress import Silent
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release
from pipeline.runs.updates import update_release

SPEC = """
name = "work"
privacy = {{ rho = "1/4", dataset = "people" }}
geography = {{ file = "areas.csv", column = "area", levels = {{ county = 2, tract = 4 }} }}
schema.attributes = {{ age = ["0-17", "18-64", "65+"], sex = ["f", "m"] }}
strategy.queries = {{ total = "1/2", "age * sex" = "1/2" }}
strategy.levels = {{ county = "1/2", tract = "1/2" }}
input = {{ file = "people.csv", form = "microdata", geocode = "area" }}
tables = {{ total = "total", detail = "age * sex" }}
publish = {{ replicates = {runs}, microdata = false }}
"""
DIGITS = {"county": 2, "tract": 4}

Counts = NDArray[np.int64]


def write_people(folder: Path, counties: int, tracts: int, runs: int) -> dict[tuple[str, str], Counts]:
    """Spec, areas and records; the true numbers of each level and table."""
    rng = np.random.default_rng(1)
    areas = [f"{county:02d}{tract:02d}" for county in range(counties) for tract in range(tracts)]
    pd.DataFrame({"area": areas}).to_csv(folder / "areas.csv", index=False)
    weights = rng.lognormal(0, 1, len(areas))
    age, sex = ["0-17", "18-64", "65+"], ["f", "m"]
    columns = {
        "area": rng.choice(areas, 20_000, p=weights / weights.sum()),
        "age": rng.choice(age, 20_000, p=[0.1, 0.7, 0.2]),
        "sex": rng.choice(sex, 20_000),
    }
    people = pd.DataFrame(columns)
    people.to_csv(folder / "people.csv", index=False)
    (folder / "release.toml").write_text(SPEC.format(runs=runs), "utf-8")
    cells = pd.MultiIndex.from_product([age, sex])
    found: dict[tuple[str, str], Counts] = {}
    for level, digits in DIGITS.items():
        codes = sorted({area[:digits] for area in areas})
        counted = pd.crosstab(people["area"].str[:digits], [people["age"], people["sex"]])
        detail = counted.reindex(index=codes, columns=cells, fill_value=0).to_numpy(dtype=np.int64)
        found[level, "detail"], found[level, "total"] = detail, detail.sum(axis=1, keepdims=True)
    return found


def numbers_of(root: Path, level: str, table: str, true: Counts) -> list[float]:
    """Share held, mean width and mean squared error of a table."""
    frame = pd.read_parquet(root / "public" / "tables" / table / f"{level}.parquet")
    names = [str(name) for name in frame.columns if name != "geocode" and ":" not in str(name)]
    count, low, high = (frame[[name + end for name in names]].to_numpy(float) for end in ("", ":low90", ":high90"))
    held = (low <= true) & (true <= high)
    return [float(held.mean()), float((high - low).mean()), float(((count - true) ** 2).mean())]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, default in (("keys", 40), ("counties", 18), ("tracts", 5), ("runs", 20)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--question", default="count by county")
    parser.add_argument("--rho", default="1/2")
    asked = parser.parse_args()
    rows: dict[tuple[str, str, str], list[list[float]]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        truth = write_people(folder, asked.counties, asked.tracts, asked.runs)
        os.environ["SPINEWISE_LEDGER"], os.environ["SPINEWISE_STATE"] = str(folder / "ledger"), str(folder / "state")
        with Ledger.open(str(folder / "ledger"), create=True, state=folder / "state") as ledger:
            ledger.open_dataset(
                "people", population="made up", framework="zcdp", budget=Fraction(10**6), neighbours="change-one"
            )
        for number in range(asked.keys):
            MasterKey.generate().write(folder / f"{number}.key")
            key, spec = KeySource(folder / f"{number}.key"), folder / "release.toml"
            before = run_release(check_request(Request(spec, folder / f"out{number}", None, 1, key=key)), Silent())
            request = QuestionRequest(spec, asked.question, asked.rho, out=folder / f"answers{number}", key=key)
            checked = check_question(request)
            answer = answered(checked, AnsweringHere(checked))
            after = update_release(before, [answer], folder / f"new{number}", 1, Silent()).root
            for version, root in (("before", before), ("after", after)):
                for (level, table), true in truth.items():
                    rows.setdefault((version, level, table), []).append(numbers_of(root, level, table, true))
    for (version, level, table), found in rows.items():
        held, width, squares = np.array(found).T
        error = held.std(ddof=1) / np.sqrt(len(held)) if len(held) > 1 else float("nan")
        size = truth[level, table].size * len(held)
        print(
            f"{version:>6} {level:>6} {table:>6} {size:>6,} numbers: held {held.mean():.3f} (se {error:.3f}), "
            f"width {width.mean():.2f}, error {np.sqrt(squares.mean()):.2f}"
        )


if __name__ == "__main__":
    main()
