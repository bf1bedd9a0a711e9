"""Synthetic spines with their populations and specs, of any shape, to measure what runs cost."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.cost.size import EXPONENT, OFFSET

#: Digits of a code that each level adds.
_DIGITS = 5
_LEVEL_NAMES = ("country", "region", "authority", "district", "ward", "msoa", "lsoa", "block")


@dataclass(frozen=True)
class Shape:
    """What a run is made of.

    Attributes:
        name: of the release.
        geounits: of each level, top to bottom; children are as many as that gives, and scatter around it.
        attributes: values of each attribute; the first may be recoded into `groups` groups, which are measured too.
        groups: 0 for no recode.
        people: in a leaf, on average.
        replicates: simulated runs behind the margins; 0 for no margins.
        unbiased: whether unbiased estimates are published.
    """

    name: str
    geounits: tuple[int, ...]
    attributes: tuple[int, ...]
    groups: int = 0
    people: float = 40.0
    replicates: int = 0
    unbiased: bool = False

    @property
    def cells(self) -> int:
        """Cells of the schema."""
        return int(np.prod(self.attributes))

    @property
    def level_names(self) -> tuple[str, ...]:
        """The names of the levels, top first."""
        return (*_LEVEL_NAMES[: len(self.geounits) - 1], _LEVEL_NAMES[-1])


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


def write_population(folder: Path, shape: Shape, seed: int = 1) -> Path:
    """Write leaves, records (in the long form, as counts) and the spec to `folder`; the spec."""
    rng = np.random.default_rng([seed, 1])
    codes = leaf_codes(shape.geounits, rng)
    pq.write_table(pa.table({"leaf": pa.array(codes, pa.string())}), folder / "leaves.parquet")
    shares = _shares(shape.attributes)
    sizes = rng.gamma(2.0, shape.people / 2.0, size=len(codes))
    writer = None
    step = max(1, (1 << 22) // shape.cells)
    for first in range(0, len(codes), step):
        counts = rng.poisson(sizes[first : first + step, None] * shares[None, :])
        leaf, cell = np.nonzero(counts)
        columns = {"leaf": pa.array(codes[first + leaf], pa.string())}
        for name, values in zip(_names(shape), np.unravel_index(cell, shape.attributes), strict=True):
            columns[name] = pa.array(values.astype(str), pa.string())
        table = pa.table(columns | {"count": pa.array(counts[leaf, cell].astype(np.int64))})
        writer = writer or pq.ParquetWriter(folder / "counts.parquet", table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    path = folder / "release.toml"
    path.write_text(spec_text(shape), encoding="utf-8")
    return path


def _shares(attributes: tuple[int, ...]) -> NDArray[np.float64]:
    """Each cell's share of the people: even for one attribute, such as age; of several, a few cells are common.

    How few, is as in the 2020 census: see `pipeline.cost.size`.
    """
    cells = int(np.prod(attributes))
    if len(attributes) == 1:
        return np.full(cells, 1.0 / cells)
    shares = (np.arange(1, cells + 1) + OFFSET) ** -EXPONENT
    return np.random.default_rng([cells, 2]).permutation(shares / shares.sum())


def spec_text(shape: Shape) -> str:
    """The release spec of a shape."""
    levels = shape.level_names
    prefixes = ", ".join(f"{level} = {_DIGITS * (i + 1)}" for i, level in enumerate(levels))
    names = _names(shape)
    lines = [f'name = "{shape.name}"', "", "[privacy]", 'rho = "2"', 'key = "insecure-test:1"', ""]
    lines += ["[geography]", 'file = "leaves.parquet"', 'column = "leaf"', f"levels = {{ {prefixes} }}", ""]
    lines += ["[schema.attributes]"]
    for name, size in zip(names, shape.attributes, strict=True):
        lines.append(f"{name} = {_list(range(size))}")
    queries = ["total", *names[:3], "detailed"] if len(names) > 1 else ["total", "detailed"]
    if shape.groups:
        width = -(-shape.attributes[0] // shape.groups)
        lines += ["", "[schema.recodes.groups]", f'attribute = "{names[0]}"', "groups = {"]
        parts = [
            range(first, min(first + width, shape.attributes[0])) for first in range(0, shape.attributes[0], width)
        ]
        lines[-1] += ", ".join(f"g{n} = {_list(part)}" for n, part in enumerate(parts)) + " }"
        queries.insert(1, "groups")
    lines += ["", "[strategy.queries]", *(f'{query} = "1/{len(queries)}"' for query in queries)]
    lines += ["", "[strategy.levels]", *(f'{level} = "1/{len(levels)}"' for level in levels)]
    lines += ["", "[input]", 'file = "counts.parquet"', 'form = "long"', 'geocode = "leaf"', ""]
    lines += ["[publish]", f"margins = {'true' if shape.replicates else 'false'}"]
    lines += [f"replicates = {shape.replicates}"] * bool(shape.replicates)
    lines += ["unbiased = true"] * shape.unbiased
    return "\n".join(lines) + "\n"


def _names(shape: Shape) -> tuple[str, ...]:
    return tuple(f"a{i}" for i in range(len(shape.attributes)))


def _list(values: range) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
