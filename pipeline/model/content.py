"""The hash of content: what noise, charges and public randomness are bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence


def content_sha256(content: Sequence[object]) -> str:
    """SHA-256 in hexadecimal of content as JSON, whose numbers and texts are ASCII, in their order."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
