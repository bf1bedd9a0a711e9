"""Made-up runs of many shapes: spines of any size with populations and specs.

What a run of one takes is compared with what `spinewise plan` says it takes at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.cost.size import EXPONENT, OFFSET
from spinewise.collect import SystemBytes, mechanism_of

#: Digits of a code that each level adds.
_DIGITS = 5
_LEVEL_NAMES = ("country", "region", "authority", "district", "ward", "msoa", "lsoa", "block")
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
class Shape:
    """What a run is made of, whose memory is bounded and measured.

    Attributes:
        name: of the release.
        geounits: of each level, top to bottom; children are as many as that gives, and scatter around it.
        attributes: values of each attribute; the first may be recoded into `groups` groups, which are measured too.
        groups: 0 for no recode.
        people: in a leaf, on average.
        replicates: simulated runs behind the margins; 0 for no margins.
        unbiased: whether unbiased estimates are published.
        queries: how many are measured at each level, from 2 to all marginals of the attributes; 0 for the total, each
            of the first three attributes, groups and all cells.
        more: "homes" joined with the persons, "units" beside them, "wages" of them, or a "survey" instead; or nothing.
        publish: further lines of `[publish]`.
        tables: published tables, where these are not all that are measured: (query, levels from the top).
        workers: number of processes.
    """

    name: str
    geounits: tuple[int, ...]
    attributes: tuple[int, ...]
    groups: int = 0
    people: float = 40.0
    replicates: int = 0
    unbiased: bool = False
    queries: int = 0
    more: str = ""
    publish: str = "microdata = false"
    tables: tuple[tuple[str, int], ...] = ()
    workers: int = 2

    @property
    def cells(self) -> int:
        """Cells of the schema."""
        return int(np.prod(self.attributes))

    @property
    def names(self) -> list[str]:
        """The names of the attributes."""
        return [f"a{number}" for number in range(len(self.attributes))]

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, top first."""
        return (*_LEVEL_NAMES[: len(self.geounits) - 1], _LEVEL_NAMES[-1])

    @property
    def about(self) -> str:
        """Areas of each level, cells, what else there is."""
        areas = ", ".join(f"{n:,}" for n in self.geounits)
        beside = f", {self.more}" if self.more else ""
        margins = f", {self.replicates} simulated" if self.replicates else ""
        return f"{areas} x {self.cells:,}{margins}{beside}"

    @property
    def codes(self) -> NDArray[np.str_]:
        """Those of the leaves."""
        return leaf_codes(self.geounits, np.random.default_rng([1, 1]))


#: From 4 to 3,458 cells, 101 to 30,931 areas, 2 to 6 levels, 2 to 11 queries.
SHAPES: tuple[Shape, ...] = (
    Shape("four-cells", (1, 10, 100), (2, 2), publish=""),
    Shape("four-cells-margins", (1, 100, 3000), (2, 2), replicates=20, publish=""),
    Shape("two-levels", (1, 300), (2, 8), replicates=20, queries=2, workers=1),
    Shape("many-leaves", (1, 30, 900, 30000), (2, 2), queries=2),
    Shape("many-leaves-margins", (1, 20, 600, 12000), (2, 3), replicates=20),
    Shape("six-levels", (1, 3, 12, 60, 300, 1500), (5, 8), replicates=20),
    Shape("ages", (1, 10, 100, 500), (91,), groups=19, people=1000.0, publish="", workers=1),
    Shape("ages-large", (1, 5, 100, 2000, 9000), (91,), groups=19, people=1000.0, replicates=20),
    Shape("ages-report", (1, 8, 80, 1600), (91,), groups=19, people=1000.0, replicates=4),
    Shape("ages-sexes", (1, 5, 60), (91, 2), groups=19, people=1000.0, replicates=4),
    Shape("redistricting", (1, 10, 100, 500), (7, 9, 32)),
    Shape("redistricting-margins", (1, 5, 60), (7, 9, 32), replicates=4),
    Shape("most-cells", (1, 5, 20, 100), (19, 7, 26), publish="", workers=1),
    Shape("eleven-queries", (1, 10, 100, 600), (2, 3, 4, 5), replicates=20, queries=11),
    Shape("few-tables", (1, 10, 100, 1500), (2, 8, 10), replicates=20, tables=(("total", 4), ("a0 * a1", 2))),
    Shape("units", (1, 10, 100, 800), (2, 8), replicates=20, more="units"),
    Shape("wages", (1, 5, 50, 200), (2, 5), replicates=20, more="wages"),
    Shape("homes", (1, 4, 30, 300), (2, 2), replicates=20, more="homes", publish=""),
    Shape("survey", (1, 20, 2000), (3,), replicates=20, more="survey"),
    Shape("draws", (1, 10, 100, 1000), (2, 8), unbiased=True, publish="microdata = true\ndraws = 20"),
)

