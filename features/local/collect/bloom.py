"""Bloom filters: which bits a text sets, by a stated hash."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

#: States the hash; another one would need another name, since device and reader have to agree.
HASH = "spinewise bloom 1"


def positions(text: str, cohort: int, n_bits: int, n_hashes: int) -> tuple[int, ...]:
    """The bits that a text sets in a cohort: `n_hashes` different ones, ascending.

    SHA-256 of the name of the hash, the cohort, a counter and the text (UTF-8), apart by zero bytes, gives four numbers
    of 64 bits, big-endian; each is taken modulo `n_bits`, and the first `n_hashes` different ones are the positions.
    The remainder favours low positions by less than n_bits / 2^64. Since all filters have as many ones, the number of
    ones shows nothing, and two texts differ in 2 x n_hashes bits at most.
    """
    found: dict[int, None] = {}
    counter = 0
    while len(found) < n_hashes:
        message = b"\0".join((HASH.encode(), str(cohort).encode(), str(counter).encode(), text.encode()))
        digest = hashlib.sha256(message).digest()
        for start in range(0, 32, 8):
            if len(found) < n_hashes:
                found[int.from_bytes(digest[start : start + 8], "big") % n_bits] = None
        counter += 1
    return tuple(sorted(found))


def filters(texts: tuple[str, ...], n_cohorts: int, n_bits: int, n_hashes: int) -> npt.NDArray[np.int64]:
    """(n_cohorts, n_texts, n_hashes) int64: the positions of every text in every cohort."""
    every = [[positions(text, cohort, n_bits, n_hashes) for text in texts] for cohort in range(n_cohorts)]
    return np.array(every, dtype=np.int64).reshape(n_cohorts, len(texts), n_hashes)
