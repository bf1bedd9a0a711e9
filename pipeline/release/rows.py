"""The leaves of a release's Merkle trees: rows of tables, and the tables themselves, each as bytes in one way only.

A row of a table with k columns of counts is, in this order,

    4 bytes     length of the geocode in UTF-8, an unsigned integer, most significant byte first
    n bytes     the geocode
    8 k bytes   the counts, in the order of the labels: two's complement, most significant byte first
    16 k bytes  where margins are published: the low ends of the 90 % intervals, then the high ends, IEEE 754 binary64,
                most significant byte first; every NaN is 7ff8000000000000

and a table is the JSON object with the keys file, labels, level, margins, query, root, rows, table, universe, sorted,
in UTF-8 without any space: its file under public/, the labels of its columns, whether it has margins, the number of its
rows and the root of their tree in hexadecimal. The leaves of the release's tree are its tables in the order of their
files' names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.release.merkle import LongTree, leaf_hash, root_of
from pipeline.release.tables import ReleasedTable, read_table_parts
from pipeline.storage.readable import Readable


@dataclass(frozen=True)
class TableLeaf:
    """What the release's tree says of one table.

    Attributes:
        file: path under public/, with slashes.
        universe: "" for the release's own.
        table: its name.
        level: of its geounits.
        query: tabulated.
        labels: of its columns of counts.
        margins: whether intervals are published.
        rows: how many.
        root: of the tree of its rows, hexadecimal.
    """

    file: str
    universe: str
    table: str
    level: str
    query: str
    labels: tuple[str, ...]
    margins: bool
    rows: int
    root: str

    def data(self) -> bytes:
        """The leaf's bytes."""
        content = {**self.__dict__, "labels": list(self.labels)}
        return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def row_hashes(part: ReleasedTable) -> Iterator[bytes]:
    """The hash of each row of a part of a table, in order; 32 bytes each."""
    counts = memoryview(np.ascontiguousarray(part.counts, dtype=">i8").tobytes())
    width = 8 * len(part.labels)
    lows, highs = (memoryview(b"" if ends is None else _big_endian(ends)) for ends in (part.lows, part.highs))
    sha256 = hashlib.sha256
    for number, geocode in enumerate(part.geocodes.tolist()):
        code = geocode.encode()
        start = number * width
        digest = sha256(b"\x00" + len(code).to_bytes(4, "big") + code)
        digest.update(counts[start : start + width])
        if lows:
            digest.update(lows[start : start + width])
            digest.update(highs[start : start + width])
        yield digest.digest()


def _big_endian(ends: NDArray[np.float64]) -> bytes:
    values = np.ascontiguousarray(ends, dtype=">f8")
    return np.where(np.isnan(values), np.array(np.nan, dtype=">f8"), values).astype(">f8").tobytes()


def table_leaf(path: Readable, file: str, universe: str) -> TableLeaf:
    """The leaf of the table at `path`.

    Args:
        path: where it is.
        file: its name under public/.
        universe: "" for the release's own.

    Raises:
        ReleaseError: it cannot be read.
    """
    tree, first = LongTree(), None
    for part in read_table_parts(path):
        first = part if first is None else first
        tree.add(row_hashes(part))
    assert first is not None, "a table has at least one part"
    root, _ = tree.finish()
    return leaf_of(first, file, universe, tree.size, root)


def leaf_of(part: ReleasedTable, file: str, universe: str, rows: int, root: bytes) -> TableLeaf:
    """The leaf of a table, of which a part says what it is."""
    margins = part.lows is not None
    return TableLeaf(file, universe, part.name, part.level, part.query, part.labels, margins, rows, root.hex())


def release_root(leaves: list[TableLeaf]) -> bytes:
    """The root of the tree over all tables of a release; of leaves in any order."""
    ordered = sorted(leaves, key=lambda leaf: leaf.file)
    return root_of([leaf_hash(leaf.data()) for leaf in ordered])