#: By whose peaks the bytes of an array were chosen: no run of these takes more memory than a plan says.
BOUNDED: tuple[Shape, ...] = (
    Shape("leaves-25000", (1, 25, 1000, 25000), (4, 8, 8)),
    Shape("leaves-6000", (1, 10, 250, 6000), (4, 8, 8)),
    Shape("even-64", (1, 10, 100, 3000), (64,), people=600.0),
    Shape("pl-60", (1, 5, 60), (7, 9, 32), people=2000.0),
    Shape("narrow-20000", (1, 40, 1000, 20000), (2, 2)),
    Shape("margins-64", (1, 10, 300), (4, 4, 4), replicates=20),
    Shape("fan", (1, 1500), (4, 4, 6), workers=1),
    Shape("one-level", (1500,), (4, 4)),
    Shape("ages-300", (1, 5, 50, 300), (91,), groups=19, people=200.0),
    Shape("microdata", (1, 10, 100, 2000), (4, 4), people=100.0, publish=""),
    Shape("homes-150", (1, 4, 20, 150), (2, 2), replicates=4, more="homes", publish=""),
    Shape("draws-800", (1, 10, 100, 800), (2, 8), unbiased=True, publish="microdata = true\ndraws = 20"),
)


def leaf_codes(geounits: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.str_]:
    """Codes of the leaves, of which each level's code is a prefix; levels are as large as `geounits` says."""
    codes = np.array([f"{i:0{_DIGITS}d}" for i in range(geounits[0])])
    for above, below in pairwise(geounits):
        # Each has a child; the others are spread with weights, as real areas are.
        weights = rng.gamma(8.0, size=above)
        children = 1 + rng.multinomial(below - above, weights / weights.sum())
        number = np.arange(below) - np.repeat(np.cumsum(children) - children, children)
        codes = np.char.add(np.repeat(codes, children), np.char.zfill(number.astype(str), _DIGITS))
    return codes


