"""Whether any release can keep the constraints: checked before the budget is spent, explained if none can.

By how many persons constraints contradict each other, and a proof of it: the programme with slack, by duality.

Constraints over a part of the spine as one linear programme: whether any histograms keep them.

The unknowns are persons in each geounit and *atom*: cells that the bounds from that level down do not distinguish.
A geounit's atoms are the sums of its children's; a bound is a row with a range.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from geography.spine import Spine
from postprocess.arrays import BoolArray, FloatArray, IntArray
from postprocess.bounds.declare import UNBOUNDED, merged, summed, trivial
from postprocess.errors import InfeasibleError
from postprocess.marginal import join
from postprocess.problem import Constraints, GroupBounds

#: A smaller violation, in persons, is the solver's error.
TOLERANCE = 1e-6
#: HiGHS' answer that a programme has no solution.
_INFEASIBLE = 2


@dataclass(frozen=True, eq=False)
class BoundStatement:
    """Bounds as they were declared: on the geounits of a level, or summed from those of the levels `below`."""

    bounds: GroupBounds
    below: str = ""


@dataclass(frozen=True, eq=False)
class SpineSection:
    """Some geounits of a level, the roots, with everything below them down to another level.

    Attributes:
        first: the roots' level; rows: which geounits of each level from there on.
        parents: per level, the parent's position among the section's geounits of the level above.
        atoms: per level, number of each possible cell's atom.
        statements: per level, with the rows of these geounits only.
    """

    first: int
    rows: tuple[slice, ...]
    parents: tuple[IntArray, ...]
    atoms: tuple[IntArray, ...]
    statements: tuple[tuple[BoundStatement, ...], ...]
    possible: BoolArray

    def size(self, level: int) -> tuple[int, int]:
        """Geounits and atoms of a level of the section."""
        rows = self.rows[level]
        return rows.stop - rows.start, int(self.atoms[level].max(initial=-1)) + 1

    @property
    def n_unknowns(self) -> int:
        """Geounits times atoms, summed over the levels."""
        return sum(int(np.prod(self.size(level))) for level in range(len(self.rows)))

    def group(self, level: int, statement: BoundStatement) -> IntArray:
        """The statement's answer that each atom of the level falls in, `(n_atoms,)`."""
        return self._of_atoms(level, statement.bounds.marginal.cell_answer[self.possible])

    def coarser(self, level: int) -> IntArray:
        """The atom of the level below that each atom of the level falls in."""
        return self._of_atoms(level, self.atoms[level + 1])

    def _of_atoms(self, level: int, numbers: IntArray) -> IntArray:
        """The number of each atom of a level, `(n_atoms,)`, of those of the possible cells."""
        out = np.zeros(self.size(level)[1], dtype=np.int64)
        out[self.atoms[level]] = numbers
        return out


