"""The estimators of mbi run on our measurements, and find what ours does where nothing is near zero."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from features.marginals.bridge import to_mbi
from features.marginals.design import Design
from features.marginals.population import Population
from features.marginals.whole import Seed
from geography.errors import InputError
from pipeline.privacy.budget import NoiseSpec


def _measured(people: Population) -> tuple[Design, dict[tuple[int, ...], np.ndarray]]:
    noise = dict.fromkeys(people.tree.bags, NoiseSpec("discrete_gaussian", Fraction(25)))
    rng = np.random.default_rng(1)
    tables = {bag: people.table(bag, 0) + rng.integers(-8, 9, people.table(bag, 0).shape) for bag in people.tree.bags}
    return Design(people.tree, (), [noise]), tables


def test_another_estimator_finds_the_same_of_our_measurements(population: Callable[..., Population]) -> None:
    """Where all cells have many persons, the most likely model is the least-squares estimate."""
    pytest.importorskip("mbi", reason="mbi is not installed (extra mbi)")
    import jax

    jax.config.update("jax_enable_x64", True)
    from mbi import estimation

    people = population(1, n=20_000)
    design, tables = _measured(people)
    domain, measurements = to_mbi(people.tree.domain, tables, design.noise[0])
    release = design.release([tables], Seed(1))
    model = estimation.LBFGS().estimate(domain, measurements, iters=1000)
    compared = 0
    for bag in people.tree.bags:
        if people.table(bag, 0).min() < 100:
            continue
        theirs = np.asarray(model.project(tuple(people.tree.domain.names[a] for a in bag)).datavector())
        ours = release.estimates[0].table(bag)[0]
        # Noise is up to 8 persons; theirs keeps empty cells elsewhere from going below 0, which moves these a little.
        compared += 1
        assert np.abs(theirs - ours).mean() < 0.5
        assert np.abs(tables[bag][0] - ours).mean() > 1.0
    assert compared


@pytest.mark.skipif(importlib.util.find_spec("mbi") is not None, reason="mbi is installed")
def test_without_mbi_it_is_said_what_to_install(population: Callable[..., Population]) -> None:
    people = population(1)
    design, tables = _measured(people)
    with pytest.raises(InputError, match=r"needs the package mbi.*pip install 'spinewise\[mbi\]'"):
        to_mbi(people.tree.domain, tables, design.noise[0])
