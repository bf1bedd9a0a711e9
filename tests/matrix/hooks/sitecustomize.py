"""Writes down the streams of noise that a run draws from; Python loads this at the start of each of its processes.

A line a stream in the file that GOLDEN_STREAMS names: fingerprints of records, spine and privacy, level, query, and the
key that follows from them. They are those of made-up records under keys that anybody has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

if "GOLDEN_STREAMS" in os.environ:
    from pipeline.privacy.keys import MasterKey

    _stream_key = MasterKey.stream_key

    def _noted(self: MasterKey, context: Sequence[str | bytes], level: str, query: str) -> bytes:
        key = _stream_key(self, context, level, query)
        fingerprints = [one if isinstance(one, str) else one.hex() for one in context]
        with Path(os.environ["GOLDEN_STREAMS"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([level, query, fingerprints, key.hex()]) + "\n")
        return key

    MasterKey.stream_key = _noted  # type: ignore[method-assign]