def limits(statement: BoundStatement) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds as real numbers; upper ones are infinite where there is none."""
    upper = statement.bounds.upper.astype(np.float64)
    return statement.bounds.lower.astype(np.float64), np.where(upper >= UNBOUNDED, np.inf, upper)


@dataclass(frozen=True)
class Verdict:
    """Whether histograms keep the constraints, and whether whole numbers were found; None where this is unknown."""

    feasible: bool | None
    whole: bool | None


@dataclass(frozen=True, eq=False)
class Programme:
    """The bounds of a section as ranges of sums of its unknowns, none of which is negative.

    Attributes:
        sums: `(n_sums, n_unknowns)` an answer of a geounit in each row, where it is bounded.
        low, high: `(n_sums,)` its range, infinite where it has no upper bound.
        places: `(n_sums, 4)` its level in the section, statement, answer, and geounit.
        balance: `(n_families, n_unknowns)` a geounit less its children, atom by atom of theirs: each row is 0.
    """

    sums: sp.csr_array
    low: FloatArray
    high: FloatArray
    places: IntArray
    balance: sp.csr_array

    @classmethod
    def of(cls, part: SpineSection) -> Programme:
        """The programme of a section."""
        widths = [int(np.prod(part.size(level))) for level in range(len(part.rows))]
        sums, ends, places = [], [np.zeros((2, 0))], [np.zeros((0, 4), dtype=np.int64)]
        balance: list[list[sp.csr_array]] = []
        for level in range(len(part.rows)):
            n, n_atoms = part.size(level)
            own = [sp.csr_array((0, widths[level]))]
            for number, statement in enumerate(part.statements[level]):
                least, most = limits(statement)
                geounits, answers = np.nonzero((least > 0) | (most < np.inf))
                within = _indicator(part.group(level, statement), least.shape[1])
                own.append(sp.kron(sp.eye_array(n), within, "csr")[geounits * least.shape[1] + answers])
                ends.append(np.stack([least[geounits, answers], most[geounits, answers]]))
                here = np.full(len(geounits), level)
                places.append(np.column_stack([here, np.full_like(here, number), answers, geounits]))
            sums.append(sp.vstack(own, "csr"))
            if level:
                above = part.size(level - 1)[0]
                parents = sp.kron(sp.eye_array(above), _indicator(part.coarser(level - 1), n_atoms))
                children = sp.kron(_indicator(part.parents[level], above), sp.eye_array(n_atoms))
                pair = {level - 1: parents, level: -children}
                rows = above * n_atoms
                balance.append([pair.get(one, sp.csr_array((rows, width))) for one, width in enumerate(widths)])
        low, high = np.concatenate(ends, axis=1)
        return cls(
            sums=sp.block_diag(sums, "csr"),
            low=low,
            high=high,
            places=np.concatenate(places),
            balance=sp.block_array(balance, format="csr") if balance else sp.csr_array((0, sum(widths))),
        )


def _indicator(group: IntArray, size: int) -> sp.csr_array:
    """Which things are in each group, `(size, n)` zeros and ones, by the group of each, `(n,)`."""
    return sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))), shape=(size, len(group)))


def decide(part: SpineSection, *, whole: bool = False, seconds: float = 60.0) -> Verdict:
    """Whether any histograms keep the section's constraints; `whole`: in whole numbers."""
    programme = Programme.of(part)
    # Most facilities are in few areas: what is 0 where there are none needs no unknown.
    some = np.flatnonzero(programme.sums.T @ (programme.high == 0) == 0)
    if (programme.low > programme.high).any() or not len(some):
        fits = bool((programme.low <= np.minimum(programme.high, 0)).all())
        return Verdict(fits, fits)
    from scipy.optimize import LinearConstraint, milp

    sums, balance = programme.sums[:, some], programme.balance[:, some]
    constraints = [LinearConstraint(sums, programme.low, programme.high), LinearConstraint(balance, 0.0, 0.0)]
    del programme
    result = milp(
        np.zeros(len(some)),
        integrality=np.full(len(some), int(whole)),
        constraints=[one for one in constraints if one.A.shape[0]],
        options={"time_limit": seconds},
    )
    if result.status == _INFEASIBLE:
        return Verdict(False, False)
    if result.x is None:
        return Verdict(None, None)
    integral = whole or bool((np.abs(result.x - np.rint(result.x)) < TOLERANCE).all())
    return Verdict(True, True if integral else None)


@dataclass(frozen=True, order=True)
class RowKey:
    """One answer of a statement at a level of a section, in all its geounits: its lower (`at_least`) or upper bound."""

    level: int
    statement: int
    answer: int
    at_least: bool


@dataclass(frozen=True, eq=False)
class Shortfall:
    """The least number of persons by which the bounds have to be relaxed, and the geounits whose bounds require it.

    Attributes:
        persons: the smallest sum of violations.
        rows: the bounds that a proof of that rests on, with the positions of their geounits in the section's level.
    """

    persons: float
    rows: dict[RowKey, IntArray]


