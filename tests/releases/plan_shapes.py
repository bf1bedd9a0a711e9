"""Small runs of different shapes, whose memory is compared with what `spinewise plan` says it is at most."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from releases.synthetic_spine import Shape, leaf_codes, spec_text, write_population
from spinewise.collect import SystemBytes, mechanism_of

HOMES = """
[companions.homes]
records_per_person = 2
privacy = { rho = "2" }
schema.attributes = { size = ["1", "2", "3", "4+"], head = ["0", "1"] }
strategy = { queries = { size = "1/2", detailed = "1/2" }, levels = { LEVELS } }
input = { file = "homes.parquet", form = "microdata", geocode = "leaf" }

[[join]]
companion = "homes"
where = { a1 = "0" }
size = "size"
most = 8

[[join]]
companion = "homes"
where = { a1 = "0" }
householder = { a0 = "head" }
"""
UNITS = """
[companions.units]
privacy = { rho = "1" }
schema.attributes = { status = ["occupied", "vacant"], kind = ["1", "2"] }
strategy = { queries = { total = "1/2", detailed = "1/2" }, levels = { LEVELS } }
input = { file = "units.parquet", form = "microdata", geocode = "leaf" }
"""
WAGES = """
[companions.wages]
amount = "wage"
between = ["0", "60000"]
unit = "500"
privacy = { rho = "1" }
schema.attributes = { a0 = A0, a1 = A1 }
strategy = { queries = { total = "1/2", detailed = "1/2" }, levels = { LEVELS } }
"""
SURVEY = """name = "survey"
[privacy]
framework = "local"
[collect]
mechanism = "direct_encoding"
parameters = { epsilon = "2", memoised = "yes" }
respondents = 50
[input]
file = "reports.csv"
form = "reports"
geocode = "leaf"
columns = { respondent = "respondent" }
[schema.attributes]
answer = ["never", "once", "often"]
"""


@dataclass(frozen=True)
class PlanShape:
    """A run whose memory is bounded and measured.

    Attributes:
        shape: its spine and cells, and what `synthetic_spine` can state.
        queries: how many are measured at each level: 2 to all marginals of the attributes; 0 for those of `shape`.
        more: "homes" joined with the persons, "units" beside them, "wages" of them, or a "survey" instead; or nothing.
        publish: further lines of `[publish]`.
        tables: published tables, where these are not all that are measured: (query, levels from the top).
        workers: number of processes.
    """

    shape: Shape
    queries: int = 0
    more: str = ""
    publish: str = "microdata = false"
    tables: tuple[tuple[str, int], ...] = ()
    workers: int = 2

    @property
    def name(self) -> str:
        """Of the run."""
        return self.shape.name

    @property
    def about(self) -> str:
        """Areas of each level, cells, what else there is."""
        areas = ", ".join(f"{n:,}" for n in self.shape.geounits)
        beside = f", {self.more}" if self.more else ""
        margins = f", {self.shape.replicates} simulated" if self.shape.replicates else ""
        return f"{areas} x {self.shape.cells:,}{margins}{beside}"


def _of(name: str, areas: tuple[int, ...], values: tuple[int, ...], *, margins: int = 0, **more: object) -> Shape:
    return Shape(name, areas, values, replicates=margins, **more)  # type: ignore[arg-type]


#: From 4 to 3,458 cells, 101 to 30,931 areas, 2 to 6 levels, 2 to 11 queries.
SHAPES: tuple[PlanShape, ...] = (
    PlanShape(_of("four-cells", (1, 10, 100), (2, 2)), publish=""),
    PlanShape(_of("four-cells-margins", (1, 100, 3000), (2, 2), margins=20), publish=""),
    PlanShape(_of("two-levels", (1, 300), (2, 8), margins=20), queries=2, workers=1),
    PlanShape(_of("many-leaves", (1, 30, 900, 30000), (2, 2)), queries=2),
    PlanShape(_of("many-leaves-margins", (1, 20, 600, 12000), (2, 3), margins=20)),
    PlanShape(_of("six-levels", (1, 3, 12, 60, 300, 1500), (5, 8), margins=20)),
    PlanShape(_of("ages", (1, 10, 100, 500), (91,), groups=19, people=1000.0), publish="", workers=1),
    PlanShape(_of("ages-large", (1, 5, 100, 2000, 9000), (91,), groups=19, people=1000.0, margins=20)),
    PlanShape(_of("ages-report", (1, 8, 80, 1600), (91,), groups=19, people=1000.0, margins=4)),
    PlanShape(_of("ages-sexes", (1, 5, 60), (91, 2), groups=19, people=1000.0, margins=4)),
    PlanShape(_of("redistricting", (1, 10, 100, 500), (7, 9, 32))),
    PlanShape(_of("redistricting-margins", (1, 5, 60), (7, 9, 32), margins=4)),
    PlanShape(_of("most-cells", (1, 5, 20, 100), (19, 7, 26)), publish="", workers=1),
    PlanShape(_of("eleven-queries", (1, 10, 100, 600), (2, 3, 4, 5), margins=20), queries=11),
    PlanShape(_of("few-tables", (1, 10, 100, 1500), (2, 8, 10), margins=20), tables=(("total", 4), ("a0 * a1", 2))),
    PlanShape(_of("units", (1, 10, 100, 800), (2, 8), margins=20), more="units"),
    PlanShape(_of("wages", (1, 5, 50, 200), (2, 5), margins=20), more="wages"),
    PlanShape(_of("homes", (1, 4, 30, 300), (2, 2), margins=20), more="homes", publish=""),
    PlanShape(_of("survey", (1, 20, 2000), (3,), margins=20), more="survey"),
    PlanShape(_of("draws", (1, 10, 100, 1000), (2, 8), unbiased=True), publish="microdata = true\ndraws = 20"),
)

#: By whose peaks the bytes of an array were chosen: no run of these takes more memory than a plan says.
BOUNDED: tuple[PlanShape, ...] = (
    PlanShape(_of("leaves-25000", (1, 25, 1000, 25000), (4, 8, 8))),
    PlanShape(_of("leaves-6000", (1, 10, 250, 6000), (4, 8, 8))),
    PlanShape(_of("even-64", (1, 10, 100, 3000), (64,), people=600.0)),
    PlanShape(_of("pl-60", (1, 5, 60), (7, 9, 32), people=2000.0)),
    PlanShape(_of("narrow-20000", (1, 40, 1000, 20000), (2, 2))),
    PlanShape(_of("margins-64", (1, 10, 300), (4, 4, 4), margins=20)),
    PlanShape(_of("fan", (1, 1500), (4, 4, 6)), workers=1),
    PlanShape(_of("one-level", (1500,), (4, 4))),
    PlanShape(_of("ages-300", (1, 5, 50, 300), (91,), groups=19, people=200.0)),
    PlanShape(_of("microdata", (1, 10, 100, 2000), (4, 4), people=100.0), publish=""),
    PlanShape(_of("homes-150", (1, 4, 20, 150), (2, 2), margins=4), more="homes", publish=""),
    PlanShape(_of("draws-800", (1, 10, 100, 800), (2, 8), unbiased=True), publish="microdata = true\ndraws = 20"),
)


def write_shape(folder: Path, one: PlanShape) -> Path:
    """Write records, areas and spec to `folder`; the spec."""
    if one.more in ("", "units"):
        write_population(folder, one.shape)
    else:
        codes = _codes(one.shape)
        pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
        {"homes": _write_homes, "wages": _write_wages, "survey": _write_reports}[one.more](folder, codes)
    if one.more == "units":
        codes, rng = _codes(one.shape), np.random.default_rng(3)
        places = np.repeat(codes, 15)
        status, kind = rng.choice(["occupied", "vacant"], len(places)), rng.choice(["1", "2"], len(places))
        pd.DataFrame({"leaf": places, "status": status, "kind": kind}).to_parquet(folder / "units.parquet")
    path = folder / "release.toml"
    path.write_text(shape_text(one), encoding="utf-8")
    return path


def shape_text(one: PlanShape) -> str:
    """The spec."""
    shape = one.shape
    text = spec_text(shape)
    levels = ", ".join(f'{level} = "1/{len(shape.level_names)}"' for level in shape.level_names)
    if one.more == "survey":
        geography = text[text.index("[geography]") : text.index("[schema.attributes]")]
        return SURVEY + geography + text[text.index("[publish]") :] + f"{one.publish}\n"
    if one.queries:
        begin, end = text.index("[strategy.queries]"), text.index("[strategy.levels]")
        measured = "".join(f'"{query}" = "1/{one.queries}"\n' for query in _queries(one))
        text = text[:begin] + f"[strategy.queries]\n{measured}\n" + text[end:]
    text += f"{one.publish}\n"
    if one.tables:
        text += "\n[tables]\n" + "".join(
            f'{query.replace(" * ", "_by_")} = {{ query = "{query}", levels = {list(shape.level_names[:n])} }}\n'
            for query, n in one.tables
        ).replace("'", '"')
    if one.more in ("wages", "homes"):
        text = text.replace('file = "counts.parquet"\nform = "long"', 'file = "persons.parquet"\nform = "microdata"')
    more = {"homes": HOMES, "units": UNITS, "wages": WAGES}.get(one.more, "").replace("LEVELS", levels)
    for number, size in enumerate(shape.attributes[:2]):
        more = more.replace(f"A{number}", str([str(value) for value in range(size)]).replace("'", '"'))
    return text + more


def _queries(one: PlanShape) -> list[str]:
    """The total, `detailed`, then marginals from one attribute on."""
    names = [f"a{number}" for number in range(len(one.shape.attributes))]
    parts = [" * ".join(some) for size in range(1, len(names)) for some in combinations(names, size)]
    return ["total", "detailed", *parts][: one.queries]


def _codes(shape: Shape) -> np.ndarray:
    return leaf_codes(shape.geounits, np.random.default_rng([1, 1]))


def _write_homes(folder: Path, codes: np.ndarray) -> None:
    rng = np.random.default_rng(5)
    homes = np.repeat(codes, rng.poisson(12, len(codes)))
    sizes = rng.integers(1, 6, len(homes))
    heads = rng.integers(0, 2, len(homes))
    labels = np.where(sizes >= 4, "4+", sizes.astype(str))
    pd.DataFrame({"leaf": homes, "size": labels, "head": heads.astype(str)}).to_parquet(folder / "homes.parquet")
    places = np.repeat(homes, sizes)
    first = np.cumsum(sizes) - sizes
    a0 = rng.integers(0, 2, len(places))
    a0[first] = heads
    a1 = np.zeros(len(places), dtype=int)
    quarters = np.repeat(codes, rng.poisson(3, len(codes)))
    persons = pd.DataFrame({"leaf": places, "a0": a0, "a1": a1})
    others = pd.DataFrame({"leaf": quarters, "a0": rng.integers(0, 2, len(quarters)), "a1": 1})
    pd.concat([persons, others]).astype(str).to_parquet(folder / "persons.parquet")


def _write_wages(folder: Path, codes: np.ndarray) -> None:
    rng = np.random.default_rng(6)
    places = np.repeat(codes, rng.poisson(80, len(codes)))
    a0, a1 = (rng.integers(0, size, len(places)).astype(str) for size in (2, 5))
    wages = np.round(rng.gamma(2.0, 15000.0, len(places)), -1).astype(int)
    pd.DataFrame({"leaf": places, "a0": a0, "a1": a1, "wage": wages}).to_parquet(folder / "persons.parquet")


def _write_reports(folder: Path, codes: np.ndarray) -> None:
    rng = np.random.default_rng(7)
    mechanism = mechanism_of("direct_encoding", {"values": "3", "epsilon": "2", "memoised": "yes"})
    places = np.repeat(codes, rng.poisson(50, len(codes)))
    answers = rng.choice(3, len(places), p=[0.6, 0.3, 0.1])
    reports = mechanism.encode(mechanism.randomise(answers, SystemBytes()))
    respondents = [f"{number:x}" for number in range(len(places))]
    pd.DataFrame({"leaf": places, "report": reports, "respondent": respondents}).to_csv(
        folder / "reports.csv", index=False
    )
