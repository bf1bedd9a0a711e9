"""Whether an import has read a form of `office_forms` right: every area, every cell, every word."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracles.office_forms import REGION, Truth
from pipeline.inputs.geography import read_spine
from pipeline.records.tabulate import roll_up, tabulate
from pipeline.spec.release_spec import load_spec

Counts = NDArray[np.int64]


def difference(spec: Path, truth: Truth) -> str:
    """What is other than right in what a run of this spec would count; empty where nothing is."""
    read = load_spec(spec)
    universe = read.universes()[0]
    spine = read_spine(read.geography)
    leaves = tabulate(universe.require_input(), universe.schema, spine)
    total, right = int(leaves.sum()), int(truth.counts.sum())
    if total != right:
        return f"{total:,} people, not {right:,}"
    order = _order(spine.levels[-1].geocodes.tolist(), truth.codes)
    if isinstance(order, str) and truth.names:
        order = _order(spine.levels[-1].geocodes.tolist(), truth.names)
    if isinstance(order, str):
        return order
    cells = leaves.toarray()[order].reshape(len(order), *universe.schema.shape)
    found = [(one.name, one.values) for one in universe.schema.attributes]
    values = {} if universe.require_input().values is None else dict(universe.require_input().values)
    if wrong := _cells_wrong(cells, found, truth, values):
        return wrong
    if truth.regions:
        regions = sorted(int(truth.counts[r == REGION].sum()) for r in range(4))
        levels = [sorted(np.asarray(level.sum(axis=1)).ravel().tolist()) for level in roll_up(spine, leaves)]
        if regions not in levels:
            sizes = ", ".join(f"{level.name} {len(level)}" for level in spine.levels)
            return f"the four regions are no level: {sizes}"
    return ""


def _order(found: Sequence[str], codes: Sequence[str]) -> list[int] | str:
    """The leaf of each area of the truth; its code may have those of the levels above in front."""
    order = []
    plain = [_plain(code) for code in found]
    for code in codes:
        at = [k for k, one in enumerate(plain) if one == _plain(code)]
        at = at or [k for k, one in enumerate(plain) if one.endswith(_plain(code))]
        at = at or [k for k, one in enumerate(plain) if one and _plain(code).endswith(one)]
        at = at or [k for k, one in enumerate(plain) if one and _plain(code).startswith(one)]
        at = at or [k for k, one in enumerate(plain) if one.startswith(_plain(code))]
        if len(at) != 1:
            return f"area {code!r} is {len(at)} leaves of {sorted(found)[:6]}"
        order += at
    if len(set(order)) != len(found):
        return f"{len(found)} leaves, not {len(codes)}: {sorted(set(found))[:40]}"
    return order


def _cells_wrong(
    cells: Counts, found: Sequence[tuple[str, Sequence[str]]], truth: Truth, values: Mapping[str, Mapping[str, str]]
) -> str:
    """Look each value's people up among the truth's values, runs of them and whole cells; then compare the cells."""
    shape = truth.counts.shape[1:]
    if shape == (1,):
        return "" if (cells.reshape(len(cells), -1).sum(1) == truth.counts[:, 0]).all() else "people in other areas"
    masks = dict(_masks(truth))
    parts: list[list[NDArray[np.bool_]]] = []
    covered: set[int] = set()
    for k, (name, words) in enumerate(found):
        sums = cells.sum(axis=tuple(j for j in range(1, cells.ndim) if j != k + 1))
        mine = []
        for j, word in enumerate(words):
            n = tuple(sums[:, j].tolist())
            if not any(n):
                mine.append(np.zeros(shape, dtype=bool))
                continue
            if n not in masks:
                return f"{name}={word!r} has {sum(n):,} people, which no value has"
            mask, said, axes = masks[n]
            if not _says(word, said, values.get(name, {})):
                return f"{name}={word!r} has the people of {said}"
            covered |= axes
            mine.append(mask)
        parts.append(mine)
    for index in itertools.product(*(range(len(words)) for _, words in found)):
        mask = np.ones(shape, dtype=bool)
        for k, j in enumerate(index):
            mask &= parts[k][j]
        if not np.array_equal(np.moveaxis(cells, 0, -1)[index], truth.counts[:, mask].sum(1)):
            return f"cell {[found[k][1][j] for k, j in enumerate(index)]} is not what the file has"
    missing = [axis for k, axis in enumerate(truth.axes) if k not in covered and len(axis) > 1]
    return f"{missing} are no attribute: {found}" if missing else ""


def _masks(truth: Truth) -> Iterator[tuple[tuple[int, ...], tuple[NDArray[np.bool_], list[str], set[int]]]]:
    """People by area -> cells, their words, their axes: whole cells, then runs of an axis' values."""
    shape = truth.counts.shape[1:]
    options: list[tuple[NDArray[np.bool_], list[str], set[int]]] = []
    for cell in np.ndindex(*shape):
        mask = np.zeros(shape, dtype=bool)
        mask[cell] = True
        options.append((mask, [truth.axes[k][j] for k, j in enumerate(cell)], set(range(len(shape)))))
    for k, words in enumerate(truth.axes):
        for first in range(len(words)):
            for last in range(first, len(words)):
                mask = np.zeros(shape, dtype=bool)
                np.moveaxis(mask, k, 0)[first : last + 1] = True
                options.append((mask, [words[first]] if first == last else [words[first], words[last]], {k}))
    for mask, said, axes in options:
        yield tuple(truth.counts[:, mask].sum(1).tolist()), (mask, said, axes)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in text if c.isalnum())


def _says(word: str, said: Sequence[str], values: Mapping[str, str]) -> bool:
    """Whether a released word is that of the file: its code or text, as renamed, or with its beginning and end."""
    if len(said) == 1:
        return any(_same(word, one, values) for one in said[0].split("|"))
    return any(
        all(_same(word, one, values) for one in both) for both in itertools.product(*(s.split("|") for s in said))
    )


def _same(word: str, one: str, values: Mapping[str, str]) -> bool:
    if values.get(one) == word or _plain(one) in _plain(word) or _plain(word) in _plain(one):
        return True
    numbers = set(re.findall(r"\d+", one)) & set(re.findall(r"\d+", word))
    return bool(numbers) or (bool(_words(one)) and _words(one) <= _words(word))


def _words(text: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", text.casefold()))


def named(sentence: str, cause: Iterable[str]) -> bool:
    return any(word.casefold() in sentence.casefold() for word in cause)
