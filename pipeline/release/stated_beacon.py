"""The round of a beacon that a manifest states."""

from __future__ import annotations

import struct

from pipeline.errors import InputError
from pipeline.release.beacon import Beacon
from pipeline.release.manifest import Manifest


def stated_beacon(manifest: Manifest) -> Beacon | None:
    """The round that a manifest states, checked again; InputError where it does not hold, None where there is none."""
    try:
        return None if manifest.beacon is None else Beacon(**manifest.beacon.model_dump())
    except (ValueError, OverflowError, struct.error):
        raise InputError("beacon: what the manifest states is damaged") from None
