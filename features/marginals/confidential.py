"""Private choice of the pairs of attributes that are measured together, at the top of the spine. It sees the records.

Guarantee: the noisy tables of single attributes and the pairs chosen satisfy rho-zCDP, or pure differential privacy,
with the cost that `choice.ChoiceTerms` states. Each of the choices is one of the exponential mechanism among the pairs
left, with probability proportional to exp(epsilon score / (2 sensitivity)), which is epsilon-private and
epsilon^2 / 8-zCDP (`pipeline.privacy.noise.choices`); they compose by adding up. Which pairs are left follows from
the choices before.
What scores use besides the records are the attributes' noisy tables, which are measured as any query is.

The order is that of a run: the records are counted and fingerprinted, the ledger is charged, then it is drawn. The same
choice again, of the same records with the same key, draws the same and costs nothing. A record that changes changes the
fingerprint, wherever it lies, and with it all that is drawn: it is over the pairs' tables, and the attributes' in every
leaf.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import scipy.sparse as sp

from features.marginals.choice import Pairs, attribute_query, candidates, scores_of
from features.marginals.cliques import Clique
from features.marginals.stage import ChoiceWork, keep_tables
from pipeline.confidential.charge import charged_for, refuse_uncharged
from pipeline.confidential.custody import Keyholder
from pipeline.confidential.refusals import shielded
from pipeline.model.schema import Schema
from pipeline.privacy.budget import MOVED
from pipeline.privacy.keys import MasterKey
from pipeline.privacy.ledger.charges import Charge, run_fingerprint
from pipeline.privacy.ledger.events import Group, KeyUse, Moved
from pipeline.privacy.noise.choices import Exponential
from pipeline.privacy.noise.sampler import sampler_for
from pipeline.records.cells import open_cells
from pipeline.records.tabulate import CountAccumulator, update_with_counts
from postprocess.arrays import IntArray

#: Labels the keyed hash of the tables that pairs are chosen by.
_LABEL = "input of a choice of cliques"
#: The stream of the choices; no query is called so.
_STREAM = "choice of pairs"
#: Cells of a table that records are read by, at most.
_MOST_CELLS = 2**62


def chosen_pairs(
    pairs: Pairs, tables: Mapping[Clique, IntArray], ones: Sequence[IntArray], scale: Fraction, stream: bytes
) -> tuple[Clique, ...]:
    """A spanning tree of the attributes, and further pairs, chosen privately.

    Args:
        pairs: what is chosen from.
        tables: the pairs' true tables.
        ones: public tables of the attributes.
        scale: the mechanism's epsilon for losses that are moved by one.
        stream: the key of the choices' stream.
    """
    # Losses are moved by at most the sensitivity, not 1: the mechanism's scale is what is meant, divided by it.
    mechanism = Exponential(scale)
    scores = scores_of(pairs, tables, ones)
    chosen: list[Clique] = []
    while left := candidates(pairs, chosen):
        losses = np.array([[-scores[pair] for pair in left]], dtype=np.int64)
        chosen.append(left[int(mechanism.draw(stream, losses, len(chosen))[0])])
    return tuple(chosen)


def answered(work: ChoiceWork, holder: Keyholder) -> Mapping[str, object]:
    """See `pipeline.confidential.parts.Answering`: `pairs`, and the fields of a `ChosenSection`.

    Raises:
        RefusedError: the records cannot be counted.
        BudgetRefusedError: the dataset has not enough left; nothing was drawn.
        InputError: there is no such ledger or dataset, or the key was used over other records.
    """
    key = holder.key(work.run) if work.again is None else holder.of_release(work.again)
    tables = shielded(work.run, "choose", lambda: true_tables(work))
    fingerprint = key.keyed_hash(_LABEL, tables.digest())
    # For the manifest, where it shows equal records of this choice of this release alone.
    label = f"published choice/{work.release}/{work.terms.fingerprint()}"
    said: dict[str, object] = {
        "budget": str(work.terms.budget),
        "records": key.keyed_hash(label, fingerprint.encode()),
    }
    if work.again is not None:
        if work.dataset:
            refuse_uncharged(work.again, [charge_of(work, key, fingerprint)], "this choice of cliques")
        return said | {"pairs": _names(work, _drawn(work, key, fingerprint, tables))}
    # An independent redraw needs them; once they are kept, the directory is that of this choice.
    if not work.dataset:
        keep_tables(work.run, tables.pairs)
        return said | {"pairs": _names(work, _drawn(work, key, fingerprint, tables))}
    with charged_for(work.run, charge_of(work, key, fingerprint)) as charged:
        keep_tables(work.run, tables.pairs)
        found = _drawn(work, key, fingerprint, tables)
    head = charged.head
    where = {"dataset": work.dataset, "ledger": head.ledger, "number": head.number, "hash": head.hash}
    return said | where | {"pairs": _names(work, found)}


@dataclass(frozen=True, eq=False)
class TrueTables:
    """Tables of all records. Confidential.

    Attributes:
        pairs: of all pairs that can be chosen, at the top.
        leaves: `(n_leaves, values of all attributes)` how many records of a leaf have each value.
        sizes: how many values each attribute has.
    """

    pairs: Mapping[Clique, IntArray]
    leaves: sp.csr_array[np.int64]
    sizes: Sequence[int]

    @property
    def ones(self) -> list[IntArray]:
        """Of each attribute, at the top."""
        return np.split(self.leaves.sum(axis=0), np.cumsum(self.sizes)[:-1])

    def digest(self) -> bytes:
        """A plain hash of all: those of pairs as little-endian 64-bit integers, then the hash of the leaves'."""
        hasher, leaves = hashlib.sha256(b"spinewise tables of a choice 2\0"), hashlib.sha256()
        for table in self.pairs.values():
            hasher.update(table.astype("<i8").tobytes())
        update_with_counts(leaves.update, self.leaves)
        hasher.update(leaves.digest())
        return hasher.digest()


