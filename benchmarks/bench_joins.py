"""Joins: how far persons and households agree, and what a join does to the errors of either.

    python benchmarks/bench_joins.py [--keys 20] [--json PATH]

The example `examples/one_population.toml` is released with its joins and without, by the same keys, from the same
measurements. For every level: the share of geounits in which the persons agree with every join; the mean L1 errors of
persons and of households, as ratios of the errors without joins.

Needs the real data in ../shared/data beside the project; without it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from flows.estimation.joins import composition_of
from flows.execution.progress import Silent
from flows.runs.request import Request, check_stated
from flows.runs.run import run_release
from pipeline.inputs.geography import read_spine
from pipeline.model.query import Query
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.release.histograms import read_histogram
from pipeline.release.layout import RunDirectory
from pipeline.spec.release_spec import ReleaseSpec, parse_spec
from postprocess.joins.bounds import joined_bounds

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "one_population.toml"


def spec_of(text: str, key: int, *, joined: bool) -> ReleaseSpec:
    """The example with another key, without margins, and with its joins or without."""
    text = text.replace('"insecure-test:1"', f'"insecure-test:{key}"')
    if not joined:
        text = text[: text.index("[[join]]")]
    return parse_spec(text + "\n[publish]\nmargins = false\nmicrodata = false\n", str(EXAMPLE), EXAMPLE.parent)


def released(spec: ReleaseSpec, folder: Path) -> dict[str, list[sp.csr_array]]:
    """Universe -> the released histograms of each level."""
    checked = check_stated(Request(EXAMPLE, folder, None, 1, i_know=True), spec)
    run = RunDirectory(run_release(checked, Silent()))
    spine = read_spine(spec.geography)
    return {
        universe.name: [
            read_histogram(run.universe(universe.name).histogram(level.name), level.geocodes, universe.schema)
            for level in spine.levels
        ]
        for universe in spec.universes()
    }


def truth(spec: ReleaseSpec) -> dict[str, list[sp.csr_array]]:
    """Universe -> the true histograms of each level."""
    spine = read_spine(spec.geography)
    return {
        universe.name: roll_up(spine, tabulate(universe.require_input(), universe.schema, spine))
        for universe in spec.universes()
    }


def agreeing(spec: ReleaseSpec, histograms: dict[str, list[sp.csr_array]]) -> list[float]:
    """Per level, the share of the geounits whose persons can be the members of their households."""
    composition = composition_of(spec.joins(), "households")
    assert composition is not None
    shares = []
    for persons, households in zip(histograms[""], histograms["households"], strict=True):
        kept = np.ones(persons.shape[0], dtype=bool)
        dense = persons.toarray()
        for bound in joined_bounds(composition, households):
            answers = bound.marginal.answer(dense)
            kept &= ((answers >= bound.lower) & (answers <= bound.upper)).all(axis=1)
        shares.append(float(kept.mean()))
    return shares


def errors(spec: ReleaseSpec, histograms: dict[str, Any], true: dict[str, Any]) -> dict[str, list[float]]:
    """Query -> per level the mean L1 error of a geounit."""
    out: dict[str, list[float]] = {}
    for universe in spec.universes():
        for name in ("total", "residence", "size", "detailed"):
            if name in ("total", "detailed") or name in universe.schema.names:
                query = Query.parse(name, universe.schema)
                out[f"{universe.name} {name}".strip()] = [
                    float(np.abs(query.answer_csr(one) - query.answer_csr(other)).sum(axis=1).mean())
                    for one, other in zip(histograms[universe.name], true[universe.name], strict=True)
                ]
    return out


def measured(keys: int) -> dict[str, Any]:
    """The figures of all keys."""
    text = EXAMPLE.read_text(encoding="utf-8")
    joined, apart = spec_of(text, 1, joined=True), spec_of(text, 1, joined=False)
    true = truth(joined)
    agree: dict[str, list[list[float]]] = {"joined": [], "apart": []}
    error: dict[str, list[dict[str, list[float]]]] = {"joined": [], "apart": []}
    seconds: dict[str, list[float]] = {"joined": [], "apart": []}
    for key in range(1, keys + 1):
        for name in ("apart", "joined"):
            spec = spec_of(text, key, joined=name == "joined")
            with tempfile.TemporaryDirectory() as folder:
                began = time.monotonic()
                histograms = released(spec, Path(folder))
                seconds[name].append(time.monotonic() - began)
            agree[name].append(agreeing(joined, histograms))
            error[name].append(errors(apart, histograms, true))
    means = {
        name: {query: np.mean([one[query] for one in runs], axis=0) for query in runs[0]}
        for name, runs in error.items()
    }
    return {
        "levels": list(joined.geography.level_names),
        "keys": keys,
        "agree": {name: np.min(runs, axis=0).tolist() for name, runs in agree.items()},
        "errors apart": {query: values.tolist() for query, values in means["apart"].items()},
        "ratios": {query: (values / means["apart"][query]).tolist() for query, values in means["joined"].items()},
        "seconds": {name: float(np.median(values)) for name, values in seconds.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not (EXAMPLE.parents[2] / "shared" / "data" / "semcog_synthetic_persons.parquet").exists():
        print("the real data is not there: ../shared/data")
        return
    figures = measured(arguments.keys)
    print(f"{'':24}" + "".join(f"{level:>12}" for level in figures["levels"]))
    for name, shares in figures["agree"].items():
        print(f"{'agree, ' + name:24}" + "".join(f"{share:12.3f}" for share in shares))
    for query, ratios in figures["ratios"].items():
        apart = figures["errors apart"][query]
        print(f"{query:24}" + "".join(f"{a:7.1f} x{r:4.2f}" for a, r in zip(apart, ratios, strict=True)))
    print("seconds", figures["seconds"])
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
