"""A release of units with several records: what is left out is noted in restricted/ alone, and a rerun repeats it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from releases.command import spinewise
from releases.small import public_bytes

from pipeline.execution.progress import Silent
from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import read_manifest
from pipeline.runs.kept_inputs import kept_inputs
from pipeline.runs.request import Request, check_request
from pipeline.runs.run import run_release

SPEC = """
name = "visits"
[privacy]
rho = "9"
key = "insecure-test:4"
unit = "patient"
at_most = 3
[geography]
file = "blocks.csv"
column = "block"
levels = { town = 1, block = 2 }
[schema.attributes]
reason = ["fall", "fever"]
[strategy]
queries = { detailed = "1" }
levels = { town = "1/2", block = "1/2" }
[input]
file = "visits.csv"
form = "microdata"
geocode = "block"
[publish]
replicates = 2
"""


@pytest.mark.slow
def test_what_is_left_out_is_counted_where_nobody_else_sees_it(tmp_path: Path) -> None:
    rng = random.Random(8)
    sizes = [rng.randrange(1, 7) for _ in range(40)]
    lines = [
        f"{rng.choice(['11', '12'])},{rng.choice(['fall', 'fever'])},p{patient}"
        for patient, size in enumerate(sizes)
        for _ in range(size)
    ]
    (tmp_path / "visits.csv").write_text("block,reason,patient\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "blocks.csv").write_text("block\n11\n12\n", encoding="utf-8")
    (tmp_path / "visits.toml").write_text(SPEC, encoding="utf-8")
    requests = [Request(tmp_path / "visits.toml", tmp_path / out, None, 1, i_know=True) for out in ("one", "other")]
    one, other = (run_release(check_request(request), Silent()) for request in requests)
    run = RunDirectory(one)
    above = [size for size in sizes if size > 3]
    sentence = (
        f"privacy.unit: {sum(above) - 3 * len(above)} records of {len(above)} units with more than 3 were left out"
    )
    assert sentence in run.warnings.read_text()
    assert sentence not in "".join(path.read_text(errors="replace") for path in run.public.rglob("*") if path.is_file())
    statement = read_manifest(run.manifest).privacy[0]
    assert "a change of one person's data, at most 3 records" in statement.words
    # D = 2 for each of three records that move together: sigma^2 = 2 * 9 / (2 * 4.5).
    assert {noise.scale for noise in statement.noise} == {"2"}
    assert public_bytes(one) == public_bytes(other)
    # A rerun without the spec reads the units as the run kept them.
    assert kept_inputs(run)[""].unit == "patient"
    assert kept_inputs(run)[""].at_most == 3
    again = spinewise("verify", "--records", one)
    assert again.returncode == 0, again.stderr
