"""Cliques from public data, for nothing: pairs that depend most, grown into a junction tree within a size limit.

The data are an earlier release or a public sample. What they say of each pair that no clique has is compared with what
the model of the cliques would guess of it (`guess`), in mean total variation distance; what the cliques have is off by
its noise. From the spanning tree of the pairs that gain most (`choice.from_sample`) on, that pair comes to the cliques
which makes the mean over all pairs and levels smallest, as long as any does and no table has too many cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from features.marginals.choice import Pairs, from_sample, tables_of
from features.marginals.cliques import AttributeSizes, Clique, filling, guess, junction_tree
from geography.spine import Spine
from pipeline.errors import InputError
from pipeline.inputs.public_file import open_public
from pipeline.model.number_ranges import FileNumbers
from pipeline.model.schema import Attribute
from pipeline.model.universe import Universe
from pipeline.privacy.budget import NoiseSpec, budget_of_one, noise_for
from pipeline.release.layout import RunDirectory
from postprocess.arrays import IntArray

#: Pairs that are tried in each step, those that are guessed worst.
_TRIED: Final = 16
_PUBLIC: Final = (
    "It follows from {path}, which must be public: cliques that are found in confidential records give them away, and "
    "no budget covers it; [marginals.choose] finds them privately."
)


@dataclass(frozen=True, eq=False)
class PlannedErrors:
    """What decides on how far off tables are.

    Attributes:
        domain: the attributes.
        values: `(n, attributes)` of the public data.
        persons: in the population that is measured.
        areas: of each level, how many.
        noise: of each level, the noise on a table that has all of it.
    """

    domain: AttributeSizes
    values: IntArray
    persons: int
    areas: tuple[int, ...]
    noise: tuple[NoiseSpec, ...]

    @cached_property
    def pairs(self) -> list[Clique]:
        """All pairs of attributes."""
        return list(combinations(range(len(self.domain.names)), 2))

    @cached_property
    def tables(self) -> Mapping[Clique, IntArray]:
        """Of the public data."""
        return tables_of(Pairs(self.domain, most_cells=1 << 62), self.values)

    def off_by_noise(self, pair: Clique, cliques: Sequence[Clique]) -> list[float] | None:
        """Expected distance of a pair's table at each level, from the clique that says most of it; None across them."""
        cells = self.domain.size(pair)
        having = [self.domain.size(one) for one in cliques if set(pair) <= set(one)]
        if not having:
            return None
        times = 1 if self.noise[0].mechanism == "discrete_gaussian" else len(cliques)
        found = []
        for n, noise in zip(self.areas, self.noise, strict=True):
            deviation = math.sqrt(2 / math.pi * noise.variance * len(cliques) * times * min(having) / cells)
            found.append(min(1.0, 0.5 * cells * deviation * n / self.persons))
        return found

    def off_by_model(self, cliques: Sequence[Clique]) -> dict[Clique, float]:
        """The distance of what is guessed of each pair that crosses cliques, beside what a sample is off by anyway."""
        tree = junction_tree(self.domain, cliques, most_cells=1 << 62)
        n, found = len(self.values), {}
        tables = [self._table(bag) for bag in tree.bags]
        for pair in self.pairs:
            if tree.bag_of(pair) is None:
                guessed = guess(tree, tables, pair, most_cells=1 << 24)[0]
                away = float(np.abs(guessed - self.tables[pair]).sum()) / (2 * n)
                by_chance = float(np.sqrt(2 / np.pi * np.maximum(guessed, 0)).sum()) / (2 * n)
                found[pair] = max(0.0, away - by_chance)
        return found

    def _table(self, clique: Clique) -> IntArray:
        cell = np.zeros(len(self.values), dtype=np.int64)
        for a in clique:
            cell = cell * self.domain.sizes[a] + self.values[:, a]
        return np.bincount(cell, minlength=self.domain.size(clique))[None, :]

    def expected(self, cliques: Sequence[Clique], model: Mapping[Clique, float]) -> list[float]:
        """The mean distance of all pairs at each level."""
        rows = []
        for pair in self.pairs:
            off = self.off_by_noise(pair, cliques)
            rows.append([model[pair]] * len(self.areas) if off is None else off)
        return [float(mean) for mean in np.mean(rows, axis=0)]


