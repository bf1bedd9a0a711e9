"""A village that is stated in Python; its frames are fixtures of tests/spinewise."""

from __future__ import annotations

from typing import Any

SECTIONS: dict[str, Any] = {
    "name": "village",
    "privacy": {"rho": "8", "key": "insecure-test:7"},
    "geography": {"column": "block", "levels": {"county": 1, "block": 3}},
    "schema": {"attributes": {"sex": ["female", "male"], "age": ["young", "old"]}},
    "strategy": {
        "queries": {"total": "1/4", "sex": "1/4", "detailed": "1/2"},
        "levels": {"county": "1/2", "block": "1/2"},
    },
    "input": {"form": "microdata", "geocode": "block"},
    "publish": {"margins": False},
    "postprocess": {"solver": "batched"},
}