def shortfall(part: SpineSection, among: Collection[RowKey] | None = None) -> Shortfall:
    """The smallest violation of the section's bounds (only of those in `among`), with a proof by duality."""
    programme = Programme.of(part)
    at_least, at_most = np.flatnonzero(programme.low > 0), np.flatnonzero(programme.high < np.inf)
    rows, sign = np.concatenate([at_least, at_most]), np.repeat([-1.0, 1.0], [len(at_least), len(at_most)])
    stated, key_of = np.unique(np.column_stack([programme.places[rows, :3], sign < 0]), axis=0, return_inverse=True)
    keys = [RowKey(level, statement, answer, bool(least)) for level, statement, answer, least in stated.tolist()]
    used = np.flatnonzero(np.array([among is None or key in among for key in keys], dtype=bool)[key_of])
    if not len(used):
        return Shortfall(0.0, {})
    rows, sign, key_of = rows[used], sign[used], key_of[used]
    limit = np.where(sign < 0, -programme.low[rows], programme.high[rows])
    demands = sp.hstack([sp.diags_array(sign) @ programme.sums[rows], -sp.eye_array(len(rows))], "csr")
    n_sums, n_unknowns = programme.balance.shape
    balance = sp.hstack([programme.balance, sp.csr_array((n_sums, len(rows)))], "csr")
    cost = np.repeat([0.0, 1.0], [n_unknowns, len(rows)])
    equalities = {"A_eq": balance, "b_eq": np.zeros(n_sums)} if n_sums else {}
    from scipy.optimize import linprog

    result = linprog(cost, A_ub=demands, b_ub=limit, method="highs", **equalities)
    if result.status != 0:
        return Shortfall(0.0, {})
    proof = np.abs(result.ineqlin.marginals) > TOLERANCE
    geounits = {key: programme.places[rows[proof & (key_of == number)], 3] for number, key in enumerate(keys)}
    return Shortfall(float(result.fun), {key: own for key, own in geounits.items() if len(own)})


logger = logging.getLogger(__name__)

#: Unknowns of the linear programme above which it is not attempted.
MOST_UNKNOWNS = 5_000_000
#: Geounits that a message explains, and codes that it names in one place.
_EXPLAINED, _NAMED = 3, 3
#: Bounds in a proof: up to how many it is shortened as far as possible, and how many count as few.
_MOST_SHORTENED, _FEW = 40, 5
#: Unknowns of a geounit's programme above which it is explained alone, with the proof as the solver gave it.
_LARGE = 20_000
#: Seconds for the search for whole numbers, where the linear programme's solution has fractions.
_SECONDS = 10.0