@dataclass(frozen=True, eq=False)
class Proposal:
    """Cliques, and what they are expected to be off by.

    Attributes:
        names: of the attributes of each.
        cells: of each.
        levels: level -> expected mean distance of all pairs, with these cliques.
        own: the same with the cliques of the spec; None where it has none.
        like: what they follow from.
    """

    names: tuple[tuple[str, ...], ...]
    cells: tuple[int, ...]
    levels: Mapping[str, float]
    own: Mapping[str, float] | None
    like: Path

    @property
    def section(self) -> tuple[str, Mapping[str, Any]]:
        """The section of the spec that it replaces keys of, and these; those that are None are left out."""
        return "marginals", {"cliques": [list(names) for names in self.names], "choose": None}

    @property
    def lines(self) -> tuple[str, ...]:
        """For people: the section to paste, what it is expected to gain, and what it must not be made from."""
        rows = ",\n".join(f"    [{', '.join(map(_quoted, names))}]" for names in self.names)
        of = "; ".join(
            f"{level} {value:.3f}" + ("" if self.own is None else f" in place of {self.own[level]:.3f}")
            for level, value in self.levels.items()
        )
        return (
            f"[marginals]\ncliques = [\n{rows},\n]",
            f"{len(self.names)} cliques of up to {max(self.cells):,} cells. Expected mean distance of all "
            f"tables of two attributes from the truth, a share of 1, if the records are like the public data: {of}.",
            _PUBLIC.format(path=self.like),
        )

    def data(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "cliques": [list(names) for names in self.names],
            "cells": list(self.cells),
            "expected": dict(self.levels),
            "own": None if self.own is None else dict(self.own),
            "like": str(self.like),
        }


def _quoted(text: str) -> str:
    return f'"{text}"'


def proposed(
    universes: Sequence[Universe],
    attributes: Sequence[Attribute],
    own: Sequence[Clique] | None,
    spine: Spine,
    like: Path,
    most_cells: int,
) -> Proposal:
    """The cliques that public data give.

    Args:
        universes: of the spec.
        attributes: all, in their order.
        own: the cliques of the spec; None where they are not known.
        spine: the geography.
        like: an earlier release, or a file of a public sample.
        most_cells: of a clique.

    Raises:
        InputError: the data are the records themselves or in a restricted folder, or cannot be read.
    """
    main = universes[0]
    _refuse_confidential(universes, like)
    domain = AttributeSizes(tuple(one.name for one in attributes), tuple(len(one.values) for one in attributes))
    values = read_sample(like, attributes, universes)
    whole = sum((one.own_budget for one in universes), Fraction(0))
    rest = budget_of_one(main.framework, whole, main.unit.records)
    measured = [
        (len(level), strategy.share)
        for level, strategy in zip(spine.levels, main.strategy.levels, strict=True)
        if strategy.share
    ]
    noise = tuple(noise_for(main.framework, rest, share, Fraction(1), main.neighbours) for _, share in measured)
    plan = PlannedErrors(domain, values, main.population or len(values), tuple(n for n, _ in measured), noise)
    found = _grown(plan, _first(plan, most_cells), most_cells)
    levels = [strategy.level for strategy in main.strategy.levels if strategy.share]

    def by_level(cliques: Sequence[Clique]) -> dict[str, float]:
        bags = filling(domain, cliques).bags
        return dict(zip(levels, plan.expected(cliques, plan.off_by_model(bags)), strict=True))

    return Proposal(
        tuple(map(domain.named, found)),
        tuple(map(domain.size, found)),
        by_level(found),
        None if own is None else by_level(own),
        like,
    )


def _first(plan: PlannedErrors, most_cells: int) -> list[Clique]:
    """The spanning tree of the pairs that gain most, and each attribute that is in none of it."""
    each = plan.noise[0].variance * len(plan.domain.names)
    pairs = Pairs(plan.domain, Fraction(math.isqrt(int(2 / math.pi * each * 100)), 10), most_cells=most_cells)
    return list(pairs.cliques(from_sample(pairs, plan.values, plan.persons)))


