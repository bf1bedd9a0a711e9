"""python smaller.py FOLDER COUNTY: the example in FOLDER with one county, and with a few simulated runs."""

from __future__ import annotations

import sys
from pathlib import Path

from releases.county import keep_county

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    keep_county(folder, sys.argv[2])
    spec = folder / "release.toml"
    spec.write_text(spec.read_text("utf-8").replace("replicates = 20", "replicates = 2"), "utf-8")
