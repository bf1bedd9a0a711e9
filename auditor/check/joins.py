"""Whether the persons of every geounit can be the members of its households, as the spec's joins say.

The joins are read from the public spec as docs/spec.md describes them, cell by cell: how many members of a group of
persons live in one household of each cell.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auditor.check.counts import Counts
from auditor.check.files import LARGEST
from auditor.check.findings import Findings
from auditor.check.spec import Cells
from auditor.check.spine import PublicLevel
from auditor.reading.errors import FormError

#: In `JoinedGroup.most`: nothing limits the members.
NO_LIMIT = -1


@dataclass(frozen=True, eq=False)
class JoinedGroup:
    """A group of persons, and how many of them are members of one household.

    Attributes:
        join: what the spec calls the join.
        label: of the group.
        persons: `(n_cells,)` True for the cells of persons in the group.
        least: `(n_cells,)` members of one household in each cell of households, at least.
        most: `(n_cells,)` at most; -1 where nothing limits them.
    """

    join: str
    label: str
    persons: NDArray[np.bool_]
    least: NDArray[np.int64]
    most: NDArray[np.int64]


def joined_groups(join: Mapping[str, Any], persons: Cells, households: Cells) -> list[JoinedGroup]:
    """The groups of persons that an entry of the public spec's `join` limits.

    Raises:
        FormError: the entry is none that docs/spec.md describes.
    """
    form = next((form for form in _FORMS if form in join), None)
    try:
        if form is None:
            raise ValueError(f"it has none of the keys {', '.join(_FORMS)}")
        name = str(join.get("name") or f"{join['companion']} {' and '.join(join.get('present', [form]))}")
        groups = [JoinedGroup(name, *group) for group in _FORMS[form](join, persons, households)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FormError(f"public/manifest.json: a join of its spec cannot be understood: {reason}") from error
    if not join["others"]:
        return groups
    return [JoinedGroup(g.join, g.label, g.persons, g.least, np.full_like(g.most, NO_LIMIT)) for g in groups]


#: The label of a group, its cells of persons, and the least and most members for each cell of households.
_Group = tuple[str, NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]


def _of_size(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    least, most = np.zeros(households.size, dtype=np.int64), np.zeros(households.size, dtype=np.int64)
    for label in households.labels(join["size"]):
        size = re.fullmatch(r"([0-9]+)(\+?)", label)
        if size is None:
            raise ValueError(f"{label!r} of {join['size']!r} is no size of a household")
        these = households.fitting({join["size"]: [label]})
        least[these] = int(size[1])
        most[these] = join.get("most", NO_LIMIT) if size[2] else int(size[1])
    yield _in_words(join["where"]), persons.fitting(join["where"]), least, most


def _of_householder(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    terms: dict[str, str] = join["householder"]
    for values in itertools.product(*(persons.labels(term) for term in terms)):
        these = np.ones(households.size, dtype=np.bool_)
        for term, value in zip(terms.values(), values, strict=True):
            these &= households.fitting({term: [value]}) if value in households.labels(term) else False
        own = {term: [value] for term, value in zip(terms, values, strict=True)}
        one = these.astype(np.int64)
        group = persons.fitting(join["where"]) & persons.fitting(own)
        yield _in_words({**join["where"], **own}), group, one, one if join["exactly"] else np.full_like(one, NO_LIMIT)


def _of_present(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    these = households.fitting(join["present"])
    group = persons.fitting(join["where"]) & persons.fitting(join["members"])
    yield _in_words({**join["where"], **join["members"]}), group, these.astype(np.int64), np.where(these, NO_LIMIT, 0)


def _of_table(join: Mapping[str, Any], persons: Cells, households: Cells) -> Iterator[_Group]:
    own, theirs = persons.answers(join["persons"]), households.answers(join["households"])
    for label, row in join["table"].items():
        limits = [row[kind] for kind in theirs.labels]
        least = np.array([limit[0] for limit in limits], dtype=np.int64)
        most = np.array([limit[1] if len(limit) > 1 else NO_LIMIT for limit in limits], dtype=np.int64)
        yield label, own.of_cell == own.labels.index(label), least[theirs.of_cell], most[theirs.of_cell]


_FORMS = {"size": _of_size, "householder": _of_householder, "present": _of_present, "table": _of_table}


def _in_words(values: Mapping[str, Any]) -> str:
    return " * ".join(" or ".join(labels) for labels in values.values()) or "total"


def check_group(
    group: JoinedGroup,
    level: PublicLevel,
    persons: Counts,
    households: Counts,
    names: tuple[str, str],
    findings: Findings,
) -> None:
    """Report the geounits of a level in which the persons of a group are too few or too many for its households.

    Args:
        group: of persons.
        level: whose counts these are.
        persons, households: histograms of the level, as counts of cells.
        names: of the files of both.
        findings: to which they are added.
    """
    n = len(level.codes)
    found = _by_geounit(persons, group.persons.astype(np.int64), n)
    least = _by_geounit(households, group.least, n)
    most = _by_geounit(households, np.maximum(group.most, 0), n)
    unlimited = _by_geounit(households, (group.most == NO_LIMIT).astype(np.int64), n) > 0

    def sentence(at: int) -> str:
        allowed = f"{least[at]:,} or more" if unlimited[at] else f"{least[at]:,} to {most[at]:,}"
        low = found[at] < least[at]
        by = f"{least[at] - found[at]:,} too few" if low else f"{found[at] - most[at]:,} too many"
        return (
            f"{level.label(at)}, {group.label!r}: found {found[at]:,}, allowed {allowed} by the households in "
            f"{names[1]}, {by} (the join {group.join!r})"
        )

    broken = np.asarray((found < least) | ((found > most) & ~unlimited), dtype=np.bool_)
    findings.check(names[0], f"counts that break the join {group.join!r}").add(broken, sentence)


def _by_geounit(counts: Counts, weights: NDArray[np.int64], n: int) -> NDArray[Any]:
    """The sum of counts times the weight of their cell in each geounit, `(n,)`, exact."""
    large = float(np.abs(counts.counts).sum()) * max(int(weights.max(initial=0)), 1) > LARGEST
    out = np.zeros(n, dtype=object if large else np.int64)
    np.add.at(
        out, counts.geounits, (counts.counts.astype(object) if large else counts.counts) * weights[counts.columns]
    )
    return out
