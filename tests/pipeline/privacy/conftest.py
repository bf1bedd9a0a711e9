"""What several modules need: 110-digit decimals, with which the noise is compared, and new databases for ledgers."""

from __future__ import annotations

import time
from collections.abc import Callable
from decimal import Context, Decimal, localcontext
from functools import cache

import pytest
import sqlalchemy as sa

from pipeline.privacy.ledger.store import ledger_url
from pipeline.privacy.noise.mechanism import NoiseSpec

DIGITS = 110


@cache
def _exact_tails(spec: NoiseSpec) -> list[Decimal]:
    """T(k) = P(X >= k) for k = 0, 1, ... to 1e-100, summed from the definition, one exponential a term."""
    with localcontext(Context(prec=DIGITS)):
        scale = Decimal(spec.scale.numerator) / Decimal(spec.scale.denominator)
        gaussian = spec.mechanism == "discrete_gaussian"
        weights: list[Decimal] = []
        while not weights or weights[-1] > Decimal("1e-105"):
            k = Decimal(len(weights))
            weights.append((-(k * k) / (2 * scale) if gaussian else -k / scale).exp())
        total = 2 * sum(weights) - 1
        tails = [Decimal(0)]
        for weight in reversed(weights):
            tails.append(tails[-1] + weight / total)
        return tails[:0:-1]


@pytest.fixture(scope="session")
def exact_tails() -> Callable[[NoiseSpec], list[Decimal]]:
    return _exact_tails


@pytest.fixture
def new_database(postgresql: str) -> Callable[[], str]:
    """Makes a database of the server of PostgreSQL; its address."""

    def make() -> str:
        name = f"ledger_{time.time_ns()}"
        engine = sa.create_engine(ledger_url(postgresql), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return postgresql.replace("/postgres?", f"/{name}?")

    return make
