"""The estimators of mbi run on our measurements, and find what ours does where nothing is near zero."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from oracles.clique_population import Population

from features.marginals.intervals import CliqueDesign
from features.marginals.whole import Seed
from pipeline.privacy.budget import NoiseSpec


def _measured(people: Population) -> tuple[CliqueDesign, dict[tuple[int, ...], np.ndarray]]:
    noise = dict.fromkeys(people.tree.bags, NoiseSpec("discrete_gaussian", Fraction(1200)))
    rng = np.random.default_rng(1)
    truth = {bag: people.table(bag, 0) for bag in people.tree.bags}
    tables = {bag: table + rng.integers(-60, 61, table.shape) for bag, table in truth.items()}
    return CliqueDesign(people.tree, (), [noise]), tables


def test_another_estimator_finds_the_same_of_our_measurements(population: Callable[..., Population]) -> None:
    """Where all cells have many persons, the model nearest to the measurements is the least-squares estimate."""
    mbi = pytest.importorskip("mbi", reason="mbi is not installed (2.0 or later)")
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import estimation

    people = population(1, n=20_000)
    values = np.random.default_rng(2).integers(0, people.tree.domain.sizes, people.records.values.shape)
    people = replace(people, records=replace(people.records, values=values))
    design, tables = _measured(people)
    domain = people.tree.domain
    measurements = [
        mbi.LinearMeasurement(
            table[0].astype(float), domain.named(clique), stddev=math.sqrt(design.noise[0][clique].variance)
        )
        for clique, table in tables.items()
    ]
    release = design.release([tables], Seed(1))
    model = estimation.LBFGS().estimate(mbi.Domain(domain.names, domain.sizes), measurements, iters=400)
    for bag in people.tree.bags:
        assert people.table(bag, 0).min() > 700
        theirs = np.asarray(model.project(tuple(people.tree.domain.names[a] for a in bag)).datavector())
        ours = release.estimates[0].table(bag)[0]
        np.testing.assert_allclose(theirs, ours, atol=1e-6)
        assert np.abs(tables[bag][0] - ours).mean() > 2.0