def check_feasible(
    spine: Spine,
    shape: Sequence[int],
    constraints: Constraints,
    labels: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Refuse constraints that no whole-number histograms keep.

    First the bounds are added up the spine as long as only one query is bounded. What is left is one linear programme
    over the upper levels and, where its solution has fractions, an integer programme. If that finds no answer in time,
    which can happen only with queries that cross each other, a warning is logged.

    Args:
        spine: the geounits.
        shape: number of values of each attribute.
        constraints: as declared (see `constraints.declare`), so that messages name what was stated; propagated ones
            give the same answer.
        labels: name of a query -> labels of its answers, for the message.

    Raises:
        InfeasibleError: no histograms keep the constraints. The message names the lowest geounits at which they
            contradict each other, the bounds that do, and by how many persons these would have to be relaxed.
    """
    possible = ~constraints.structural_zeros
    if possible.shape != (int(np.prod(shape)),):
        raise ValueError(f"structural_zeros must have {int(np.prod(shape))} cells, got {possible.shape}")
    levels, failing = _folded(spine, constraints, possible)
    stated = StatedBounds(spine, levels, possible, labels or {})
    if failing:
        raise InfeasibleError(stated.message(len(levels) - 1, failing, complete=True))
    if len(levels) == 1 and (len(merged(statement.bounds for statement in levels[0])) <= 1 or not possible.any()):
        return
    everything = stated.section(0, slice(0, len(spine.levels[0])))
    if everything.n_unknowns > MOST_UNKNOWNS:
        logger.warning("there are too many constraints to be checked as a whole before the run")
        return
    verdict = decide(everything)
    if verdict.feasible and verdict.whole is None:
        verdict = decide(everything, whole=True, seconds=_SECONDS)
        if verdict.feasible is False:
            raise InfeasibleError(stated.no_whole_numbers())
    if verdict.feasible is None:
        logger.warning("it could not be decided in time whether whole numbers keep the constraints")
    if verdict.feasible is False:
        raise InfeasibleError(stated.message(*stated.lowest(whole=False), complete=False))


def _folded(
    spine: Spine, constraints: Constraints, possible: BoolArray
) -> tuple[list[list[BoundStatement]], list[int]]:
    """The statements of the upper levels, and the geounits of the last of these that cannot keep theirs.

    From the leaves up, as long as all bounds are on one query, they are summed to the level above.
    """
    below: list[BoundStatement] = []
    level = spine.n_levels - 1
    names: list[str] = []
    while True:
        own = [
            BoundStatement(bound)
            for bound in constraints.bounds[level]
            if not trivial(bound) or (bound.upper < 0).any()
        ]
        statements = [*own, *below]
        together = merged(statement.bounds for statement in statements)
        if own:
            names.insert(0, spine.level_names[level])
        wrong = np.zeros(len(spine.levels[level]), dtype=bool)
        for bound in together:
            wrong |= (bound.lower > bound.upper).any(axis=1) | (bound.upper < 0).any(axis=1)
            wrong |= (bound.lower[:, _impossible(bound, possible)] > 0).any(axis=1)
        if wrong.any() or (len(together) > 1 and possible.any()) or level == 0:
            stated = [[BoundStatement(b) for b in upper if not trivial(b)] for upper in constraints.bounds[:level]]
            return [*stated, statements], np.flatnonzero(wrong).tolist()
        starts = spine.child_offsets(level - 1)[:-1]
        below = [BoundStatement(summed(bound, starts), " and ".join(names)) for bound in together]
        level -= 1


def _impossible(bound: GroupBounds, possible: BoolArray) -> BoolArray:
    """`(size,)` answers that no possible cell falls in."""
    out = np.ones(bound.marginal.size, dtype=bool)
    out[bound.marginal.cell_answer[possible]] = False
    return out


@dataclass(frozen=True, eq=False)
class StatedBounds:
    """The constraints as they are stated on the upper levels of a spine.

    Attributes:
        spine: the geounits.
        levels: per level what is stated; below the last one nothing is.
        possible: `(n_cells,)` which cells are no structural zeros.
        labels: name of a query -> labels of its answers, for messages.
    """

    spine: Spine
    levels: Sequence[Sequence[BoundStatement]]
    possible: BoolArray
    labels: Mapping[str, Sequence[str]]

    def section(self, first: int, roots: slice) -> SpineSection:
        """The roots `roots` of level `first` with all below them, down to the last level that anything is stated of."""
        rows, parents, atoms, statements = [roots], [np.zeros(roots.stop - roots.start, dtype=np.int64)], [], []
        for level in range(first, len(self.levels)):
            own_rows = rows[-1]
            lower_levels = [statement.bounds.marginal for below in self.levels[level:] for statement in below]
            _, numbers = np.unique(join(lower_levels).cell_answer[self.possible], return_inverse=True)
            atoms.append(numbers)
            own = self.levels[level]
            statements.append(tuple(replace(one, bounds=one.bounds.of_rows(own_rows)) for one in own))
            if level + 1 < len(self.levels):
                offsets = self.spine.child_offsets(level)
                rows.append(slice(int(offsets[own_rows.start]), int(offsets[own_rows.stop])))
                parents.append(self.spine.levels[level + 1].parents[rows[-1]] - own_rows.start)
        return SpineSection(first, tuple(rows), tuple(parents), tuple(atoms), tuple(statements), self.possible)

    def lowest(self, *, whole: bool) -> tuple[int, list[int]]:
        """The lowest level at which a geounit cannot keep the constraints on it and below, and the first such ones."""
        for level in range(len(self.levels) - 1, -1, -1):
            everyone = slice(0, len(self.spine.levels[level]))
            failing = []
            for root in self._failing(level, everyone, whole):
                failing.append(root)
                if len(failing) > _EXPLAINED:
                    break
            if failing:
                return level, failing
        return 0, [0]

    def _failing(self, level: int, roots: slice, whole: bool) -> Iterator[int]:
        """The geounits among `roots` that cannot keep the constraints on them and below, by bisection."""
        verdict = decide(self.section(level, roots), whole=whole, seconds=_SECONDS)
        if verdict.feasible is not False:
            return
        if roots.stop - roots.start == 1:
            yield roots.start
            return
        middle = (roots.start + roots.stop) // 2
        yield from self._failing(level, slice(roots.start, middle), whole)
        yield from self._failing(level, slice(middle, roots.stop), whole)

    def message(self, level: int, roots: Sequence[int], *, complete: bool) -> str:
        """By how many persons the constraints of geounits contradict each other; `complete`: of all such geounits."""
        lines = ["the constraints contradict each other:"]
        for root in roots[:_EXPLAINED]:
            rows = slice(root, root + 1)
            part = self.section(level, rows)
            unlimited = replace(self, possible=np.ones_like(self.possible)).section(level, rows)
            lines.append(f"{self._name(level, root)}, {self._explained(part, unlimited)}")
            if part.n_unknowns > _LARGE:
                break
        if more := len(roots) - len(lines) + 1:
            # The search of `lowest` ends with the first geounit that is not explained.
            number = f"{more:,} more geounit{'s' if more > 1 else ''}" if complete else "more geounits"
            lines.append(f"and {number} of level {self.spine.level_names[level]}")
        return "\n  ".join(lines)

    def _name(self, level: int, index: int) -> str:
        return f"{self.spine.level_names[level]} {self.spine.levels[level].geocodes[index]}"

    def _explained(self, part: SpineSection, unlimited: SpineSection) -> str:
        """By how many persons one root's constraints contradict each other, and which they are.

        `unlimited` is the same section without structural zeros.
        """
        proof = _shortened(part, shortfall(part))
        persons = max(1, int(np.ceil(proof.persons - 1e-3)))
        texts: list[str] = []
        for key in sorted(proof.rows, key=lambda row: (row.level, row.statement, row.answer, not row.at_least)):
            texts.append(self._bound_text(part, key, proof))
        texts = list(dict.fromkeys(text for text in texts if text))
        if not part.possible.all() and shortfall(unlimited, proof.rows).persons < proof.persons - 1e-3:
            texts.append("structural zeros: combinations that this needs are impossible")
        return f"by {persons:,} person{'s' if persons > 1 else ''}: " + "; ".join(texts)

    def _bound_text(self, part: SpineSection, key: RowKey, proof: Shortfall) -> str:
        """One bound as text: what it requires, its name, and its geounits if they are not the root itself."""
        statement = part.statements[key.level][key.statement]
        bounds = statement.bounds
        geounits = proof.rows[key]
        low = int(bounds.lower[geounits, key.answer].sum())
        high = int(bounds.upper[geounits, key.answer].sum())
        opposite = replace(key, at_least=not key.at_least)
        if low == high and opposite in proof.rows and not key.at_least:
            return ""
        amount = low if key.at_least else high
        relation = "" if not high else "exactly " if low == high else "at least " if key.at_least else "at most "
        answer = self._answer(bounds, key.answer)
        summed = len(geounits) > 1 or bool(statement.below)
        text = f"{answer} {'adds up to' if summed else 'is'} {relation}{amount:,}"
        source = bounds.name
        if statement.below:
            source += f" at level {statement.below}"
        where = ""
        if key.level:
            level = part.first + key.level
            start = part.rows[key.level].start
            codes = [str(self.spine.levels[level].geocodes[start + i]) for i in geounits[:_NAMED]]
            more = f" and {len(geounits) - _NAMED:,} more" if len(geounits) > _NAMED else ""
            where = f" in {self.spine.level_names[level]} {', '.join(codes)}{more}"
        return f"{text}{where} ({source})"

    def _answer(self, bounds: GroupBounds, answer: int) -> str:
        name = bounds.marginal.name
        if bounds.marginal.size == 1:
            return name
        known = self.labels.get(name)
        return f"{name} = {known[answer]}" if known is not None else f"{name} (answer {answer + 1})"

    def no_whole_numbers(self) -> str:
        """That fractions keep the constraints of the lowest geounits which no whole numbers do."""
        level, roots = self.lowest(whole=True)
        names = list(dict.fromkeys(statement.bounds.name for upper in self.levels[level:] for statement in upper))
        return (
            f"the constraints contradict each other:\n  {self._name(level, roots[0])}: fractions of persons would keep "
            f"them all ({', '.join(names)}), but no whole numbers do"
        )


def _shortened(part: SpineSection, proof: Shortfall) -> Shortfall:
    """A proof from which no bound can be left out: for as many persons or, if that takes many bounds, for fewer."""
    if len(proof.rows) > _MOST_SHORTENED or part.n_unknowns > _LARGE:
        return proof
    for least in (proof.persons - 1e-3, 1e-3):
        for key in sorted(proof.rows, reverse=True):
            fewer = shortfall(part, [row for row in proof.rows if row != key])
            if fewer.persons > least:
                proof = fewer
        if len(proof.rows) <= _FEW:
            break
    return proof
