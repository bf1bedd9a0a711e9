"""How near answers to questions on amounts are, and how often their intervals hold.

    python benchmarks/bench_questions.py [--keys 30] [--rho 1/200]

58,654 made-up persons of EU-SILC: mean and sum of their employee income by region and sex, in steps of 100 up to
60,000, each key another answer. Beside the error of the sums that of a Gaussian mechanism with the same ends and budget
on real numbers. The truth is of amounts as they are clipped and rounded.

Needs the data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from features.questions.answering import answered
from features.questions.confidential import AnsweringHere
from features.questions.request import QuestionRequest, check_question
from pipeline.confidential.custody import KeySource
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.ledger import Ledger
from pipeline.spec.release_spec import load_spec

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "eusilc_population.parquet"
SPEC = """
name = "eusilc"
privacy = {{ rho = "1", dataset = "eusilc" }}
geography = {{ file = "areas.csv", levels = ["region", "district"] }}
schema.attributes.sex = ["female", "male"]
strategy = {{ queries = {{ sex = "1" }}, levels = {{ region = "1/2", district = "1/2" }} }}
input = {{ file = "{records}", form = "microdata", geocode = "district" }}
[questions.columns.income]
column = "employee_income"
between = ["0", "60000"]
unit = "100"
missing = "0"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=30)
    parser.add_argument("--rho", default="1/200")
    arguments = parser.parse_args()
    if not DATA.is_file():
        print(f"{DATA}: not there, nothing was measured")
        return
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), arguments.keys, arguments.rho)


def measure(folder: Path, keys: int, rho: str) -> None:
    people = pd.read_parquet(DATA, columns=["household", "region", "sex", "employee_income"])
    # A spine that is made up: a region's households in ten districts, by their numbers.
    people["district"] = people["region"] + " " + (people["household"] % 10).astype(str)
    people.to_parquet(folder / "records.parquet")
    people[["region", "district"]].drop_duplicates().to_csv(folder / "areas.csv", index=False)
    (folder / "release.toml").write_text(SPEC.format(records=folder / "records.parquet"), "utf-8")
    os.environ["SPINEWISE_LEDGER"], os.environ["SPINEWISE_STATE"] = str(folder / "ledger"), str(folder / "state")
    with Ledger.open(str(folder / "ledger"), create=True, state=folder / "state") as ledger:
        ledger.open_dataset(
            "eusilc", population="made up", framework="zcdp", budget=Fraction(10**6), neighbours="change-one"
        )
    spec = load_spec(folder / "release.toml")
    steps = np.floor(people["employee_income"].fillna(0).clip(0, 60_000) / 100 + 0.5) * 100
    truth = people.assign(income=steps).groupby(["region", "sex"])["income"].agg(["mean", "sum", "count"])
    for statistic in ("mean", "sum"):
        rows = []
        for number in range(keys):
            MasterKey.generate().write(folder / f"{statistic}{number}.key")
            source = KeySource(folder / f"{statistic}{number}.key")
            request = QuestionRequest(
                spec, f"{statistic} income by region, sex", rho, out=folder / "answers", key=source
            )
            checked = check_question(replace(request, name=f"{statistic}{number}"))
            root = answered(checked, AnsweringHere(checked))
            rows.append(pd.read_csv(root / "public" / "answer.csv").set_index(["region", "sex"]))
        drawn = pd.concat(rows).join(truth.add_prefix("true "))
        errors = (drawn[statistic] - drawn[f"true {statistic}"]).abs()
        inside = drawn[f"true {statistic}"].between(drawn[f"{statistic}:low90"], drawn[f"{statistic}:high90"])
        line = (
            f"{statistic}: {len(drawn)} numbers, mean error {errors.mean():,.1f}, in its interval {inside.mean():.1%}"
        )
        if statistic == "sum":
            gaussian = 60_000 * math.sqrt(2 / (2 * Fraction(rho))) * math.sqrt(2 / math.pi)
            line += f"; a Gaussian mechanism on real numbers {gaussian:,.1f}"
        print(line)
    print(f"true means {truth['mean'].min():,.0f} to {truth['mean'].max():,.0f}, of {truth['count'].min():,} and more")


if __name__ == "__main__":
    main()
