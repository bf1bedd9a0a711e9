"""The errors of simulated runs as named arrays, and back: the form in which a resumed run finds them."""

from __future__ import annotations

import numpy as np

from flows.estimation.packing import packed_csr, unpacked_csr
from flows.execution.batch_store import Arrays
from postprocess.downward.simulated_margins import ErrorCounts


def packed_errors(result: list[ErrorCounts]) -> Arrays:
    """The errors of one simulated run, table by table."""
    arrays = {"tables": np.array(len(result))}
    for number, errors in enumerate(result):
        arrays |= packed_csr(f"small{number}", errors.small)
        arrays |= {f"large{number}": errors.large, f"unit{number}": np.array(errors.unit)}
    return arrays


def unpacked_errors(arrays: Arrays) -> list[ErrorCounts]:
    """What `packed_errors` packed."""
    return [
        ErrorCounts(unpacked_csr(f"small{number}", arrays), arrays[f"large{number}"], int(arrays[f"unit{number}"]))
        for number in range(int(arrays["tables"]))
    ]
