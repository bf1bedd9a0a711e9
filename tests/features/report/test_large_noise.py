"""The report says where noise is so large beside the numbers that intervals hold too little, and only there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
from releases.small import run

SPEC = """
name = "noisy"
privacy = { rho = "1/20000", key = "insecure-test:1" }
geography = { file = "people.csv", column = "block", levels = { county = 1, block = 3 } }
schema.attributes = { group = ["a", "b"] }
input = { file = "people.csv", form = "wide", geocode = "block", cells = [ { counts = "{group}" } ] }
strategy = { queries = { total = "1/2", group = "1/2" }, levels = { county = "1/2", block = "1/2" } }
tables = { group = "group" }
publish = { replicates = 4, microdata = false }
postprocess = { solver = "batched" }
"""


TOLD = re.compile(r"at level (\w+): noise is large beside the numbers, typically ± (\d+) where")


def test_the_page_names_tables_whose_noise_is_large(town: Path, tmp_path: Path) -> None:
    """Blocks of 600 in all, of 300 on average in a group; a standard deviation of 283 under rho 1/20000."""
    blocks = [f"{county}{number:02d}" for county in "AB" for number in range(12)]
    counts = np.random.default_rng(2).poisson(300, (len(blocks), 2))
    pd.DataFrame(counts, columns=["a", "b"]).assign(block=blocks).to_csv(tmp_path / "people.csv", index=False)
    spec = tmp_path / "release.toml"
    spec.write_text(SPEC, encoding="utf-8")
    ((level, half),) = TOLD.findall((run(spec, tmp_path / "out") / "public" / "report.html").read_text("utf-8"))
    assert (level, 100 <= int(half) <= 600) == ("block", True)
    assert TOLD.findall((town / "public" / "report.html").read_text("utf-8")) == []
