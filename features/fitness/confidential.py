"""The fitness of a release against its true counts: fitness.json and fitness.html, for the agency alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from features.fitness.fitness import ComparedMethod, Fitness
from features.fitness.from_public import public_thresholds
from features.fitness.methods import Apart, Histograms, Perturbed, Way, opendp_noise, swapping
from features.fitness.table import TableFitness, empty_fitness
from pipeline.confidential.refusals import shielded
from pipeline.errors import InputError
from pipeline.model.texts.catalogue import texts_in
from pipeline.model.texts.message import Message, message
from pipeline.reading.reader import Reader
from pipeline.release.histograms import read_histogram
from pipeline.storage.files import make_restricted, write_bytes, write_json
from postprocess.arrays import IntArray

if TYPE_CHECKING:
    from features.fitness.other_estimator import Estimates

#: Of the keys, swaps and noise of other ways; nothing that is published depends on it.
SEED = 1
_BASIS = message("the true counts")
#: Answers in memory at a time.
_AT_ONCE = 1 << 22


def write_fitness(
    releases: Sequence[Reader],
    thresholds: Sequence[int],
    levels: Sequence[str],
    others: Estimates | None,
) -> None:
    """Judge a release by its true counts, and write what is found to restricted/.

    Args:
        releases: the release's own universe first, then its companions.
        thresholds: people, at each of `levels`.
        others: name and description of ways whose histograms are public; None for no comparison with other ways.

    Raises:
        InputError: restricted/ has no true counts; RefusedError: any other error, whose text is in restricted/.
    """
    run = releases[0].run
    leaf = releases[0].levels[-1]
    if not releases[0].files.true_histogram(leaf).is_file():
        raise InputError(
            f"--truth: {run.restricted} has no true counts (histograms/{leaf}.parquet); they are in the directory that "
            "the run made, and only where its restricted/ was kept"
        )
    make_restricted(run.restricted)
    make_restricted(run.staging)

    def judge() -> None:
        found = _judged(releases, thresholds, levels, others)
        write_json(run.fitness, found.data(), run.staging, private=True)
        write_bytes(
            run.fitness_page, found.page(texts_in(releases[0].spec.report.language)).encode(), run.staging, private=True
        )

    shielded(run, "fitness", judge)


def _judged(
    releases: Sequence[Reader],
    thresholds: Sequence[int],
    levels: Sequence[str],
    others: Estimates | None,
) -> Fitness:
    own = releases[0]
    tables: list[TableFitness] = []
    compared: dict[Message, tuple[Message, list[TableFitness]]] = {}
    truths = [_truth(release) for release in releases]
    of_universe = {release.universe.name: truth for release, truth in zip(releases, truths, strict=True)}
    for release, truth in zip(releases, truths, strict=True):
        published = Histograms(message("this release"), _BASIS, [release.histogram(level) for level in release.levels])
        sizes = list(map(_people, of_universe[release.counted]))
        tables += _tables(release, published, truth, sizes)
        if others is None or not release.universe.measure.counts:
            continue  # the other ways are of counts
        for way in _ways(release, truth, others):
            compared.setdefault(way.name, (way.about, []))[1].extend(_tables(release, way, truth, sizes))
    counts = sum(table.counts for table in tables)
    people = dict(zip(own.levels, map(_people, truths[0]), strict=True))
    return Fitness(
        release=own.name,
        status=own.manifest.status,
        restricted=True,
        tables=tuple(tables),
        thresholds=tuple(public_thresholds(own, thresholds, levels, people)),
        compared=tuple(
            ComparedMethod(name, about, tuple(found))
            for name, (about, found) in compared.items()
            if len(found) == counts
        ),
    )


def _people(counts: sp.csr_array) -> IntArray:
    """Records of each area, `(n,)`."""
    return np.asarray(counts.sum(axis=1), dtype=np.int64).ravel()


def _truth(release: Reader) -> list[sp.csr_array]:
    """The confidential histograms of all levels."""
    return [
        read_histogram(
            release.files.true_histogram(level.name),
            level.geocodes,
            release.schema,
            signed=release.universe.measure.signed,
        )
        for level in release.spine.levels
    ]


def _ways(release: Reader, truth: Sequence[sp.csr_array], others: Estimates) -> Iterator[Way]:
    """Other ways to protect the same counts."""
    for (name, about), histograms in others.items():
        yield Histograms(name, about, histograms[release.universe.name])
    yield Apart(release.universe, truth, SEED)
    if (drawn := opendp_noise(release.universe, truth)) is not None:
        yield drawn
    yield Perturbed.of(truth, release.spine, SEED)
    if (exchanged := swapping(truth[-1], release.spine, SEED)) is not None:
        yield exchanged


def _tables(
    release: Reader, way: Way, truth: Sequence[sp.csr_array], people: Sequence[IntArray]
) -> Iterator[TableFitness]:
    """Every table of every level, in the order of the spec; areas of each level are classed by so many people."""
    for table in release.universe.tables:
        for number, level in enumerate(release.levels):
            if level not in table.levels:
                continue
            counts, size = truth[number], table.query.size
            step = max(1, _AT_ONCE // size)
            parts = [slice(first, min(first + step, counts.shape[0])) for first in range(0, counts.shape[0], step)]
            totals = (
                sum((way.answers(table, number, rows).sum(axis=0) for rows in parts), np.zeros(size, dtype=np.int64)),
                sum(
                    (table.query.answer_csr(counts[rows]).sum(axis=0) for rows in parts), np.zeros(size, dtype=np.int64)
                ),
            )
            fitness = empty_fitness(release.universe, release.labels, table, level, _BASIS, totals)
            for rows in parts:
                answers = table.query.answer_csr(counts[rows])
                fitness.add(way.answers(table, number, rows), answers, people[number][rows])
            yield fitness
