"""What the parts of a manifest have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stated(BaseModel):
    """A part of the manifest: frozen, and with nothing in it that is not named."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
