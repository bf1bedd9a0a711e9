"""A key to sign with."""

from __future__ import annotations

import pytest

from pipeline.signatures.signing_keys import SigningKey


@pytest.fixture(scope="session")
def key() -> SigningKey:
    return SigningKey.generate("statistics.example/releases")
