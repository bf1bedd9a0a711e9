"""A small release by hand: two tables of the release's own and one of a companion, and something that was drawn."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.release.layout import RunDirectory
from pipeline.release.manifest import Manifest, public_files, write_manifest
from pipeline.release.software import software
from pipeline.release.status import status
from pipeline.release.tables import ReleasedTable, write_table


def write_release(root: Path, name: str = "little", noise: str = "3 -1 4", rows: int = 7) -> RunDirectory:
    run = RunDirectory(root / f"{name}-{noise.replace(' ', '_')}")
    run.public.mkdir(parents=True)
    run.staging.mkdir(parents=True)
    path = run.main.measurement("county", "total")
    path.parent.mkdir(parents=True)
    path.write_text(noise)
    generator = np.random.default_rng(int(noise.split()[0]))
    for universe, table, level, with_margins in (
        ("", "race", "county", True),
        ("", "race", "tract", True),
        ("homes", "total", "county", False),
    ):
        n, labels = (rows, ("white", "black * hispanic", "größe")) if table == "race" else (2, ("total",))
        margins = generator.uniform(0, 9, (n, len(labels))) if with_margins else None
        codes = np.array([f"44{number:03d}{'0' * (level == 'tract')}" for number in range(n)])
        counts = generator.integers(0, 10_000, (n, len(labels)))
        target = run.universe(universe).table(table, level)
        lows = highs = None
        if margins is not None:
            margins[0, 0] = np.nan
            lows, highs = counts - margins, counts + 2 * margins
        write_table(target, run.staging, [ReleasedTable(table, level, table, codes, labels, counts, lows, highs)])
    manifest = Manifest(
        release=name,
        software=software(),
        status=status(insecure_key=True, charged=False),
        spec={"name": name},
        public_seed=0,
        privacy=(),
        key_commitment="0123456789abcdef" * 4,
        input_fingerprints={"": "fedcba9876543210" * 4},
        solver={},
        files=public_files(run),
    )
    write_manifest(run, manifest)
    return run
