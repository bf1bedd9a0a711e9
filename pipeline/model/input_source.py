"""Whether a public input is public, or was made from the records."""

from __future__ import annotations

from typing import Literal

InputSource = Literal["public", "records"]
