"""An audit of what a release chose privately (`select` in its spec): the choices and their noise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from features.audit.exact_noise import normal_scores, spread_p_value, together_p_value, zeros_p_value
from features.audit.findings import ALPHA, Finding, certain
from features.audit.release_reading import input_fingerprints, truth_of
from pipeline.errors import ReleaseError
from pipeline.model.selection import Selection
from pipeline.model.universe import Universe
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.privacy.noise.select import Select
from pipeline.published import PublishedRelease
from pipeline.release.selected import Selected, answered, read_selected

__all__ = ["selected_findings"]

_GROUP: Final = "release"


def selected_findings(release: PublishedRelease, key: MasterKey | None) -> Iterator[Finding]:
    """Whether choices and noise have the distributions stated and, given the key, are those of their places."""
    pairs = [(universe, selection) for universe in release.universes for selection in universe.selections]
    for seed, (universe, selection) in enumerate(pairs):
        path = release.run.universe(universe.name).selected(selection.name, selection.level)
        name = path.relative_to(release.run.root).as_posix()
        selected = _read(path, selection, release)
        problems = [selected] if isinstance(selected, str) else []
        yield certain(_GROUP, "selection stated", name, problems, well="version and answers of each geounit")
        if not isinstance(selected, str):
            yield from _tests(_Audited(release, universe, selection, selected, name, 1 << 20 | seed), key)


def _read(path: Path, selection: Selection, release: PublishedRelease) -> Selected | str:
    try:
        parts = list(read_selected(release.unchanged(path), selection, len(release.spine.level(selection.level))))
    except ReleaseError as error:
        return str(error)
    geocodes = np.concatenate([np.zeros(0, dtype=np.str_), *(part.geocodes for part in parts)])
    if not np.array_equal(geocodes, release.spine.level(selection.level).geocodes):
        return f"{path} does not have the geounits of level {selection.level!r}"
    chosen, values = ([getattr(part, field) for part in parts] for field in ("chosen", "values"))
    return Selected(geocodes, np.concatenate(chosen), np.concatenate(values))


class _Audited:
    """A selection beside its truth."""

    def __init__(
        self,
        release: PublishedRelease,
        universe: Universe,
        selection: Selection,
        selected: Selected,
        name: str,
        seed: int,
    ) -> None:
        truth = truth_of(release, universe, selection.level)
        self.release, self.universe, self.selection, self.selected, self.name, self.seed = (
            release, universe, selection, selected, name, seed,
        )  # fmt: skip
        self.populations = np.asarray(truth.sum(axis=1), dtype=np.int64).reshape(-1)
        self.held = answered(selection, selected.chosen)
        answers = np.zeros(selected.values.shape, dtype=np.int64)
        for number, query in enumerate(selection.versions):
            rows = selected.chosen == number
            answers[rows, : query.size] = query.answer_csr(truth[rows])
        #: `(n, size)`, 0 where there is no answer.
        self.residuals: NDArray[np.int64] = selected.values - answers


def _tests(audited: _Audited, key: MasterKey | None) -> Iterator[Finding]:
    selection, selected = audited.selection, audited.selected
    residuals = audited.residuals[audited.held]
    scores = normal_scores(residuals, selection.noise, audited.seed)
    p_value = min(1.0, 2 * min(spread_p_value(scores), zeros_p_value(residuals, selection.noise)))
    problem = f"the noise is not {selection.noise} (mean of squares {(scores**2).mean():.3g} where 1 is right)"
    yield Finding(
        _GROUP, "noise found", audited.name, p_value >= ALPHA, p_value, ALPHA, problem if p_value < ALPHA else ""
    )
    p_value = together_p_value([_choice_scores(selection.select, audited.populations, selected.chosen, audited.seed)])
    problem = f"the choices are not those of the exponential mechanism with epsilon = {selection.select.epsilon}"
    yield Finding(
        _GROUP, "choices found", audited.name, p_value >= ALPHA, p_value, ALPHA, problem if p_value < ALPHA else ""
    )
    if key is not None:
        yield certain(_GROUP, "noise drawn", audited.name, _drawn_problems(audited, key), well="choices and noise")


def _choice_scores(
    select: Select, populations: NDArray[np.int64], chosen: NDArray[np.int64], seed: int
) -> NDArray[np.float64]:
    """`(n,)` standard normal numbers for choices by the mechanism: places drawn within each choice's probability.

    The probabilities stand in the order of the losses, so that choices too near to the best, or too far, add up.
    """

    @cache
    def ends(row: tuple[int, ...]) -> list[float]:
        return [0.0, *accumulate(select.mechanism.probabilities(row))]

    losses = select.losses(populations)
    order = np.argsort(losses, axis=1, kind="stable")
    ranks = np.argsort(order, axis=1)[np.arange(len(chosen)), chosen]
    rows: Sequence[list[int]] = np.take_along_axis(losses, order, axis=1).tolist()
    within = np.random.default_rng(seed).random(len(rows))
    places = []
    for row, rank, place in zip(rows, ranks.tolist(), within.tolist(), strict=True):
        bounds = ends(tuple(row))
        places.append(bounds[rank] + place * (bounds[rank + 1] - bounds[rank]))
    scores: NDArray[np.float64] = special.ndtri(np.clip(np.array(places), 1e-300, 1 - 1e-16))
    return scores


def _drawn_problems(audited: _Audited, key: MasterKey) -> list[str]:
    """Whether choices and noise are those of this key, input and spec, each at its own place."""
    release, universe, selection = audited.release, audited.universe, audited.selection
    context = (
        input_fingerprints(release, key)[universe.name],
        release.spine.fingerprint(),
        universe.privacy_fingerprint(),
    )
    problems = []
    chosen = selection.select.choose(
        key.stream_key(context, selection.level, f"select {selection.name}"), audited.populations
    )
    if not np.array_equal(chosen, audited.selected.chosen):
        problems.append(f"{audited.name}: the choices are not those of this key, input and spec")
    shape = audited.residuals.shape
    stream = key.stream_key(context, selection.level, f"selected {selection.name}")
    noise = sampler_for(selection.noise).draw(stream, 0, shape[0] * shape[1]).reshape(shape)
    if not np.array_equal(noise[audited.held], audited.residuals[audited.held]):
        problems.append(f"{audited.name}: what was added is not the noise of this key, input and spec")
    return problems
