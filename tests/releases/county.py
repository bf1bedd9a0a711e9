"""The generated example, cut down to one county and few simulated runs: `python county.py FOLDER COUNTY`."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq


def keep_county(folder: Path, county: str) -> None:
    """Leave blocks and records of one county, the names of it and of what is above, and two simulated runs."""
    for path in (folder / f"{name}.parquet" for name in ("blocks", "persons", "households")):
        if path.exists():
            table = pq.read_table(path)
            pq.write_table(table.filter(pc.starts_with(table["block"], county)), path)
    names, spec = folder / "names.csv", folder / "release.toml"
    lines, above = names.read_text("utf-8").splitlines(keepends=True), ("geocode,", f"{county[:2]},", county)
    names.write_text("".join(line for line in lines if line.startswith(above)), "utf-8")
    text = spec.read_text("utf-8")
    assert "replicates = 20" in text
    spec.write_text(text.replace("replicates = 20", "replicates = 2"), "utf-8")


if __name__ == "__main__":
    keep_county(Path(sys.argv[1]), sys.argv[2])