def _grown(plan: PlannedErrors, cliques: Sequence[Clique], most_cells: int) -> tuple[Clique, ...]:
    """The cliques with pairs added as long as the expected distance falls, made a junction tree each time."""
    bags = filling(plan.domain, cliques).bags
    while True:
        model = plan.off_by_model(bags)
        best, least = bags, sum(plan.expected(bags, model))
        for pair in sorted(model, key=lambda pair: (-model[pair], pair))[:_TRIED]:
            wider = filling(plan.domain, [*bags, pair]).bags
            if max(map(plan.domain.size, wider)) <= most_cells:
                value = sum(plan.expected(wider, model))
                if value < least:
                    best, least = wider, value
        if best == bags:
            return bags
        bags = best


# -- public data ------------------------------------------------------------------------------------------------------


def _refuse_confidential(universes: Sequence[Universe], like: Path) -> None:
    """InputError where the public data look as if they were not."""
    places = [like.resolve(), _file_of(like).resolve()]
    own = [one.input.file for one in universes if one.input is not None and isinstance(one.input.file, Path)]
    if any(place == file.resolve() or _is_same(place, file) for place in places for file in own):
        raise InputError(
            f"--like {like}: these are the records of the release. Cliques that follow from them disclose what no "
            "budget covers: name a public sample or an earlier release, or choose privately with [marginals.choose]"
        )
    if any("restricted" in place.parts for place in places):
        raise InputError(
            f"--like {like}: lies in a restricted folder, which is confidential; a public sample or an earlier release "
            "is needed"
        )


def _is_same(place: Path, file: Path) -> bool:
    """Whether both are names of one file."""
    return place.exists() and file.exists() and place.samefile(file)


def _file_of(like: Path) -> Path:
    """The file with the records of a public sample, or of an earlier release."""
    if not like.is_dir():
        return like
    return RunDirectory(like.parent if like.name == "public" else like).main.microdata


def read_sample(like: Path, attributes: Sequence[Attribute], universes: Sequence[Universe]) -> IntArray:
    """The values `(n, attributes)` of an earlier release, or of a public file with a column for each attribute.

    A column has the attribute's name, or the one that the spec's [input] names; its texts are values, or what [input]
    maps to them, or, where [input] says so, their numbers from 0.

    Raises:
        InputError: there is no such file, a column is missing, or a text is none of these.
    """
    path = _file_of(like)
    if like.is_dir() and not path.is_file():
        raise InputError(f"--like {like}: no release with records is here; {path} is missing")
    stated = [] if like.is_dir() else [one.input for one in universes if one.input is not None]
    columns = {one.name: one.name for one in attributes}
    columns |= {name: column for one in stated for name, column in one.columns.items() if name in columns}
    texts = {name: values for one in stated for name, values in one.values.items()}
    coded = any(one.coded for one in stated)
    numbers = {
        one.name: FileNumbers(
            {str(n) if coded else value: n for n, value in enumerate(one.values)},
            {text: one.values.index(value) for text, value in texts.get(one.name, {}).items()},
        )
        for one in attributes
    }
    file = open_public(path, list(columns.values()), "the public sample")
    parts = []
    for chunk in file.chunks():
        found = [_numbers(chunk.column(column), name, numbers[name], column, path) for name, column in columns.items()]
        parts.append(np.stack(found, axis=1))
    values = np.concatenate(parts) if parts else np.zeros((0, len(attributes)), dtype=np.int64)
    if not len(values):
        raise InputError(f"--like {like}: {path} has no records")
    return values


def _numbers(column: pa.Array, attribute: str, numbers: FileNumbers, name: str, path: Path) -> IntArray:
    """The number of the value in each row."""
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    texts = ["" if one is None else str(one) for one in encoded.dictionary.to_pylist()]
    strange = [text for text in texts if text not in numbers]
    if strange or encoded.null_count:
        found = repr(strange[0]) if strange else "a row without one"
        allowed = list(numbers)
        raise InputError(
            f"--like {path}: column {name!r}: found {found}; allowed are the values of "
            f"{attribute}: {', '.join(allowed[:6])}{', ...' if len(allowed) > 6 else ''}"
        )
    places = np.array([numbers[text] for text in texts], dtype=np.int64)
    return places[np.asarray(encoded.indices)]