def shape_text(one: Shape) -> str:
    """The spec."""
    prefixes = ", ".join(f"{level} = {_DIGITS * (i + 1)}" for i, level in enumerate(one.level_names))
    geography = f'[geography]\nfile = "leaves.parquet"\ncolumn = "leaf"\nlevels = {{ {prefixes} }}\n\n'
    publish = f"[publish]\nmargins = {'true' if one.replicates else 'false'}\n"
    publish += f"replicates = {one.replicates}\n" * bool(one.replicates) + "unbiased = true\n" * one.unbiased
    publish += f"{one.publish}\n"
    if one.more == "survey":
        return SURVEY + geography + publish
    listed = dict(zip(one.names, map(_list, map(range, one.attributes)), strict=True))
    text = f'name = "{one.name}"\n\n[privacy]\nrho = "2"\nkey = "insecure-test:1"\n\n{geography}'
    text += "[schema.attributes]\n" + "".join(f"{name} = {values}\n" for name, values in listed.items())
    if one.groups:
        size = one.attributes[0]
        width = -(-size // one.groups)
        parts = (range(first, min(first + width, size)) for first in range(0, size, width))
        groups = ", ".join(f"g{n} = {_list(part)}" for n, part in enumerate(parts))
        text += f'\n[schema.recodes.groups]\nattribute = "a0"\ngroups = {{{groups} }}\n'
    queries, levels = _queries(one), {level: f'"1/{len(one.level_names)}"' for level in one.level_names}
    named = "".join((f'"{query}"' if one.queries else query) + f' = "1/{len(queries)}"\n' for query in queries)
    text += f"\n[strategy.queries]\n{named}\n[strategy.levels]\n"
    text += "".join(f"{level} = {share}\n" for level, share in levels.items())
    file, form = ("persons", "microdata") if one.more in ("wages", "homes") else ("counts", "long")
    text += f'\n[input]\nfile = "{file}.parquet"\nform = "{form}"\ngeocode = "leaf"\n\n{publish}'
    if one.tables:
        text += "\n[tables]\n" + "".join(
            f'{query.replace(" * ", "_by_")} = {{ query = "{query}", levels = {_list(one.level_names[:n])} }}\n'
            for query, n in one.tables
        )
    shares = ", ".join(f"{level} = {share}" for level, share in levels.items())
    more = {"homes": HOMES, "units": UNITS, "wages": WAGES}.get(one.more, "").replace("LEVELS", shares)
    for name, values in listed.items():
        more = more.replace(name.upper(), values)
    return text + more


def _queries(one: Shape) -> list[str]:
    """The total, `detailed`, then marginals from one attribute on, where it is said how many."""
    names = one.names
    if not one.queries:
        return ["total", *["groups"] * bool(one.groups), *(names[:3] if len(names) > 1 else []), "detailed"]
    parts = [" * ".join(some) for size in range(1, len(names)) for some in combinations(names, size)]
    return ["total", "detailed", *parts][: one.queries]


def _list(values: Iterable[object]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def write_shape(folder: Path, one: Shape) -> Path:
    """Write records, areas and spec to `folder`; the spec."""
    codes = one.codes
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    if one.more in ("", "units"):
        _write_population(folder, one)
    else:
        {"homes": _write_homes, "wages": _write_wages, "survey": _write_reports}[one.more](folder, codes)
    if one.more == "units":
        rng, places = np.random.default_rng(3), np.repeat(codes, 15)
        status, kind = rng.choice(["occupied", "vacant"], len(places)), rng.choice(["1", "2"], len(places))
        pd.DataFrame({"leaf": places, "status": status, "kind": kind}).to_parquet(folder / "units.parquet")
    path = folder / "release.toml"
    path.write_text(shape_text(one), encoding="utf-8")
    return path


def _write_population(folder: Path, one: Shape) -> None:
    """Records in the long form, as counts."""
    rng = np.random.default_rng([1, 1])
    codes = leaf_codes(one.geounits, rng)
    shares = _shares(one.attributes)
    sizes = rng.gamma(2.0, one.people / 2.0, size=len(codes))
    writer = None
    step = max(1, (1 << 22) // one.cells)
    for first in range(0, len(codes), step):
        counts = rng.poisson(sizes[first : first + step, None] * shares[None, :])
        leaf, cell = np.nonzero(counts)
        columns = {"leaf": pa.array(codes[first + leaf], pa.string())}
        for name, values in zip(one.names, np.unravel_index(cell, one.attributes), strict=True):
            columns[name] = pa.array(values.astype(str), pa.string())
        table = pa.table(columns | {"count": pa.array(counts[leaf, cell].astype(np.int64))})
        writer = writer or pq.ParquetWriter(folder / "counts.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def _shares(attributes: tuple[int, ...]) -> NDArray[np.float64]:
    """Each cell's share of the people: even for one attribute, such as age; of several, a few cells are common.

    How few, is as in the 2020 census: see `pipeline.cost.size`.
    """
    cells = int(np.prod(attributes))
    if len(attributes) == 1:
        return np.full(cells, 1.0 / cells)
    shares = (np.arange(1, cells + 1) + OFFSET) ** -EXPONENT
    return np.random.default_rng([cells, 2]).permutation(shares / shares.sum())


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
