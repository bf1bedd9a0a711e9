"""Were the cliques chosen as stated? Drawn again from the key and the true tables; the budget, and the ledger.

The tables of pairs that they were chosen by are in restricted/. They are tied to the release: that of each pair chosen
is the sum of its universe's true counts, those of attributes follow from these, and the keyed hash of all is published.
"""

from __future__ import annotations

import hashlib
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from auditor.cliques import CliqueChoice, Pair
from auditor.keys import KeyedStream, keyed_hash
from auditor.reading.counts import Counts, counts_digest
from auditor.reading.findings import FormError, Found, holds
from auditor.reading.values import IntArray, exact_sum, sums
from auditor.sampler import TooWideError, chosen, drawn

if TYPE_CHECKING:
    from auditor.reading.spine import Level
    from auditor.release import Release

#: Bytes of the file with the tables, at most.
_LARGEST = 1 << 32


@dataclass(frozen=True, eq=False)
class Tables:
    """True tables.

    Attributes:
        pairs: of all that could be chosen, at the top.
        leaves: of each of the `n_leaves`, how many records have each value, of one attribute after the other.
    """

    pairs: Mapping[Pair, IntArray]
    leaves: Counts
    n_leaves: int


def clique_findings(release: Release, secret: bytes | None) -> Iterator[Found]:
    """Whether budgets add up to the declared one, the cliques are such a choice, and the key chooses them."""
    choice = release.form.universes[0].cliques
    if choice is None:
        if (release.restricted / "choice.npz").exists():
            yield holds("statements", "choice of cliques", ["restricted/choice.npz is of one that the spec lacks"])
        return
    yield holds("statements", "choice of cliques", budget_problems(release, choice))
    if secret is None:
        return
    well = f"{choice.rounds} pairs drawn again"
    try:
        problems = redraw_problems(release, secret, choice)
    except TooWideError as error:
        problems, well = [], f"not tested: {error}"
    except FormError as error:
        problems = [str(error)]
    yield holds("choices redrawn", "cliques", problems, well=well)


def budget_problems(release: Release, choice: CliqueChoice) -> list[str]:
    """What is wrong with the declared budget, or with the cliques as an outcome of such a choice."""
    problems = []
    whole = exact_sum(universe.budget for universe in release.form.universes)
    if whole != choice.budget:
        problems.append(f"choice and measurements cost {whole}, declared is {choice.budget}")
    try:
        pairs = stated_pairs(choice)
    except ValueError as error:
        return [*problems, str(error)]
    for number, pair in enumerate(pairs):
        if pair not in choice.open_pairs(pairs[:number]):
            text = " x ".join(choice.cliques[number])
            problems.append(f"the pair {text} closes a cycle, or has too large a table, or makes others too large")
    alone = [(name,) for a, name in enumerate(choice.names) if not any(a in pair for pair in pairs)]
    if list(choice.cliques[len(pairs) :]) != alone:
        problems.append("the cliques are not the pairs and then the attributes that are in none")
    queries = {tuple(query.name.split(" * ")) for one in release.form.universes for _, query, _ in one.measured}
    if queries != set(choice.cliques):
        problems.append("what is measured is not the cliques")
    return problems


def stated_pairs(choice: CliqueChoice) -> list[Pair]:
    """The pairs in the order of their choice; ValueError where there are fewer than choices, and more could be."""
    pairs: list[Pair] = []
    for clique in choice.cliques[: choice.rounds]:
        numbers = sorted(choice.names.index(name) for name in clique)
        if len(numbers) == 1 and choice.further is not None and not choice.open_pairs(pairs):
            break
        if len(numbers) != 2 or numbers[0] == numbers[1]:
            raise ValueError(f"{' x '.join(clique)} is no pair; {choice.rounds} are chosen")
        pairs.append((numbers[0], numbers[1]))
    if len(pairs) != choice.rounds and choice.open_pairs(pairs):
        raise ValueError(f"found {len(pairs)} pairs; {choice.rounds} are chosen")
    return pairs


def read_tables(release: Release, choice: CliqueChoice) -> Tables:
    """What cliques were chosen by; FormError where restricted/ does not hold it."""
    path, pairs = release.restricted / "choice.npz", {}
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError("it is too large")
        with np.load(path, allow_pickle=False) as content:
            for pair in choice.possible:
                table = content["-".join(map(str, pair))]
                if table.shape != (math.prod(choice.sizes[a] for a in pair),) or table.dtype != np.int64:
                    raise ValueError(f"the table {pair} has another size")
                pairs[pair] = table
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise FormError(f"{path} cannot be read: {error}") from None
    leaves = release.spine[-1]
    return Tables(pairs, _values(release, choice, leaves), len(leaves.codes))


