"""The generated example, cut down to one county of it: what a test has to release whole need not be a state."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


def keep_county(folder: Path, county: str) -> None:
    """Leave in the example's files the blocks and records of one county, and the names of it and of what is above."""
    for path in (folder / f"{name}.parquet" for name in ("blocks", "persons", "households")):
        if path.exists():
            table = pq.read_table(path)
            pq.write_table(table.filter(pc.starts_with(table["block"], county)), path)
    names = folder / "names.csv"
    lines = names.read_text("utf-8").splitlines(keepends=True)
    names.write_text(
        "".join(line for line in lines if line.startswith(("geocode,", f"{county[:2]},", county))), "utf-8"
    )
