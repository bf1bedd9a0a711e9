"""Trees as plain lists of paths from the top to each leaf: hypothesis strategies, and the order by brute force."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

#: The codes of a leaf's ancestors, top first, and its own.
Path = tuple[str, ...]

_LETTERS = st.characters(codec="utf-8", exclude_categories=["C", "Z"])


@st.composite
def paths(draw: st.DrawFn, *, prefix: bool = False, most_levels: int = 4) -> list[Path]:
    """Leaves at equal depth in any order, any fan-out, single children included.

    Codes are prefixes of their children's with `prefix`, else any text that is unique in its level.
    """
    n_levels = draw(st.integers(1, most_levels))
    level: list[Path] = [()]
    for number in range(n_levels):
        fan_out = [draw(st.integers(1, 4 if number else 2)) for _ in level]
        if prefix:
            width = draw(st.integers(1, 2))
            steps = [
                draw(st.lists(st.text(_LETTERS, min_size=width, max_size=width), min_size=n, max_size=n, unique=True))
                for n in fan_out
            ]
            codes = [
                [(path[-1] if path else "") + step for step in own] for path, own in zip(level, steps, strict=True)
            ]
        else:
            total = sum(fan_out)
            flat = draw(
                st.lists(st.text(_LETTERS, min_size=1, max_size=3), min_size=total, max_size=total, unique=True)
            )
            ends = [sum(fan_out[: i + 1]) for i in range(len(fan_out))]
            codes = [flat[end - n : end] for end, n in zip(ends, fan_out, strict=True)]
        level = [(*path, code) for path, own in zip(level, codes, strict=True) for code in own]
    return draw(st.permutations(level))


@st.composite
def ragged_paths(draw: st.DrawFn) -> tuple[list[Path], int]:
    """Leaves at unequal depth under codes that are unique in the whole tree, and the number of levels."""
    n_levels = draw(st.integers(2, 4))
    serial = iter(draw(st.permutations(range(1000, 1100))))
    leaves: list[Path] = []
    level: list[Path] = [(str(next(serial)),) for _ in range(draw(st.integers(1, 2)))]
    for _ in range(1, n_levels):
        # One geounit at each depth is always divided, so that every level has a code of its own.
        divided = [i == 0 or draw(st.booleans()) for i in range(len(level))]
        leaves += [path for path, d in zip(level, divided, strict=True) if not d]
        level = [
            (*path, str(next(serial)))
            for path, d in zip(level, divided, strict=True)
            if d
            for _ in range(draw(st.integers(1, 2)))
        ]
    return draw(st.permutations(leaves + level)), n_levels


def brute_levels(tree: list[Path]) -> list[list[Path]]:
    """The geounits of each level, as paths, in canonical order."""
    return [sorted({path[: depth + 1] for path in tree}) for depth in range(len(tree[0]))]


def table_of(tree: list[Path], names: list[str]) -> pa.Table:
    """One row a leaf, one column a level, null where the path has ended."""
    columns = [[path[i] if i < len(path) else None for path in tree] for i in range(len(names))]
    return pa.table({name: pa.array(c, pa.string()) for name, c in zip(names, columns, strict=True)})


def pairs_of(tree: list[Path]) -> tuple[list[str], list[str]]:
    """Children and parents; codes are told apart by their depth, as pairs need codes unique in the whole tree."""
    geounits = sorted({path[: depth + 1] for path in tree for depth in range(len(path))})
    return [path[-1] for path in geounits], [path[-2] if len(path) > 1 else "" for path in geounits]
