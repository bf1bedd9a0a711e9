"""Names of what is passed on: arrays, and tables of a manifest, a spec or a ledger as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
#: What names stand for in a text of somebody else, about which nothing is known.
Stated = Mapping[str, Any]