def _values(release: Release, choice: CliqueChoice, leaves: Level) -> Counts:
    """How many records of each leaf have each value of the attributes, from the cliques' true counts."""
    width, keys, counts = sum(choice.sizes), [], []
    for a, name in enumerate(choice.names):
        universe = next(one for one in release.form.universes if name in one.cells.names)
        own = release.truth(universe, leaves).answers(universe.cells.query(name))
        keys.append(own.geounits * width + sum(choice.sizes[:a]) + own.columns)
        counts.append(own.counts)
    return Counts.summed(width, np.concatenate(keys), np.concatenate(counts))


def redraw_problems(release: Release, secret: bytes, choice: CliqueChoice) -> list[str]:
    """Where tables, fingerprint or pairs are not what records and key give."""
    tables = read_tables(release, choice)
    problems = _truth_problems(release, choice, tables)
    records = fingerprint_of(secret, tables)
    label = f"published choice/{release.manifest['spec']['name']}/{choice.fingerprint()}"
    if choice.stated["records"] != keyed_hash(secret, label, records.encode()):
        problems.append("the fingerprint stated is not that of the tables in restricted/")
    found = choose_again(release, secret, choice, tables, records)
    stated = [tuple(sorted(choice.names.index(name) for name in clique)) for clique in choice.cliques[: len(found)]]
    if wrong := [number for number, pair in enumerate(found) if stated[number : number + 1] != [pair]]:
        first = wrong[0]
        names = " x ".join(choice.names[a] for a in found[first])
        said = " x ".join(choice.cliques[first]) if first < len(choice.cliques) else "none"
        problems.append(f"pair {first + 1} is stated as {said}; these records and this key choose {names}")
    return problems


def _truth_problems(release: Release, choice: CliqueChoice, tables: Tables) -> list[str]:
    """Tables of chosen pairs that are not the sums of the true counts of the universe that measures them."""
    problems, top = [], release.spine[0]
    for universe in release.form.universes:
        truth = release.truth(universe, top)
        for query in {query.name: query for _, query, _ in universe.measured}.values():
            numbers = sorted(choice.names.index(term) for term in query.name.split(" * "))
            own = truth.answers(query)
            whole = sums(query.size, own.columns, own.counts)
            if len(numbers) > 1 and not np.array_equal(whole, tables.pairs.get((numbers[0], numbers[-1]), ())):
                problems.append(f"the table of {query.name} in restricted/ is not that of the true counts")
    return problems


def fingerprint_of(secret: bytes, tables: Tables) -> str:
    """The keyed hash of the tables, pairs first."""
    hasher = hashlib.sha256(b"spinewise tables of a choice 2\0")
    for table in tables.pairs.values():
        hasher.update(table.astype("<i8").tobytes())
    hasher.update(counts_digest(tables.leaves, tables.n_leaves))
    return keyed_hash(secret, "input of a choice of cliques", hasher.digest())


def choose_again(release: Release, secret: bytes, choice: CliqueChoice, tables: Tables, records: str) -> list[Pair]:
    """The pairs that key and tables choose."""
    context = (records, release.spine_fingerprint, choice.fingerprint())
    mechanism, scale = choice.of_attributes
    whole = sums(tables.leaves.width, tables.leaves.columns, tables.leaves.counts)
    ones = []
    for name, own in zip(choice.names, np.split(whole, np.cumsum(choice.sizes)[:-1]), strict=True):
        stream = KeyedStream(secret, context, choice.top, f"attribute {name}")
        ones.append([n + drawn(mechanism, scale, stream.words(i)) for i, n in enumerate(own.tolist())])
    scores = {pair: score(choice, pair, table.tolist(), ones) for pair, table in tables.pairs.items()}
    stream = KeyedStream(secret, context, choice.top, "choice of pairs")
    found: list[Pair] = []
    while left := choice.open_pairs(found):
        losses = [-scores[pair] for pair in left]
        found.append(left[chosen(choice.scale, losses, stream.words(len(found)))])
    return found


def score(choice: CliqueChoice, pair: Pair, table: Sequence[int], ones: Sequence[Sequence[int]]) -> int:
    """How far a table is from that of independent attributes, less what its cells cost; times its weight."""
    first, second = ([max(0, n) for n in ones[a]] for a in pair)
    total = max(1, (sum(first) + sum(second) + 1) // 2)
    expected = ((2 * x * y + total) // (2 * total) for x in first for y in second)
    away = sum(abs(n - e) for n, e in zip(table, expected, strict=True))
    return choice.weights.get(pair, 1) * (away - math.floor(choice.penalty * len(table)))
