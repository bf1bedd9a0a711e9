"""The errors of simulated runs as named arrays, and back: the form in which a resumed run finds them."""

from __future__ import annotations

import numpy as np

from pipeline.execution.batch_store import Arrays
from postprocess.downward.simulated_margins import ErrorCounts
from postprocess.downward.sized_errors import SizedErrors


def packed_errors(result: list[ErrorCounts]) -> Arrays:
    """The errors of one simulated run, table by table."""
    arrays = {"tables": np.array(len(result))}
    for number, errors in enumerate(result):
        for name, sized in (("truth", errors.by_truth), ("release", errors.by_release), ("large", errors.large)):
            arrays |= {f"{name}{number} places": sized.places, f"{name}{number} times": sized.times}
        arrays[f"unit{number}"] = np.array(errors.unit)
    return arrays


def unpacked_errors(arrays: Arrays) -> list[ErrorCounts]:
    """What `packed_errors` packed."""
    return [
        ErrorCounts(
            _sized(arrays, f"truth{number}"),
            _sized(arrays, f"release{number}"),
            _sized(arrays, f"large{number}"),
            int(arrays[f"unit{number}"]),
        )
        for number in range(int(arrays["tables"]))
    ]


def _sized(arrays: Arrays, name: str) -> SizedErrors:
    return SizedErrors(arrays[f"{name} places"], arrays[f"{name} times"])