def true_tables(work: ChoiceWork) -> TrueTables:
    """What pairs are chosen by.

    Attributes are read some at a time, as many as have together fewer than 2^62 cells in all leaves.

    Raises:
        RecordsError: the records cannot be read or counted; the message may show what is in them.
    """
    attributes, sizes, possible = work.attributes, work.terms.domain.sizes, work.terms.pairs.possible
    groups: list[list[int]] = [[]]
    for number, size in enumerate(sizes):
        if math.prod(sizes[a] for a in groups[-1]) * size * work.spine.n_leaves > _MOST_CELLS:
            groups.append([])
        groups[-1].append(number)
    opened = [open_cells(work.records, Schema(tuple(attributes[a] for a in group)), work.spine) for group in groups]
    tables = {pair: np.zeros(work.terms.domain.size(pair), dtype=np.int64) for pair in possible}
    starts, leaves = np.cumsum([0, *sizes]), CountAccumulator(work.spine.n_leaves, sum(sizes))
    for chunks in zip(*(one.chunks() for one in opened), strict=True):
        if len({len(chunk.keys) for chunk in chunks}) > 1:
            continue  # of rows that cannot be counted, which stop it below
        codes: dict[int, IntArray] = {}
        for group, chunk in zip(groups, chunks, strict=True):
            keys = chunk.keys
            for a in reversed(group):
                keys, codes[a] = np.divmod(keys, sizes[a])
        for a, code in codes.items():
            leaves.add(keys * sum(sizes) + starts[a] + code)
        for (one, other), table in tables.items():
            table += np.bincount(codes[one] * sizes[other] + codes[other], minlength=len(table))
    for file in opened:
        file.log.raise_if_any()
    return TrueTables(tables, leaves.finish(), sizes)


def charge_of(work: ChoiceWork, key: MasterKey, fingerprint: str) -> Charge:
    """What the ledger must accept before anything is drawn: each attribute's table, and each choice."""
    terms, neighbours = work.terms, work.terms.neighbours
    run = run_fingerprint(
        key,
        input_fingerprint=fingerprint,
        spine_fingerprint=work.spine.fingerprint(),
        privacy_fingerprint=terms.fingerprint(),
    )
    groups = tuple(
        Group(
            one.level,
            one.query,
            one.mechanism.mechanism,
            one.mechanism.scale,
            one.size,
            Moved.by(losses=max(1, one.weight * MOVED[neighbours]), records=terms.records),
        )
        for one in terms.earlier.uses
    )
    use = KeyUse.read_so(key.commitment(), _STREAM, work.layout, fingerprint, work.reading)
    # What the cliques cost is not charged yet; a choice that no release could follow from is not made.
    return Charge(work.dataset, run, work.release, neighbours, groups, key=use, later=terms.rest)


def _drawn(work: ChoiceWork, key: MasterKey, fingerprint: str, tables: TrueTables) -> tuple[Clique, ...]:
    """The pairs: here noise is added to the attributes' tables, and the exponential mechanism chooses."""
    terms, names = work.terms, work.terms.domain.names
    context = (fingerprint, work.spine.fingerprint(), terms.fingerprint())
    sampler = sampler_for(terms.of_attribute)
    noisy = [
        table + sampler.draw(key.stream_key(context, terms.top, attribute_query(name)), 0, len(table))
        for name, table in zip(names, tables.ones, strict=True)
    ]
    return chosen_pairs(terms.pairs, tables.pairs, noisy, terms.scale, key.stream_key(context, terms.top, _STREAM))


def _names(work: ChoiceWork, pairs: Sequence[Clique]) -> list[list[str]]:
    return [list(work.terms.domain.named(pair)) for pair in pairs]
