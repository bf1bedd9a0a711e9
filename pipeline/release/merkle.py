"""Merkle trees as in RFC 6962, section 2.1, and RFC 9162: hashes, roots, proofs that something is in, or was added.

Leaves and inner nodes are hashed with different first bytes, so that no inner node can be passed off as a leaf:

    hash of a leaf  = SHA-256(0x00 || data)
    hash of a node  = SHA-256(0x01 || left || right)

The tree over n leaves splits at the largest power of two below n. Level by level that is: neighbours are hashed in
pairs, and a last one without a partner is carried up as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from pipeline.errors import ReleaseError

#: The root of a tree without leaves.
EMPTY_ROOT = hashlib.sha256(b"").digest()
#: Leaves whose hashes are kept at a time while a long tree is built; a power of two.
_CHUNK = 1 << 12


class ProofError(ReleaseError):
    """A proof does not lead to the root that it is for."""


def leaf_hash(data: bytes) -> bytes:
    """32 bytes, the hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """32 bytes, the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def _levels(hashes: Sequence[bytes]) -> list[list[bytes]]:
    """All levels of the tree from the leaves' hashes to the root; at least one leaf."""
    levels = [list(hashes)]
    sha256 = hashlib.sha256
    while len(below := levels[-1]) > 1:
        pairs = zip(below[::2], below[1::2], strict=False)
        above = [sha256(b"\x01" + left + right).digest() for left, right in pairs]
        if len(below) % 2:
            above.append(below[-1])
        levels.append(above)
    return levels


def root_of(hashes: Sequence[bytes]) -> bytes:
    """The root of the tree over leaves with these hashes."""
    return _levels(hashes)[-1][0] if hashes else EMPTY_ROOT


def inclusion_path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings on the way from leaf `index` to the root, from below: RFC 9162, 2.1.3.1."""
    if not 0 <= index < len(hashes):
        raise ValueError(f"there is no leaf {index} among {len(hashes)}")
    path = []
    for level in _levels(hashes)[:-1]:
        if (index ^ 1) < len(level):
            path.append(level[index ^ 1])
        index >>= 1
    return path


def consistency_path(hashes: Sequence[bytes], earlier: int) -> list[bytes]:
    """What shows that the tree over all leaves begins with the tree over the first `earlier`: RFC 9162, 2.1.4.1."""
    if not 0 <= earlier <= len(hashes):
        raise ValueError(f"a tree of {len(hashes)} leaves has none of {earlier} before it")
    return [] if earlier in (0, len(hashes)) else _subproof(hashes, earlier, whole=True)


def _subproof(hashes: Sequence[bytes], earlier: int, *, whole: bool) -> list[bytes]:
    if earlier == len(hashes):
        return [] if whole else [root_of(hashes)]
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    if earlier <= split:
        return [*_subproof(hashes[:split], earlier, whole=whole), root_of(hashes[split:])]
    return [*_subproof(hashes[split:], earlier - split, whole=False), root_of(hashes[:split])]


def root_from_path(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root to which a leaf's path leads: RFC 9162, 2.1.3.2.

    Args:
        leaf: the leaf's hash.
        index: the leaf's place, from 0.
        size: leaves of the tree.
        path: see `inclusion_path`.

    Raises:
        ProofError: no path of a tree of that size looks like it.
    """
    if not 0 <= index < size:
        raise ProofError(f"the proof is for leaf {index} of a tree of {size}; there is no such leaf")
    place, last, found = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise ProofError(f"the proof is too long for a tree of {size} leaves")
        if place & 1 or place == last:
            found = node_hash(sibling, found)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            found = node_hash(found, sibling)
        place, last = place >> 1, last >> 1
    if last:
        raise ProofError(f"the proof is too short for a tree of {size} leaves")
    return found


def check_consistency(earlier: int, earlier_root: bytes, size: int, root: bytes, path: Sequence[bytes]) -> None:
    """Check that the tree of `size` leaves begins with that of `earlier`: RFC 9162, 2.1.4.2.

    Raises:
        ProofError: it does not, or the path does not show it.
    """
    if not 0 <= earlier <= size:
        raise ProofError(f"a tree of {size} leaves cannot come after one of {earlier}")
    if earlier in (0, size):
        expected = EMPTY_ROOT if earlier == 0 else root
        if path or earlier_root != expected:
            raise ProofError(f"the trees of {earlier} and {size} leaves contradict each other")
        return
    if not path:
        raise ProofError("the proof is empty")
    rest = list(path)
    first = earlier_root if earlier & (earlier - 1) == 0 else rest.pop(0)
    place, last = earlier - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = first
    for sibling in rest:
        if last == 0:
            raise ProofError(f"the proof is too long for trees of {earlier} and {size} leaves")
        if place & 1 or place == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    if last or old != earlier_root or new != root:
        raise ProofError(f"the tree of {size} leaves does not begin with the tree of {earlier}: something was changed")


class LongTree:
    """The root of a tree of many leaves, and the path of one of them, without keeping all hashes.

    Args:
        wanted: the place of the leaf whose path is asked for, if any.
    """

    def __init__(self, wanted: int | None = None) -> None:
        self.size = 0
        self._wanted = wanted
        self._open: list[bytes] = []
        self._roots: list[bytes] = []
        self._path: list[bytes] = []

    def add(self, hashes: Iterable[bytes]) -> None:
        """Add leaves by their hashes."""
        before = len(self._open)
        self._open.extend(hashes)
        self.size += len(self._open) - before
        whole = len(self._open) // _CHUNK * _CHUNK
        for start in range(0, whole, _CHUNK):
            self._close(self._open[start : start + _CHUNK])
        del self._open[:whole]

    def _close(self, chunk: list[bytes]) -> None:
        if self._wanted is not None and self._wanted // _CHUNK == len(self._roots):
            self._path = inclusion_path(chunk, self._wanted % _CHUNK)
        self._roots.append(root_of(chunk))

    def finish(self) -> tuple[bytes, list[bytes]]:
        """The root, and the path of the wanted leaf (empty if none was asked for); nothing can be added afterwards.

        Raises:
            ValueError: there is no such leaf.
        """
        if self._wanted is not None and not 0 <= self._wanted < self.size:
            raise ValueError(f"there is no leaf {self._wanted} among {self.size}")
        if self._open:
            self._close(self._open)
        above = [] if self._wanted is None else inclusion_path(self._roots, self._wanted // _CHUNK)
        return root_of(self._roots), [*self._path, *above]
