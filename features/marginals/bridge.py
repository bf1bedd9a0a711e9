"""Our measurements as those of mbi (Private-PGM), so that others' estimators run on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from features.marginals.cliques import AttributeSizes, Clique
from geography.errors import InputError
from pipeline.missing import install_command
from pipeline.privacy.budget import NoiseSpec
from postprocess.arrays import IntArray


def to_mbi(
    domain: AttributeSizes, tables: Mapping[Clique, IntArray], noise: Mapping[Clique, NoiseSpec], area: int = 0
) -> tuple[Any, list[Any]]:
    """The domain and the measurements of one area, for the estimators of mbi 2.

    Args:
        domain: the attributes.
        tables: of a level, clique -> `(n, cells)` with noise.
        noise: in each cell of a clique's table.
        area: which of the level.

    Returns:
        An `mbi.Domain`, and an `mbi.LinearMeasurement` of each clique.

    Raises:
        InputError: mbi is not installed.
    """
    try:
        import mbi
    except ImportError:
        raise InputError(f"to_mbi needs the package mbi, which is not installed: {install_command('mbi')}") from None
    measurements = [
        mbi.LinearMeasurement(
            table[area].astype(float),
            domain.named(clique),
            stddev=math.sqrt(noise[clique].variance),
        )
        for clique, table in tables.items()
    ]
    return mbi.Domain(domain.names, domain.sizes), measurements
